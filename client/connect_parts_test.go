package client

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perdure/client/link"
	"perdure/client/predict"
	"perdure/workspace/screen"
)

func TestEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"ls\r":                       "ls\r|",
		"~.":                         "|.",
		"a~.":                        "a~.|",
		"a\r~.":                      "a\r|.",
		"\n~~x":                      "\n~x|",
		"~s~?~.":                     "|s?.",
		"~x":                         "~x|",
		"~\r~.":                      "~\r|.",
		"~~~.":                       "~~.|",
		"\x1b[200~\r~.\x1b[201~\r~d": "\x1b[200~\r~.\x1b[201~\r|d",
		"~w\r~n":                     "\r|wn",
	} {
		for _, size := range []int{1, 2, len(in)} {
			var sent, acts []byte
			k := keys{send: func(p []byte) { sent = append(sent, p...) }, act: func(b byte) { acts = append(acts, b) }}
			for rest := []byte(in); len(rest) > 0; {
				n := min(size, len(rest))
				k.feed(rest[:n])
				rest = rest[n:]
			}
			if got := string(sent) + "|" + string(acts); got != want {
				t.Errorf("%q by %d: %q, want %q", in, size, got, want)
			}
		}
	}
}

// What is sent and what is held back are all that was typed, however it comes in pieces.
func TestEscapesTakeNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := []byte(rapid.StringMatching("[~.\r a\x1b]{0,40}").Draw(t, "in"))
		whole := func(cut int) (sent, acts []byte) {
			k := keys{send: func(p []byte) { sent = append(sent, p...) }, act: func(b byte) { acts = append(acts, b) }}
			k.feed(in[:cut])
			k.feed(in[cut:])
			return
		}
		s1, a1 := whole(0)
		s2, a2 := whole(rapid.IntRange(0, len(in)).Draw(t, "cut"))
		if !bytes.Equal(s1, s2) || !bytes.Equal(a1, a2) {
			t.Fatalf("%q: %q %q and %q %q", in, s1, a1, s2, a2)
		}
	})
}

// Wherever the stream is cut, what is given on ends between sequences, and nothing but the open end is kept.
func TestNothingIsDrawnInsideASequence(t *testing.T) {
	stream := []byte("a\x1b[31mred\x1b[0m\x1b]0;title\x07é€😀\x1b]52;c;aGk=\x1b\\x\x1bP+q\x1b\\\x1b(Bend")
	for cut := range len(stream) + 1 {
		var b boundary
		whole := b.feed(stream[:cut])
		var again boundary
		if whole < 0 || again.feed(stream[:whole]) != whole {
			t.Fatalf("cut at %d: %d is inside something", cut, whole)
		}
		if rest := b.feed(stream[cut:]); rest != len(stream)-cut {
			t.Errorf("cut at %d: the rest ends inside something (%d)", cut, rest)
		}
	}
}

// The status line comes and goes, and the terminal has got every byte of the session's, in order.
func TestTheStatusLineLeavesTheStreamWhole(t *testing.T) {
	stream := []byte("one\r\n\x1b[31mred\x1b[0m é€😀 \x1b]0;title\x07 end\r\n")
	for cut := range len(stream) + 1 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		d := newDisplay(w, size{cols: 80, rows: 24}, predict.Never)
		_ = d.write(stream[:cut])
		_ = d.say("LINE", 0)
		drawn := d.drawn
		erased := d.erase()
		_ = d.put(erased)
		d.line = ""
		_ = d.write(stream[cut:])
		_ = d.flush()
		w.Close()
		var all bytes.Buffer
		_, _ = all.ReadFrom(r)
		r.Close()
		shown, plain := screen.New(80, 24, screen.Options{}), screen.New(80, 24, screen.Options{})
		_, _ = shown.Write(all.Bytes())
		_, _ = plain.Write(stream)
		if a, b := shown.View(), plain.View(); !slices.Equal(a.Rows, b.Rows) || a.Cursor != b.Cursor || a.Title != b.Title {
			t.Errorf("cut at %d: %q shows %+v, not %+v", cut, all.Bytes(), a, b)
		}
		shown.Close()
		plain.Close()
		if !drawn {
			t.Fatalf("cut at %d: no line was drawn", cut)
		}
		if i := bytes.Index(all.Bytes(), []byte("LINE")); i < 0 {
			t.Fatalf("cut at %d: %q", cut, all.Bytes())
		}
		d.close()
	}
}

// A line for a time goes by itself; one about the link doesn't replace it before.
func TestALineGoesWhenItsTimeIsOver(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	d := newDisplay(w, size{cols: 80, rows: 24}, predict.Never)
	defer d.close()
	_ = d.say("help", time.Hour)
	_ = d.say("no answer", 0)
	if d.line != "help" || d.passed(time.Now()) || !d.passed(time.Now().Add(2*time.Hour)) {
		t.Fatalf("%q, until %v", d.line, d.until)
	}
	c := &connection{d: d, last: link.State{Up: true}}
	d.until = time.Now().Add(-time.Second)
	if err := c.Tick(); err != nil || d.line != "" || d.drawn {
		t.Errorf("%v: %q is left", err, d.line)
	}
}
