package screen

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/ansi/parser"
)

// inputModes are the private modes that a redraw sets again: they say what a client's terminal sends, and how text
// wraps. The alternate screen and synchronised output are not among them: the first is drawn, the second never left on.
var inputModes = []int{1, 5, 7, 9, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004}

// modes tracks what the emulator doesn't tell.
type modes struct {
	parser *ansi.Parser
	set    map[int]bool
	kitty  []int // the stack of keyboard flags
	other  int   // modifyOtherKeys
	keypad bool
	style  int // DECSCUSR
	title  string
	bell   bool
}

func newModes() *modes {
	m := &modes{parser: ansi.NewParser()}
	m.reset()
	m.parser.SetHandler(ansi.Handler{HandleCsi: m.csi, HandleEsc: m.esc, HandleOsc: m.osc, Execute: func(b byte) {
		if b == 0x07 {
			m.bell = true
		}
	}})
	return m
}

func (m *modes) reset() {
	m.set = map[int]bool{7: true, 25: true}
	m.kitty, m.other, m.keypad, m.style = nil, 0, false, 0
}

func (m *modes) write(p []byte) { m.parser.Parse(p) }

// ground is true between sequences and characters.
func (m *modes) ground() bool { return m.parser.State() == parser.GroundState }

func (m *modes) hidden() bool { return !m.set[25] }

func (m *modes) csi(cmd ansi.Cmd, params ansi.Params) {
	first, _, _ := params.Param(0, 0)
	switch {
	case cmd.Prefix() == '?' && (cmd.Final() == 'h' || cmd.Final() == 'l') && cmd.Intermediate() == 0:
		for i := range params {
			if n, _, ok := params.Param(i, 0); ok {
				m.set[n] = cmd.Final() == 'h'
			}
		}
	case cmd.Prefix() == '>' && cmd.Final() == 'u':
		if len(m.kitty) < 32 {
			m.kitty = append(m.kitty, first)
		}
	case cmd.Prefix() == '<' && cmd.Final() == 'u':
		m.kitty = m.kitty[:max(0, len(m.kitty)-max(first, 1))]
	case cmd.Prefix() == '=' && cmd.Final() == 'u':
		if len(m.kitty) == 0 {
			m.kitty = []int{0}
		}
		m.kitty[len(m.kitty)-1] = first
	case cmd.Prefix() == '>' && cmd.Final() == 'm' && first == 4:
		m.other, _, _ = params.Param(1, 0)
	case cmd.Intermediate() == ' ' && cmd.Final() == 'q':
		m.style = first
	case cmd.Intermediate() == '!' && cmd.Final() == 'p':
		m.reset()
	}
}

func (m *modes) esc(cmd ansi.Cmd) {
	switch {
	case cmd.Intermediate() != 0:
	case cmd.Final() == '=':
		m.keypad = true
	case cmd.Final() == '>':
		m.keypad = false
	case cmd.Final() == 'c':
		m.reset()
	}
}

// maxTitle bounds a title, in bytes.
const maxTitle = 256

func (m *modes) osc(cmd int, data []byte) {
	if cmd != 0 && cmd != 2 {
		return
	}
	if _, title, ok := bytes.Cut(data, []byte{';'}); ok && len(title) <= maxTitle && utf8.Valid(title) {
		m.title = string(title)
	}
}

// restore sets the modes on a terminal that was reset softly.
func (m *modes) restore() []byte {
	var b bytes.Buffer
	for _, n := range inputModes {
		on, known := m.set[n]
		if n == 7 && !on {
			b.WriteString("\x1b[?7l")
		} else if n != 7 && known && on {
			fmt.Fprintf(&b, "\x1b[?%dh", n)
		}
	}
	if m.keypad {
		b.WriteString("\x1b=")
	}
	for _, k := range slices.All(m.kitty) {
		fmt.Fprintf(&b, "\x1b[>%du", k)
	}
	if m.other > 0 {
		fmt.Fprintf(&b, "\x1b[>4;%dm", m.other)
	}
	if m.style > 0 {
		fmt.Fprintf(&b, "\x1b[%d q", m.style)
	}
	if m.title != "" {
		fmt.Fprintf(&b, "\x1b]2;%s\x1b\\", ansi.Strip(m.title))
	}
	return b.Bytes()
}
