package screen

import (
	"strings"
	"testing"
)

// A line that was too long for its row is found whole: a text that lies across the margin was never found.
func TestALineThatWrappedIsWhole(t *testing.T) {
	for _, line := range []string{strings.Repeat("0123456789", 3) + "end", "0123456789  two blanks", "012345678漢字", "short", "0123456789"} {
		s := New(10, 6, Options{})
		_, _ = s.Write([]byte(line + "\r\nnext"))
		v := s.View()
		lines := v.Lines()
		if lines[0] != line || lines[1] != "next" {
			t.Errorf("%q: %q of rows %q", line, lines, v.Rows)
		}
	}
}
