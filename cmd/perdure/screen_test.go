package main

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

// onScreen is what a command prints to a terminal of this width.
func (b *box) onScreen(cols uint16, env []string, args ...string) string {
	b.t.Helper()
	cmd := exec.Command(b.bin, args...)
	cmd.Dir, cmd.Env = b.app, append(append(b.env, "TERM=xterm-256color"), env...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: cols, Rows: 24})
	if err != nil {
		b.t.Fatal(err)
	}
	defer tty.Close()
	var out bytes.Buffer
	_, _ = out.ReadFrom(tty) // ends with an error where the command has ended
	_ = cmd.Wait()
	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}

var sgr = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// On a terminal a report is coloured, in columns and as wide as the window; elsewhere it is plain, and nothing that
// was recorded or found drives the terminal.
func TestAReportFitsItsTerminal(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "go test ./...")
	b.want(0, "handoff", "record", "app", "--passed", "TestAdd", "--passed", "TestZero", "--next", "\x1b[35mgo on\x07", "--wait")
	for _, name := range []string{"a\x1b[31mred", "a-name-that-is-longer-than-the-column-of-the-subjects-has-room-for.txt", "1", "2", "3", "4", "5", "6", "7", "8"} {
		b.write(b.app+"/"+name, "")
	}
	for _, args := range [][]string{{"handoff", "verify", "app"}, {"handoff", "log", "app"}} {
		for _, cols := range []uint16{60, 80, 200} {
			out := b.onScreen(cols, nil, args...)
			if !strings.Contains(out, "\x1b[33m") {
				t.Errorf("%v: no colour at %d columns:\n%q", args, cols, out)
			}
			if left := sgr.ReplaceAllString(strings.ReplaceAll(out, "\x1b[K", ""), ""); strings.ContainsAny(left, "\x1b\x07") || strings.Contains(out, "\x1b[31mred") || strings.Contains(out, "\x1b[35m") {
				t.Errorf("%v: what was recorded or found drives the terminal:\n%q", args, out)
			}
			for _, line := range strings.Split(out, "\n") {
				line = line[strings.LastIndex(line, "\x1b[K")+1:] // a progress line was drawn over
				if n := ansi.StringWidth(line); n > int(cols) && !strings.Contains(line, "hint:") {
					t.Errorf("%v: a line of %d columns at %d: %q", args, n, cols, line)
				}
			}
		}
	}
	for name, out := range map[string]string{
		"NO_COLOR":    b.onScreen(80, []string{"NO_COLOR=1"}, "handoff", "verify", "app"),
		"dumb":        b.onScreen(80, []string{"TERM=dumb"}, "handoff", "verify", "app"),
		"no terminal": b.want(11, "handoff", "verify", "app"),
	} {
		if sgr.MatchString(out) || name == "dumb" && strings.Contains(out, "\x1b") {
			t.Errorf("%s: coloured: %q", name, out)
		}
	}
	short, long := b.onScreen(80, nil, "handoff", "verify", "app"), b.onScreen(80, nil, "handoff", "verify", "app", "-v")
	if !strings.Contains(short, "and 2 more (-v lists them)") || strings.Contains(long, "more (-v") {
		t.Errorf("short:\n%s\nlong:\n%s", short, long)
	}
}
