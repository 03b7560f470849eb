package screen

import (
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/ansi/parser"
)

// ignoreState swallows a control sequence that can't be one, to its end; x/ansi's table has no such state.
const ignoreState parser.State = parser.Utf8State + 1

// transitions is x/ansi's table of states (after the VT500's, vt100.net/emu/dec_ansi_parser), put right for a stream of
// UTF-8: there, bytes above 0x7f belong to characters and are never controls of their own, so that the 0x9c inside
// "本" doesn't end a title; and a malformed sequence is swallowed, not printed.
var transitions = correctedTable()

func correctedTable() parser.TransitionTable {
	t := parser.GenerateTransitionTable()
	for s := parser.CsiEntryState; s <= ignoreState; s++ {
		action := parser.IgnoreAction
		if s == parser.OscStringState || s == parser.DcsStringState || s >= parser.SosStringState && s <= parser.ApcStringState {
			action = parser.PutAction
		}
		t.AddRange(0x7f, 0xff, s, action, s)
	}
	for b := range byte(0x20) {
		if b != 0x18 && b != 0x1a && b != 0x1b {
			t.AddOne(b, ignoreState, parser.ExecuteAction, ignoreState)
		}
	}
	t.AddMany([]byte{0x18, 0x1a}, ignoreState, parser.ExecuteAction, parser.GroundState)
	t.AddOne(0x1b, ignoreState, parser.ClearAction, parser.EscapeState)
	t.AddRange(0x20, 0x3f, ignoreState, parser.IgnoreAction, ignoreState)
	t.AddRange(0x40, 0x7e, ignoreState, parser.IgnoreAction, parser.GroundState)
	t.AddRange(0x3c, 0x3f, parser.CsiParamState, parser.IgnoreAction, ignoreState)
	t.AddRange(0x30, 0x3f, parser.CsiIntermediateState, parser.IgnoreAction, ignoreState)
	t.AddOne(0x1b, parser.DcsEntryState, parser.ClearAction, parser.EscapeState)
	t.AddOne('k', parser.EscapeState, parser.StartAction, parser.PmStringState) // the window's name, in screen's terminals
	return t
}

// Bounds of one sequence.
const (
	maxParams = 32
	maxParam  = 1<<16 - 1
	maxData   = 64 << 10 // of an OSC or DCS string, in bytes; longer ones are ignored
	maxOpen   = 4 << 10  // of a sequence that a redraw finds open and hands on
)

// sequence is the one being parsed.
type sequence struct {
	state  parser.State
	cmd    ansi.Cmd
	bad    bool // too many parameters or intermediates: it has no effect
	params [maxParams]ansi.Param
	n      int // of params
	data   []byte
	long   bool   // data ran over
	open   []byte // its bytes so far, for a redraw in its middle; at most maxOpen+1
	utf    [utf8.UTFMax]byte
	utfLen int // bytes of a character begun
}

// panicked is told of panics by tests, which would miss them else.
var panicked func(any)

// Write takes in output. It never fails: what makes no sense leaves the screen as it was.
func (s *Screen) Write(p []byte) (n int, err error) {
	defer func() {
		if r := recover(); r != nil { // a program's bytes must never end the host
			if panicked != nil {
				panicked(r)
			}
			s.seq = sequence{}
		}
	}()
	for i := 0; i < len(p); {
		if s.seq.state != parser.GroundState {
			s.step(p[i])
			i++
			continue
		}
		i += s.ground(p[i:])
	}
	return len(p), nil
}

// ground takes in the start of p, outside sequences, and says how many bytes that were.
func (s *Screen) ground(p []byte) int {
	if s.seq.utfLen > 0 {
		return s.continueRune(p[0])
	}
	switch b := p[0]; {
	case b >= 0x20 && b < 0x7f:
		n := 1
		for n < len(p) && p[n] >= 0x20 && p[n] < 0x7f {
			n++
		}
		s.printASCII(p[:n])
		return n
	case b >= utf8.RuneSelf:
		if r, n := utf8.DecodeRune(p); n > 1 {
			s.printRune(r)
			return n
		}
		return s.continueRune(b)
	case b == 0x1b:
		if n := s.wholeCSI(p); n > 0 {
			return n
		}
		s.step(b)
		return 1
	default:
		s.execute(b)
		return 1
	}
}

// continueRune collects a character whose bytes came apart, or that isn't one: that prints nothing.
func (s *Screen) continueRune(b byte) int {
	q := &s.seq
	if b < utf8.RuneSelf {
		q.utfLen = 0
		return 0
	}
	if q.utfLen == 0 {
		if s.last = -1; b < 0xc2 || b > 0xf4 {
			return 1
		}
	}
	q.utf[q.utfLen] = b
	q.utfLen++
	want := 2
	if q.utf[0] >= 0xf0 {
		want = 4
	} else if q.utf[0] >= 0xe0 {
		want = 3
	}
	if q.utfLen < want {
		return 1
	}
	q.utfLen = 0
	if r, n := utf8.DecodeRune(q.utf[:want]); n == want {
		s.printRune(r)
	}
	return 1
}

// wholeCSI handles a plain control sequence that is whole in p, without the table: most are. It gives 0 for others.
func (s *Screen) wholeCSI(p []byte) int {
	if len(p) < 3 || p[1] != '[' {
		return 0
	}
	q := &s.seq
	q.clear()
	i := 2
	if p[i] >= '<' && p[i] <= '?' {
		q.cmd |= ansi.Cmd(p[i]) << parser.PrefixShift
		i++
	}
	for ; i < len(p); i++ {
		switch b := p[i]; {
		case b >= '0' && b <= ';':
			q.param(b)
		case b >= 0x40 && b < 0x7f:
			q.cmd |= ansi.Cmd(b)
			q.endParams()
			s.csi()
			return i + 1
		default:
			return 0
		}
	}
	return 0
}

func (q *sequence) clear() {
	q.cmd, q.n, q.bad, q.data = 0, 0, false, q.data[:0]
	q.params[0] = parser.MissingParam
}

// param takes in a byte of the parameters.
func (q *sequence) param(b byte) {
	if q.n >= maxParams {
		q.bad = true
		return
	}
	v := &q.params[q.n]
	switch b {
	case ':':
		*v |= parser.HasMoreFlag
		fallthrough
	case ';':
		if q.n++; q.n < maxParams {
			q.params[q.n] = parser.MissingParam
		}
	default:
		d := int(b - '0')
		if n := v.Param(0); *v == parser.MissingParam || n == 0 {
			*v = ansi.Param(d)
		} else {
			*v = ansi.Param(min(n*10+d, maxParam))
		}
	}
}

// endParams counts the last parameter in.
func (q *sequence) endParams() {
	if q.n < maxParams && (q.n > 0 || q.params[0] != parser.MissingParam) {
		q.n++
	}
}

// step takes in one byte inside a sequence, or the ESC before it.
func (s *Screen) step(b byte) {
	q := &s.seq
	state, action := transitions.Transition(q.state, b)
	if q.state == parser.EscapeState && state != parser.EscapeState || b == 0x1b {
		if b == 0x1b && action == parser.DispatchAction {
			s.dispatch(b) // a string that ESC ends
		}
		q.clear()
	}
	if b == 0x1b {
		q.open = q.open[:0]
	}
	if len(q.open) <= maxOpen && action != parser.ExecuteAction { // what was executed is done
		q.open = append(q.open, b)
	}
	before := q.state
	q.state = state
	switch {
	case b == 0x1b:
	case action == parser.ExecuteAction && b != 0x18 && b != 0x1a:
		s.execute(b)
	case action == parser.PrefixAction:
		q.cmd |= ansi.Cmd(b) << parser.PrefixShift
	case action == parser.CollectAction:
		q.bad = q.bad || q.cmd.Intermediate() != 0
		q.cmd |= ansi.Cmd(b) << parser.IntermedShift
	case action == parser.ParamAction:
		q.param(b)
	case action == parser.StartAction:
		q.data, q.long = q.data[:0], false
		if before >= parser.DcsEntryState && before <= parser.DcsParamState {
			q.cmd |= ansi.Cmd(b)
			q.endParams()
		}
	case action == parser.PutAction:
		q.put(b)
	case action == parser.DispatchAction:
		q.state = before // dispatch asks which kind ended
		s.dispatch(b)
		q.state = state
	}
}

func (q *sequence) put(b byte) {
	if len(q.data) >= maxData {
		q.long = true
		return
	}
	q.data = append(q.data, b)
}

// dispatch acts on the sequence that ended with b.
func (s *Screen) dispatch(b byte) {
	q := &s.seq
	switch q.state {
	case parser.CsiEntryState, parser.CsiParamState, parser.CsiIntermediateState:
		q.cmd |= ansi.Cmd(b)
		q.endParams()
		s.csi()
	case parser.EscapeState, parser.EscapeIntermediateState:
		q.cmd |= ansi.Cmd(b)
		if !q.bad {
			s.esc(q.cmd)
		}
		s.last = -1
	case parser.OscStringState:
		if !q.long {
			s.osc(q.data, b == 0x07)
		}
		s.last = -1
	case parser.DcsStringState:
		if !q.long && !q.bad {
			s.dcs(q.cmd, q.data)
		}
		s.last = -1
	}
	if cap(q.data) > 4096 {
		q.data = nil // one long string must not weigh on an idle host
	}
}

// Ground says whether no sequence and no character is open, so that other bytes may be put in.
func (s *Screen) Ground() bool { return s.seq.state == parser.GroundState && s.seq.utfLen == 0 }

// execute acts on a control character.
func (s *Screen) execute(b byte) {
	switch b {
	case 0x07:
		s.bell = true
	case 0x08:
		s.backspace()
	case 0x09:
		s.tab()
	case 0x0a, 0x0b, 0x0c:
		s.lineFeed(s.eraseCell())
		if s.modes.newline {
			s.x = 0
		}
	case 0x0d:
		s.x = 0
	case 0x0e, 0x0f:
		s.charsets.shift = 0x0f - b
		s.setBrush()
	}
	s.last = -1
}
