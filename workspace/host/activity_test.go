package host

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCallsInOutput(t *testing.T) {
	for in, want := range map[string][]call{
		"a\ab":                                 {{code: "bell"}},
		"\x1b]0;title\a":                       nil,
		"\x1b]9;Claude needs you\a":            {{"9", "Claude needs you"}},
		"\x1b]9;x\x1b\\\a":                     {{"9", "x"}, {code: "bell"}},
		"\x1b]777;notify;T;body\x1b\\":         {{"777", "notify;T;body"}},
		"\x1b]133;C\a":                         {{"133", "C"}},
		"\x1bPq\a\x1b\\":                       nil, // no bell within a DCS
		"\x1b]9;never ended\x18\a":             {{code: "bell"}},
		"\x1b]9;cut\x1b]9;whole\a":             {{"9", "whole"}},
		"\x1b[31m\a":                           {{code: "bell"}},
		"\x1b(B\a":                             {{code: "bell"}},
		"\x1b]52;c;" + "YWJj" + "\a\x1b]9;y\a": {{"9", "y"}},
	} {
		var s scanner
		if _, got := s.feed([]byte(in)); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
	}
}

// However output is cut, the same calls are found.
func TestCallsAreFoundWhereverOutputIsCut(t *testing.T) {
	piece := rapid.SampledFrom([]string{"\a", "\x1b", "]", "9;", "777;notify;", "\\", "x", "\x1bP", "\x18", "[", "\x1b]133;A\a", "é"})
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		for _, p := range rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces") {
			all = append(all, p...)
		}
		var whole, cut scanner
		_, want := whole.feed(all)
		var got []call
		for i := range all {
			_, c := cut.feed(all[i : i+1])
			got = append(got, c...)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: got %v, want %v", all, got, want)
		}
	})
}

func TestANoticeIsClearedByWhatHappensNext(t *testing.T) {
	now := time.Unix(1000, 0)
	var a activity
	a.saw([]byte("question?\a"), now)
	if a.notice == nil || a.notice.Kind != "bell" {
		t.Fatalf("after a bell: %v", a.notice)
	}
	a.saw([]byte("> "), now.Add(answered/2))
	a.saw([]byte("\x1b]0;new title\a\x1b[5;1H"), now.Add(time.Minute))
	if a.notice == nil {
		t.Fatal("a title answered it")
	}
	a.saw([]byte("\x1b]9;Allow rm?\a\a"), now.Add(time.Minute))
	if a.notice.Text != "Allow rm?" {
		t.Fatalf("the bell beside a notification took its place: %v", a.notice)
	}
	a.saw([]byte("going on"), now.Add(time.Hour))
	if a.notice != nil {
		t.Fatalf("after it went on: %v", a.notice)
	}
	a.saw([]byte("\a"), now.Add(time.Hour))
	if a.typed(now.Add(2 * time.Hour)); a.notice != nil {
		t.Fatalf("after an answer: %v", a.notice)
	}
	a.saw([]byte("\x1b]9;4;1;50\a"), now)
	if a.notice != nil || !a.progress {
		t.Fatalf("a progress bar is a call: %v", a.notice)
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte("\x1b]9;x\a"))
	f.Fuzz(func(t *testing.T, p []byte) {
		var s scanner
		_, calls := s.feed(p)
		for _, c := range calls {
			if len(c.text) > 3*maxCall {
				t.Fatalf("%d bytes kept", len(c.text))
			}
		}
	})
}
