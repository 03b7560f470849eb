package screen

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/charmbracelet/x/ansi"
)

// maxReplies bounds what is kept of answers that nobody fetches, in bytes.
const maxReplies = 4096

// reply owes the program an answer. One that has too many waiting gets no more.
func (s *Screen) reply(format string, args ...any) {
	if len(s.replies) < maxReplies {
		s.replies = fmt.Appendf(s.replies, format, args...)
	}
}

// Replies hands out, once, the answers owed to queries.
func (s *Screen) Replies() []byte {
	r := s.replies
	s.replies = nil
	return r
}

// deviceAttributes answers DA1 as a VT220 with colours, DA2 and DA3.
func (s *Screen) deviceAttributes(prefix byte) {
	if s.seq.arg(0, 0, 0) != 0 {
		return
	}
	switch prefix {
	case '>':
		s.reply("\x1b[>1;10;0c")
	case '=':
		s.reply("\x1bP!|00000000\x1b\\")
	default:
		s.reply("\x1b[?62;22c")
	}
}

// version answers XTVERSION.
func (s *Screen) version() { s.reply("\x1bP>|perdure\x1b\\") }

// statusReport answers DSR. The cursor past the margin is reported in the last column.
func (s *Screen) statusReport(n int) {
	switch n {
	case 5:
		s.reply("\x1b[0n")
	case 6:
		x, y := s.reported()
		s.reply("\x1b[%d;%dR", y, x)
	}
}

func (s *Screen) reported() (x, y int) {
	x, y = min(s.x, s.cols-1)+1, s.y+1
	if s.modes.origin {
		y = max(1, y-s.top)
	}
	return x, y
}

// privateReport answers DECDSR: the cursor with its page, and the colour scheme, dark.
func (s *Screen) privateReport(n int) {
	switch n {
	case 6:
		x, y := s.reported()
		s.reply("\x1b[?%d;%d;1R", y, x)
	case 996:
		s.reply("\x1b[?997;1n")
	}
}

// keyReport answers XTQMODKEYS.
func (s *Screen) keyReport(n int) {
	if n == 4 {
		s.reply("\x1b[>4;%dm", s.modes.otherKeys)
	}
}

// modeReport answers DECRQM: 0 not known, 1 set, 2 reset.
func (s *Screen) modeReport(n int, private bool) {
	if !private {
		on, known := map[int]bool{4: s.modes.insert, 20: s.modes.newline}[n]
		s.reply("\x1b[%d;%d$y", n, modeState(on, known))
		return
	}
	on, known := s.modeState(n)
	s.reply("\x1b[?%d;%d$y", n, modeState(on, known))
}

func modeState(on, known bool) int {
	switch {
	case !known:
		return 0
	case on:
		return 1
	}
	return 2
}

// modeState is a private mode's state.
func (s *Screen) modeState(n int) (on, known bool) {
	m := &s.modes
	if f := m.flag(n); f != nil {
		return *f, true
	}
	switch n {
	case 6:
		return m.origin, true
	case 12:
		return m.blink, true
	case 25:
		return !m.hidden, true
	case 9, 1000, 1001, 1002, 1003:
		return m.mouse == n, true
	case 1005, 1006, 1015, 1016:
		return slices.Contains(m.coords, n), true
	case 47, 1047, 1049:
		return s.alternate != nil, true
	}
	return slices.Contains(m.others, n), slices.Contains(passive, n)
}

// windowOps is XTWINOPS: sizes are reported, titles kept on a stack. Nothing moves a window.
func (s *Screen) windowOps() {
	q := &s.seq
	switch op := q.arg(0, 0, 0); op {
	case 14:
		s.reply("\x1b[4;%d;%dt", s.rows*cellHeight, s.cols*cellWidth)
	case 16:
		s.reply("\x1b[6;%d;%dt", cellHeight, cellWidth)
	case 18:
		s.reply("\x1b[8;%d;%dt", s.rows, s.cols)
	case 22, 23:
		if which := q.arg(1, 0, 0); which != 0 && which != 2 {
			return
		}
		if op == 22 {
			s.pushTitle()
		} else {
			s.popTitle()
		}
	}
}

// A cell's size in pixels, for programs that ask while no terminal is there that has one.
const (
	cellWidth  = 8
	cellHeight = 16
)

// terminator ends an answer as the question ended.
func terminator(bel bool) string {
	if bel {
		return "\x07"
	}
	return "\x1b\\"
}

// defaultColors answer OSC 10, 11 and 12 while no terminal is there: light on dark, as most are.
var defaultColors = [3]string{"rgb:d0d0/d0d0/d0d0", "rgb:0000/0000/0000", "rgb:d0d0/d0d0/d0d0"}

// answerable brings a colour to the form that terminals answer in; def where it can't be.
func answerable(c, def string) string {
	if v := ansi.XParseColor(c); c != "" && v != nil {
		r, g, b, _ := v.RGBA()
		return fmt.Sprintf("rgb:%04x/%04x/%04x", r, g, b)
	}
	return def
}

func (s *Screen) fixedReply(n int, bel bool) {
	def := defaultColors[n-10]
	s.reply("\x1b]%d;%s%s", n, answerable(s.palette.fixed[n-10], def), terminator(bel))
}

// paletteReply answers OSC 4 for a colour that the program itself set, and for xterm's first 16.
func (s *Screen) paletteReply(n int, bel bool) {
	r, g, b, _ := ansi.IndexedColor(n).RGBA()
	def := fmt.Sprintf("rgb:%04x/%04x/%04x", r, g, b)
	s.reply("\x1b]4;%d;%s%s", n, answerable(s.palette.colors[n], def), terminator(bel))
}

// dcs acts on a device control string: the two that ask are refused, so that whoever asked goes on.
func (s *Screen) dcs(cmd ansi.Cmd, data []byte) {
	switch {
	case cmd.Final() == 'q' && cmd.Intermediate() == '+': // XTGETTCAP
		s.reply("\x1bP0+r%s\x1b\\", hexNames(data))
	case cmd.Final() == 'q' && cmd.Intermediate() == '$': // DECRQSS
		s.requestSetting(string(data))
	}
}

// hexNames is the names of a XTGETTCAP as they came, if that is what they are.
func hexNames(data []byte) []byte {
	if len(data) > 256 || bytes.ContainsFunc(data, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F' || r == ';')
	}) {
		return nil
	}
	return data
}

// requestSetting answers DECRQSS for the pen, the region and the cursor's shape.
func (s *Screen) requestSetting(what string) {
	switch what {
	case "m":
		sgr := s.pen.appendSGR(nil)
		s.reply("\x1bP1$r%s\x1b\\", sgr[2:])
	case "r":
		s.reply("\x1bP1$r%d;%dr\x1b\\", s.top+1, s.bottom+1)
	case " q":
		s.reply("\x1bP1$r%d q\x1b\\", s.modes.shape)
	default:
		s.reply("\x1bP0$r\x1b\\")
	}
}
