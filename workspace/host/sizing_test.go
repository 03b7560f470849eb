package host

import (
	"slices"
	"strings"
	"testing"

	"perdure/workspace/screen"
	"perdure/workspace/wire"
)

// shows is a client with a terminal of its own size, which shows what it is sent.
type terminal struct {
	*client
	screen *screen.Screen
}

func (s *session) terminal(cols, rows uint16) *terminal {
	s.t.Helper()
	return &terminal{s.attach(wire.Attach{Cols: cols, Rows: rows}), screen.New(int(cols), int(rows), screen.Options{})}
}

// until reads until the terminal shows it.
func (t *terminal) until(what string, shown func(screen.View) bool) {
	t.t.Helper()
	for !shown(t.screen.View()) {
		f, err := t.w.Read()
		if err != nil {
			t.t.Fatalf("%s: %v; shown: %q", what, err, t.screen.View().Rows)
		}
		switch f := f.(type) {
		case wire.Redraw:
			_, _ = t.screen.Write(f.Data)
		case wire.Output:
			_, _ = t.screen.Write(f.Data)
		case wire.Exited:
			t.exit = &f
		}
	}
}

// handled waits until the host has taken in what was sent.
func (t *terminal) handled() {
	t.t.Helper()
	t.write(wire.Ping{N: 7})
	for {
		f, err := t.w.Read()
		if err != nil {
			t.t.Fatal(err)
		}
		switch f := f.(type) {
		case wire.Pong:
			return
		case wire.Redraw:
			_, _ = t.screen.Write(f.Data)
		case wire.Output:
			_, _ = t.screen.Write(f.Data)
		}
	}
}

func row(y int, text string) func(screen.View) bool {
	return func(v screen.View) bool { return strings.HasPrefix(v.Rows[y], text) }
}

func anywhere(text string) func(screen.View) bool {
	return func(v screen.View) bool {
		return slices.ContainsFunc(v.Rows, func(r string) bool { return strings.Contains(r, text) })
	}
}

// Of clients of several sizes the one that typed last decides; the others see what fits, drawn for them.
func TestWhoTypedLastDecidesTheSize(t *testing.T) {
	s := start(t, `stty -echo; tput() { :; }; while read x; do printf '\033[2J\033[H%s %s' "$x" "$(stty size)"; printf '\033[5;40Hfar right\033[4;1Hbelow'; done; exit 4`)
	wide := s.terminal(60, 12)
	wide.typed("one\n")
	wide.until("the first", row(0, "one 12 60"))
	small := s.terminal(30, 6)
	small.until("what was there, cropped", row(0, "one 12 60"))
	if v := small.screen.View(); anywhere("far")(v) {
		t.Errorf("what does not fit is shown: %q", v.Rows)
	}
	wide.typed("two\n")
	small.until("the next, drawn for it", row(0, "two 12 60"))
	small.until("its cursor's row", row(3, "below"))

	small.typed("three\n") // it decides from here on
	wide.until("the smaller size", row(0, "three 6 30"))
	small.until("its own size", row(0, "three 6 30"))
	wide.screen.Resize(61, 13)
	wide.write(wire.Resize{Cols: 61, Rows: 13}) // whoever does not decide resizes nothing
	wide.handled()
	small.typed("four\n")
	small.until("the same size", row(0, "four 6 30"))
	small.c.Close()
	wide.typed("five\n")
	wide.until("the larger size", row(0, "five 13 61"))
	wide.typed("\x04")
	for wide.exit == nil {
		f, err := wide.w.Read()
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := f.(wire.Exited); ok {
			wide.exit = &e
		}
	}
	s.end()
}

// A watcher of another size sees the end too, though nothing is sent to it as the program printed it.
func TestAClientOfAnotherSizeSeesTheEnd(t *testing.T) {
	s := start(t, `read x; printf '\033[2J\033[Hthe last words'; exit 4`)
	typist := s.terminal(80, 24)
	watcher := s.dial()
	watcher.write(wire.Attach{Cols: 20, Rows: 5, ReadOnly: true})
	w := &terminal{watcher, screen.New(20, 5, screen.Options{})}
	typist.typed("\n")
	w.until("the last words", row(0, "the last words"))
	typist.drain()
	s.end()
}

// The program asks once, so that one terminal answers: the one whose user typed last. Keys are never taken for answers.
func TestOfSeveralTerminalsOneAnswers(t *testing.T) {
	s := start(t, `stty raw -echo; printf 'ready'; head -c 1 >/dev/null; printf '\033[6n\033[c\033]11;?\007asked'; head -c 40 | od -An -c | tr -d ' \n'; printf 'end'`)
	first, second := s.terminal(80, 24), s.terminal(80, 24)
	first.until("ready", anywhere("ready"))
	second.typed("x") // it decides
	first.until("asked", anywhere("asked"))
	second.until("asked", anywhere("asked"))
	answer := "\x1b[7;7R\x1b[?62c\x1b]11;rgb:1/2/3\x07"
	first.typed(answer)
	second.typed(answer)
	second.handled()
	first.typed("\x1b[A\x1bOPq" + strings.Repeat(".", 40)) // keys of the other
	second.until("the end", anywhere("end"))
	want := `033[7;7R033[?62c033]11;rgb:1/2/3\a`
	if got := strings.Join(second.screen.View().Lines(), ""); strings.Count(strings.ReplaceAll(got, "asked", ""), want) != 1 {
		t.Errorf("the program read %q", got)
	}
	s.end()
}

func TestReportsAreToldFromKeys(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                        "plain",
		"\x1b":                         "\x1b",
		"\x1b[A\x1b[1;5A\x1bOP\x1b[3~": "\x1b[A\x1b[1;5A\x1bOP\x1b[3~",
		"a\x1b[?62;22cb":               "ab",
		"\x1b[>1;10;0c\x1b[12;40Rc":    "c",
		"\x1b[?1;2c":                   "",
		"\x1b]11;rgb:0/0/0\x1b\\z":     "z",
		"\x1bP>|term\x1b\\z":           "z",
		"\x1b[?2026;2$yz":              "z",
		"\x1b[?1uz\x1b[97;5u":          "z\x1b[97;5u",
		"\x1b[8;24;80tz":               "z",
		"\x1b[I\x1b[O":                 "\x1b[I\x1b[O",
		"\x1b[200~paste\x1b[201~":      "\x1b[200~paste\x1b[201~",
		"\x1b[<0;3;4M":                 "\x1b[<0;3;4M",
		"\x1b]11;rgb":                  "\x1b]11;rgb",
	} {
		if got := string(without([]byte(in), answers, true)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := string(without([]byte("\x1b[1;2R"), answers, false)); got != "\x1b[1;2R" {
		t.Errorf("a modified F3 was taken for an answer: %q", got)
	}
}

func FuzzReports(f *testing.F) {
	f.Add([]byte("\x1b[?62;22ca\x1b]11;rgb:0/0/0\x1b\\\x1b[1;2R\x1b[I"), true)
	f.Fuzz(func(t *testing.T, p []byte, asked bool) {
		kept := without(p, answers|focus, asked)
		if len(kept) > len(p) || string(without(kept, 0, asked)) != string(kept) {
			t.Errorf("%q became %q", p, kept)
		}
	})
}
