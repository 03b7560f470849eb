package screen

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// pieces are what random bytes seldom make.
var pieces = []string{
	"\x1b[?1049h", "\x1b[?1049l", "\x1b[?47h", "\x1b[>1u", "\x1b[<1u", "\x1b[=5;2u", "\x1b[>4;2m", "\x1b]0;title\x07", "\x1b[22;0t", "\x1b[23;0t",
	"\x1b]8;id=1;http://example.com\x1b\\", "\x1b]8;;\x07", "\x1b]4;1;#ff0000\x07", "\x1b]11;rgb:1/2/3\x07", "\x1b]104\x07", "\x1b]7;file:///x\x07",
	"\x1b[4:3m", "\x1b[38;5;9m", "\x1b[48;2;1;2;3m", "\x1b[58:2::1:2:3m", "\x1b[m", "\x1b(0", "\x1b(B", "\x1b)0", "\x0e", "\x0f", "\x1b[4h", "\x1b[4l", "\x1b[?7l", "\x1b[?7h",
	"\x1b[?6h", "\x1b[?6l", "\x1b[2;4r", "\x1b[r", "\x1b7", "\x1b8", "\x1bc", "\x1b[!p", "\x1b#8", "\x1bM", "\x1bD", "\x1bH", "\x1b[3g", "\t", "\r\n", "\n", "\b", "\r",
	"日本", "e\u0301", "👩\u200d👩", "\u200d", "\x1b[3b", "\x1b[2@", "\x1b[3P", "\x1b[2X", "\x1b[J", "\x1b[1J", "\x1b[2J", "\x1b[3J", "\x1b[K", "\x1b[1K", "\x1b[L", "\x1b[M", "\x1b[S", "\x1b[T",
	"\x1b[3;5H", "\x1b[C", "\x1b[D", "\x1b[A", "\x1b[5 q", "\x1b[?25l", "\x1b[?2004h", "\x1b[?1002h", "\x1b[?1006h", "\x1b[?2026h", "\x1b[6n", "\x1b[c", "\x1b]52;c;YQ==\x07",
	"\x1bP+q544e\x1b\\", "\x1b]133;A\x07", "abc", "abcdefghijklmnopqrstuvwxyz", " ", "\x1b[44m", "\x1b[", "\x1b]", "\x1bP", "\xe6", "\x9c",
}

func anyStream() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 60).Draw(t, "pieces"), "")
	})
}

func TestOneByteAtATimeIsTheSame(t *testing.T) {
	cheap(t)
	rapid.Check(t, func(t *rapid.T) {
		stream := anyStream().Draw(t, "stream")
		a, b := New(10, 5, Options{}), New(10, 5, Options{})
		feed(a, stream)
		for i := range len(stream) {
			feed(b, stream[i:i+1])
		}
		if x, y := a.Redraw(1000), b.Redraw(1000); !bytes.Equal(x, y) {
			t.Fatalf("at once  %q\none by one %q", x, y)
		}
		if x, y := a.Replies(), b.Replies(); !bytes.Equal(x, y) {
			t.Fatalf("replies at once %q, one by one %q", x, y)
		}
	})
}

func TestARedrawOfARedrawIsTheSame(t *testing.T) {
	cheap(t)
	rapid.Check(t, func(t *rapid.T) {
		stream := anyStream().Draw(t, "stream")
		a, b := New(10, 5, Options{}), New(10, 5, Options{})
		feed(a, stream)
		first := a.Redraw(1000)
		feed(b, string(first))
		if second := b.Redraw(1000); !bytes.Equal(first, second) {
			t.Fatalf("redraw %q\nof redraw %q", first, second)
		}
		if b.Bell() {
			t.Fatalf("the redraw rings: %q", first)
		}
		if r := b.Replies(); len(r) > 0 {
			t.Fatalf("the redraw asks: %q", r)
		}
		if bytes.Contains(first, []byte("\x1b]52")) || bytes.Contains(first, []byte("\x1b[?2026h")) {
			t.Fatalf("clipboard or synchronised output in %q", first)
		}
	})
}

func TestAClippedRedrawFits(t *testing.T) {
	cheap(t)
	rapid.Check(t, func(t *rapid.T) {
		a := New(10, 5, Options{})
		feed(a, anyStream().Draw(t, "stream"))
		cols, rows := rapid.IntRange(1, 14).Draw(t, "cols"), rapid.IntRange(1, 8).Draw(t, "rows")
		b := New(cols, rows, Options{})
		feed(b, string(a.RedrawFor(cols, rows, 0)))
		if n := b.primary.hist.lines; n > 0 {
			t.Fatalf("%d lines scrolled off", n)
		}
	})
}

func FuzzWrite(f *testing.F) {
	f.Add([]byte(strings.Join(pieces, "")), 20, 5)
	f.Add([]byte("a\x1b[31mb\x1b[?1049h\x1b[9999;9999H"), 20, 5)
	f.Fuzz(func(t *testing.T, p []byte, cols, rows int) {
		s := New(cols%200, rows%100, Options{History: 50})
		_, _ = s.Write(p)
		s.Resize(rows%200, cols%100)
		_, _ = s.Write(p)
		redraw := s.Redraw(100)
		again := New(s.cols, s.rows, Options{History: 1000})
		_, _ = again.Write(redraw)
		_ = s.View()
		_ = s.Row(0)
		if len(again.Replies()) > 0 || again.Bell() {
			t.Errorf("the redraw asks or rings: %q", redraw)
		}
	})
}
