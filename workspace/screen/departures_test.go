package screen

import (
	"strings"
	"testing"
)

// Where tmux 3.3a is wrong, or knows nothing, and what stands instead. Everything else is as in tmux, some of it by its
// choice alone: a backspace goes up to the line that wrapped; one slot for DECSC on both screens; lines that leave any
// scroll region go to history; inserted and deleted lines outside the region; halves of wide characters that erasing
// leaves.
func TestWhereTmuxIsNotFollowed(t *testing.T) {
	for _, c := range []struct {
		why, stream string
		right       func(s *Screen) bool
	}{
		{"RIS brings the state of power-up, the primary screen too (VT510, xterm ctlseqs); tmux stays on the alternate one",
			"behind\x1b[?1049hfront\x1bc", func(s *Screen) bool { return !s.View().Alternate && s.View().Rows[0] == "" }},
		{"DECSTR resets margins, insert and origin mode, pen and character sets (VT510); tmux ignores it",
			"\x1b[2;4r\x1b[?6h\x1b[4h\x1b[31m\x1b(0\x1b[!p", func(s *Screen) bool {
				return s.top == 0 && !s.modes.origin && !s.modes.insert && s.pen == style{} && s.charsets == charsets{}
			}},
		{"an emoji of four persons is one cluster (UAX 29); tmux has room for 21 bytes of it",
			"👨\u200d👩\u200d👧\u200d👦", func(s *Screen) bool { return s.View().Rows[0] == "👨\u200d👩\u200d👧\u200d👦" && s.x == 2 }},
		{"a joiner joins nothing to ASCII (UAX 29, GB11); tmux joins the next character that isn't ASCII",
			"👨\u200dAé", func(s *Screen) bool { return s.View().Rows[0] == "👨Aé" }},
		{"REP repeats any graphic character (ECMA-48 8.3.103); tmux only ASCII",
			"é\x1b[3b", func(s *Screen) bool { return s.View().Rows[0] == "éééé" }},
		{"APC is for applications that agreed on it (ECMA-48 8.3.2); tmux takes kitty's pictures for a title",
			"\x1b_Ga=T;payload\x1b\\", func(s *Screen) bool { return s.View().Title == "" }},
		{"ESC ends a device control string (ECMA-48 5.6, VT500 parser); tmux swallows all until ST",
			"\x1bP1$q\x1b[1mtext", func(s *Screen) bool { return s.View().Rows[0] == "text" }},
		{"the cursor past the margin is reported in the last column (VT510); tmux reports one that isn't there",
			strings.Repeat("x", 20) + "\x1b[6n", func(s *Screen) bool { return string(s.Replies()) == "\x1b[1;20R" }},
		{"1048 saves and restores the cursor (xterm ctlseqs); tmux ignores it",
			"\x1b[2;3H\x1b[?1048h\x1b[H\x1b[?1048l", func(s *Screen) bool { return s.x == 2 && s.y == 1 }},
	} {
		s := screen(t, 20, 5, c.stream)
		if !c.right(s) {
			t.Errorf("%s:\n%q left %+v", c.why, c.stream, s.View())
		}
	}
}
