package host

import (
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"perdure/workspace/wire"
)

// quietAfter is how long after its last output a session counts as quiet. It is told once, so that nobody has to ask.
const quietAfter = 3 * time.Second

// answered is how long after a bell or a notification printed text means that the program went on by itself: what
// belongs to the notification is printed at once.
const answered = time.Second

// notice is what the program last called for a person with.
type notice struct {
	Kind string    `json:"kind"` // bell or osc
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// activity is what the output and the input say of the program's state. The host's mu guards it.
type activity struct {
	scan      scanner
	notice    *notice
	mark      string // of OSC 133: prompt or command; "" where the shell marks nothing
	progress  bool   // OSC 9;4: a progress bar is shown
	lastInput time.Time
	quiet     *time.Timer // armed while the session prints
}

// saw takes in output. It says whether something changed that a watcher must be told.
func (a *activity) saw(p []byte, now time.Time) bool {
	before, mark, progress := a.notice, a.mark, a.progress
	printed, calls := a.scan.feed(p)
	if printed && a.notice != nil && now.Sub(a.notice.At) > answered {
		a.notice = nil
	}
	for _, c := range calls {
		a.take(c, now)
	}
	return a.notice != before || a.mark != mark || a.progress != progress
}

func (a *activity) take(c call, now time.Time) {
	switch {
	case c.code == codeBell:
		if a.notice == nil || a.notice.Kind == "bell" { // a notification says more than the bell beside it
			a.notice = &notice{Kind: "bell", Text: "the bell rang", At: now}
		}
	case c.code == "133":
		switch {
		case strings.HasPrefix(c.text, "A"), strings.HasPrefix(c.text, "B"), strings.HasPrefix(c.text, "D"):
			a.mark = "prompt"
		case strings.HasPrefix(c.text, "C"):
			a.mark, a.notice = "command", nil
		}
	case c.code == "9" && (c.text == "4" || strings.HasPrefix(c.text, "4;")):
		a.progress = len(c.text) > 2 && c.text[2] != '0' // ConEmu's progress bar: no call for anybody
	case c.code == "9":
		a.notice = &notice{Kind: "osc", Text: c.text, At: now}
	case c.code == "777":
		if text, ok := strings.CutPrefix(c.text, "notify;"); ok {
			a.notice = &notice{Kind: "osc", Text: strings.Replace(text, ";", ": ", 1), At: now}
		}
	}
}

// typed notes that a person answered.
func (a *activity) typed(now time.Time) (changed bool) {
	a.lastInput = now
	changed = a.notice != nil
	a.notice = nil
	return changed
}

// noticed is called with each output, mu held: it wakes those who watch at a change, at the first output after a
// quiet time, and at the next quiet time.
func (h *host) noticed(p []byte) {
	changed := h.act.saw(p, h.last)
	if h.act.quiet == nil {
		changed = true
		h.act.quiet = time.AfterFunc(quietAfter, h.nowQuiet)
	}
	if changed {
		h.wake()
	}
}

func (h *host) nowQuiet() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if left := quietAfter - time.Since(h.last); left > 0 {
		h.act.quiet.Reset(left)
		return
	}
	h.act.quiet = nil
	h.wake()
}

// answeredByInput notes that a person typed; mu is held.
func (h *host) answeredByInput() {
	h.bell = false
	if h.act.typed(time.Now()) {
		h.wake()
	}
}

// wake tells the watchers to look; mu is held.
func (h *host) wake() {
	for ch := range h.watchers {
		select {
		case ch <- struct{}{}:
		default: // told already
		}
	}
}

// watch sends the status again whenever it changed, until the viewer leaves or the session ends.
func (v *viewer) watch() {
	h := v.h
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	h.watchers[ch] = struct{}{}
	h.mu.Unlock()
	h.conns.Go(func() {
		defer func() {
			h.mu.Lock()
			delete(h.watchers, ch)
			h.mu.Unlock()
		}()
		for {
			select {
			case <-v.left:
				return
			case <-h.ended:
				return
			case <-ch:
				if v.answer(h.status(), func(b []byte) wire.Frame { return wire.Status{JSON: b} }) != nil {
					return
				}
			}
		}
	})
}

// foreground is the terminal's foreground process group, 0 where it can't be told.
func (h *host) foreground() (group int) {
	h.control(func(fd int) {
		if g, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil {
			group = g
		}
	})
	return group
}

// call is a bell or an OSC sequence that may be meant for a person.
type call struct{ code, text string }

const codeBell = "bell"

// maxCall bounds what is kept of one OSC sequence; maxCalls how many of one piece of output are looked at.
const (
	maxCall  = 1 << 10
	maxCalls = 64
)

// scanner finds bells and the OSC sequences 9, 133 and 777 in output, wherever it is cut. ECMA-48 has the grammar:
// OSC is ESC ], ended by BEL or ESC \; within DCS, PM, APC and SOS a BEL rings nothing.
type scanner struct {
	state byte // 0 ground, 'e' after ESC, 'c' in a CSI, 'o' in an OSC, 's' in another string
	esc   bool // an ESC within a string
	osc   []byte
}

func (s *scanner) feed(p []byte) (printed bool, calls []call) {
	for _, b := range p {
		c, text := s.step(b)
		printed = printed || text
		if c != nil && len(calls) < maxCalls {
			calls = append(calls, *c)
		}
	}
	return printed, calls
}

func (s *scanner) step(b byte) (c *call, printed bool) {
	switch s.state {
	case 'e':
		s.state = 0
		switch {
		case b == ']':
			s.state, s.osc, s.esc = 'o', s.osc[:0], false
		case b == '[':
			s.state = 'c'
		case b == 'P' || b == '^' || b == '_' || b == 'X':
			s.state, s.esc = 's', false
		case b >= 0x20 && b <= 0x2f: // an intermediate: the final byte is still to come
			s.state = 'e'
		}
	case 'c':
		if b >= 0x40 && b <= 0x7e {
			s.state = 0
		} else if b == 0x1b {
			s.state = 'e'
		}
	case 'o', 's':
		return s.inString(b), false
	default:
		switch {
		case b == 0x1b:
			s.state = 'e'
		case b == 7:
			return &call{code: codeBell}, false
		case b > ' ' && b != 0x7f:
			return nil, true
		}
	}
	return nil, false
}

func (s *scanner) inString(b byte) *call {
	switch {
	case b == 0x18 || b == 0x1a: // CAN and SUB end any sequence without effect
		s.state = 0
	case s.esc:
		was := s.state
		s.state, s.esc = 0, false
		if b != '\\' { // another sequence began: the string was never ended
			s.state = 'e'
			c, _ := s.step(b)
			return c
		}
		if was == 'o' {
			return s.ended()
		}
	case b == 0x1b:
		s.esc = true
	case b == 7 && s.state == 'o':
		s.state = 0
		return s.ended()
	case s.state == 'o' && len(s.osc) < maxCall:
		s.osc = append(s.osc, b)
	}
	return nil
}

// ended is the OSC that was just closed, if it is one of those that count.
func (s *scanner) ended() *call {
	code, text, _ := strings.Cut(string(s.osc), ";")
	if code != "9" && code != "133" && code != "777" {
		return nil
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "�")
	}
	return &call{code: code, text: text}
}
