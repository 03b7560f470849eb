package predict

import (
	"strings"
	"testing"
	"time"

	"perdure/workspace/screen"
)

// bench is a person at a terminal: what they type is predicted, what the program answers is shown.
type bench struct {
	t   *testing.T
	p   *Predictor
	s   *screen.Screen
	end uint64
	now time.Time
}

func newBench(t *testing.T, m Mode) *bench {
	b := &bench{t: t, p: New(m), s: screen.New(40, 10, screen.Options{}), now: time.Unix(1, 0)}
	b.p.Tty(false, false) // as a line editor has it
	b.p.Link(100 * time.Millisecond)
	t.Cleanup(func() { b.s.Close() })
	return b
}

func (b *bench) typed(text string) {
	for i := range len(text) {
		b.end++
		b.p.Type(b.s.View(), []byte{text[i]}, b.end, b.now)
	}
}

// answer shows output; the echo of all that was typed is in it.
func (b *bench) answer(text string) {
	_, _ = b.s.Write([]byte(text))
	b.p.Echoed(b.end)
	b.p.Check(b.s.View())
}

// shows is the row as the person sees it.
func (b *bench) shows(row int) string {
	draw, _ := b.p.Draw(b.now)
	seen := screen.New(40, 10, screen.Options{})
	defer seen.Close()
	_, _ = seen.Write(b.s.Redraw(0))
	_, _ = seen.Write(draw)
	return strings.TrimRight(seen.View().Rows[row], " ")
}

func (b *bench) want(row int, text string) {
	b.t.Helper()
	if got := b.shows(row); got != text {
		b.t.Errorf("shows %q, want %q", got, text)
	}
}

func TestGuessesShowOnceOneCameTrue(t *testing.T) {
	b := newBench(t, Adaptive)
	b.answer("$ ")
	b.typed("l")
	b.want(0, "$")
	b.answer("l")
	b.typed("s -l")
	b.want(0, "$ ls -l")
	b.typed("\x7fa")
	b.want(0, "$ ls -a")
	b.answer("s -l\b \ba")
	b.want(0, "$ ls -a")
	if draw, rows := b.p.Draw(b.now); draw != nil || rows != nil {
		t.Errorf("drawn over what shows: %q", draw)
	}
	if right, wrong := b.p.Counts(); right == 0 || wrong != 0 {
		t.Errorf("%d right, %d wrong", right, wrong)
	}
}

func TestAPasswordNeverShows(t *testing.T) {
	for _, m := range []Mode{Adaptive, Always} {
		b := newBench(t, m)
		b.answer("$ ")
		b.typed("s")
		b.answer("s")
		b.typed("udo\r")
		b.answer("udo\r\nPassword: ")
		b.typed("secret") // in raw mode: the terminal says nothing of a password
		b.want(1, "Password:")
		b.p.Tty(false, true)
		b.typed("secret")
		b.want(1, "Password:")
		b.answer("")
		b.want(1, "Password:")
		b.typed("x\r")
		b.answer("\r\n$ ")
		b.want(1, "Password:")
		if _, wrong := b.p.Counts(); wrong != 0 {
			t.Errorf("%d wrong guesses were shown", wrong)
		}
	}
}

// The password is typed before the prompt is here.
func TestAPasswordTypedAheadNeverShows(t *testing.T) {
	b := newBench(t, Always)
	b.answer("$ ")
	b.typed("s")
	b.answer("s")
	b.typed("u\rhunter2")
	for row := range 3 {
		if strings.Contains(b.shows(row), "hunter") {
			t.Errorf("row %d: %q", row, b.shows(row))
		}
	}
}

func TestAWrongGuessIsCountedAndGone(t *testing.T) {
	b := newBench(t, Always)
	b.answer("$ ")
	b.typed("a")
	b.answer("a")
	b.typed("bc")
	b.want(0, "$ abc")
	b.answer("\r$ aXY") // the program shows something else
	b.want(0, "$ aXY")
	if _, wrong := b.p.Counts(); wrong != 1 {
		t.Errorf("%d wrong", wrong)
	}
	b.typed("d")
	b.want(0, "$ aXY") // hidden until one comes true again
}

func TestWhatMayDoMuchElseIsNotGuessed(t *testing.T) {
	b := newBench(t, Always)
	b.answer("$ ")
	b.typed("a")
	b.answer("a")
	for _, keys := range []string{"\x1b[D", "\t", "\x01", "é", "\x1bOA", strings.Repeat("x", 17)} {
		b.end += uint64(len(keys))
		b.p.Type(b.s.View(), []byte(keys), b.end, b.now)
		b.typed("z")
		b.want(0, "$ a")
		b.answer("")
	}
	b.answer("\x1b[2;1Htext behind\x1b[2;1H")
	b.typed("zz") // before other text: it may be inserted or replaced
	b.want(1, "text behind")
	b.answer("\x1b[3;38H")
	b.typed("zz") // at the margin
	b.want(2, "")
	b.answer("\x1b[4;1H中文\x1b[4;5H")
	b.typed("a")
	b.answer("a")
	b.typed("b")
	b.want(3, "中文ab")
}

func TestAFastLinkShowsNoGuesses(t *testing.T) {
	b := newBench(t, Adaptive)
	b.p.Link(time.Millisecond)
	b.answer("$ ")
	b.typed("a")
	b.answer("a")
	b.typed("b")
	b.want(0, "$ a")
	b.now = b.now.Add(time.Second) // it isn't fast any more
	b.want(0, "$ ab")
	n := newBench(t, Never)
	n.typed("a")
	n.answer("a")
	n.typed("b")
	n.want(0, "a")
}

// Whatever is typed and answered, nothing of ours is left once all is echoed.
func TestNothingStaysOnceTheLinkIsQuiet(t *testing.T) {
	b := newBench(t, Always)
	for _, step := range []struct{ keys, out string }{{"abc", "abc"}, {"d\x7f", "d\b \b"}, {"\r", "\r\n"}, {"xyz", "q"}, {"  ", "  "}, {"\x7f\x7f\x7f", "\b \b"}, {"ab", ""}} {
		b.typed(step.keys)
		b.answer(step.out)
		b.p.Check(b.s.View())
		if draw, _ := b.p.Draw(b.now); draw != nil {
			t.Errorf("after %q: %q is left", step.keys, draw)
		}
	}
}
