package screen

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func screen(t *testing.T, cols, rows int, text string) *Screen {
	t.Helper()
	s := New(cols, rows, Options{})
	t.Cleanup(func() { s.Close() })
	if _, err := s.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestARedrawShowsTheSame(t *testing.T) {
	for name, text := range map[string]string{
		"text":      "one\r\ntwo\x1b[1;31m red\x1b[0m end",
		"wide":      "日本語 a\r\ne\u0301",
		"alternate": "behind\x1b[?1049h\x1b[2J\x1b[5;3Hfront",
		"hidden":    "x\x1b[?25l",
		"history":   strings.Repeat("line\r\n", 40) + "last",
	} {
		t.Run(name, func(t *testing.T) {
			a := screen(t, 20, 8, text)
			b := screen(t, 20, 8, string(a.Redraw(100)))
			x, y := a.View(), b.View()
			if !slices.Equal(x.Rows, y.Rows) || x.Cursor != y.Cursor || x.Alternate != y.Alternate {
				t.Errorf("redrawn: %+v\nwas: %+v", y, x)
			}
		})
	}
}

func TestInputModesComeBack(t *testing.T) {
	a := screen(t, 20, 5, "\x1b[?2004h\x1b[?1003h\x1b[?1003l\x1b[?1002h\x1b[?1006h\x1b[?1h\x1b=\x1b[>1u\x1b[>5u\x1b[<1u\x1b[>4;2m")
	got := a.Redraw(0)
	for _, want := range []string{"\x1b[?2004h", "\x1b[?1002h", "\x1b[?1006h", "\x1b[?1h", "\x1b=", "\x1b[>1u", "\x1b[>4;2m"} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	for _, not := range []string{"\x1b[?1003h", "\x1b[>5u", "\x07", "\x1b[c", "\x1b[6n", "]52"} {
		if bytes.Contains(got, []byte(not)) {
			t.Errorf("%q in %q", not, got)
		}
	}
}

func TestGroundIsBetweenSequencesAndCharacters(t *testing.T) {
	for text, want := range map[string]bool{"a": true, "\x1b": false, "\x1b[3": false, "\x1b[3m": true, "\xe6\x97": false, "日": true, "\x1b]2;t": false} {
		if got := screen(t, 20, 5, text).Ground(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
