package client

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/shlex"
	"pgregory.net/rapid"
)

// What Quote joins is split into the same words by a shell and by the server's splitter.
func TestQuote(t *testing.T) {
	words := []string{"new", "", "it's", "a b", "#x", "$HOME", "`id`", "a\nb", "\\", "\"", "*", "~", "!", "é", "--owns=src/**", "-", "a;b"}
	out, err := exec.Command("/bin/sh", "-c", `printf '%s\0' `+Quote(words)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, words) {
		t.Errorf("the shell read %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.String()).Draw(t, "words")
		got, err := shlex.Split(Quote(words))
		if err != nil || !slices.Equal(got, words) {
			t.Fatalf("%q became %q, %v", words, got, err)
		}
	})
}

func TestSplitHost(t *testing.T) {
	for in, want := range map[string]string{
		"box":              "perdure box ",
		"me@box":           "me box ",
		"box:2222":         "perdure box 2222",
		"me@box:22":        "me box 22",
		"[::1]:2222":       "perdure ::1 2222",
		"[::1]":            "perdure ::1 ",
		"::1":              "perdure ::1 ",
		"a@b@box":          "a@b box ",
		"":                 "error",
		"@box":             "error",
		"me@":              "error",
		"-oProxyCommand=x": "error",
		"me@-x":            "error",
		"-l@box":           "error",
		"box:":             "error",
		"box:0":            "error",
		"box:x":            "error",
		"box:70000":        "error",
		"[::1]:":           "error",
		"a b":              "error",
		"[::1":             "error",
	} {
		user, host, port, err := splitHost(in)
		got := user + " " + host + " " + port
		if err != nil {
			got = "error"
			if !errors.Is(err, ErrHost) {
				t.Errorf("%q: %v", in, err)
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestEscape(t *testing.T) {
	for _, c := range []struct {
		in, send string
		leave    bool
	}{
		{"~.", "", true},
		{"ls\r~.rest", "ls\r", true},
		{"ls\n~.", "ls\n", true},
		{"a~.", "a~.", false},
		{"~~.", "~.", false},
		{"~x~.", "~x~.", false},
		{"\r~\r~.", "\r~\r", true},
		{"~", "", false},
		{"cd ~\r", "cd ~\r", false},
	} {
		for _, step := range []int{1, 2, len(c.in)} { // however the keys are split
			var e escape
			var send []byte
			leave := false
			for p := []byte(c.in); len(p) > 0 && !leave; {
				n := min(step, len(p))
				var s []byte
				s, leave = e.feed(p[:n])
				send, p = append(send, s...), p[n:]
			}
			if string(send) != c.send || leave != c.leave {
				t.Errorf("%q by %d: got %q, %v", c.in, step, send, leave)
			}
		}
	}
}
