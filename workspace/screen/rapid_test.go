package screen

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// token is a piece of a stream, as programs print them; numbers stay near the size of the screen.
func token(t *rapid.T, cols, rows int) string {
	n := func(most int) int { return rapid.IntRange(0, most).Draw(t, "n") }
	pick := func(s ...string) string { return rapid.SampledFrom(s).Draw(t, "pick") }
	switch rapid.IntRange(0, 19).Draw(t, "kind") {
	case 0, 1, 2:
		return rapid.StringOfN(rapid.RuneFrom([]rune("abcdefgh XYZ-")), 1, 30, -1).Draw(t, "text")
	case 3:
		return rapid.StringOfN(rapid.RuneFrom([]rune("日本語e\u0301éa👍")), 1, 8, -1).Draw(t, "wide")
	case 4, 5:
		return pick("\r\n", "\r\n\r\n", "\n", "\r", "\b", "\t", "\b\b")
	case 6:
		return fmt.Sprintf("\x1b[%d;%dH", n(rows+2), n(cols+2))
	case 7:
		return fmt.Sprintf("\x1b[%d%s", n(5), pick("A", "B", "C", "D", "E", "F", "G", "d", "Z"))
	case 8:
		return fmt.Sprintf("\x1b[%d%s", n(2), pick("J", "K", "K"))
	case 9:
		return fmt.Sprintf("\x1b[%d%s", n(3), pick("L", "M", "S", "T", "@", "P", "X"))
	case 10, 11:
		return fmt.Sprintf("\x1b[%sm", pick("", "1", "4", "7", "31", "42", "0;1;33", "38;5;99", "48;2;1;2;3", "4:3", "58:5:3", "24", "49", "91", "27"))
	case 12:
		return fmt.Sprintf("\x1b[%d;%dr", n(rows), n(rows+1))
	case 13:
		return pick("\x1b7", "\x1b8", "\x1b[s", "\x1b[u")
	case 14:
		return pick("\x1bM", "\x1bD", "\x1bE", "\x1bH")
	case 15:
		return fmt.Sprintf("\x1b[?%s%s", pick("1", "6", "7", "25", "1000", "1002", "1003", "1006", "2004", "1004"), pick("h", "l"))
	case 16:
		return pick("\x1b[?1049h", "\x1b[?1049l", "\x1b[?1047h", "\x1b[?1047l")
	case 17:
		return pick("\x1b[4h", "\x1b[4l", "\x1b=", "\x1b>", "\x1b[0g", "\x1b[3g", "\x1b#8")
	case 18:
		return pick("a\x1b[3b", "\x1b(0", "\x1b(B", "\x0e", "\x0f", "\x1b)0")
	}
	return pick("\x1b[?2026h", "\x1b[?2026l", "\x1b]2;title\x07", "\x1b]8;;http://x\x1b\\", "\x1b]8;;\x1b\\", "\x07", "\x1b]133;A\x07")
}

// stream draws a stream of tokens.
func stream(t *rapid.T, cols, rows, most int) string {
	var b strings.Builder
	for range rapid.IntRange(1, most).Draw(t, "tokens") {
		b.WriteString(token(t, cols, rows))
	}
	return b.String()
}

func TestGeneratedStreamsAgreeWithTmux(t *testing.T) {
	if testing.Short() {
		t.Skip("each stream starts two panes")
	}
	x := newTmux(t)
	rapid.Check(t, func(t *rapid.T) {
		cols, rows := rapid.IntRange(2, 24).Draw(t, "cols"), rapid.IntRange(2, 9).Draw(t, "rows")
		first, second := stream(t, cols, rows, 25), stream(t, cols, rows, 8)
		agree(t, x, cols, rows, first, second)
	})
}
