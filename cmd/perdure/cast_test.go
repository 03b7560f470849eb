package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// A recording has the shape that the terminal had: the window's changes are in it, before what was printed after them.
func TestACastTellsTheWindowsChangesWhereTheyHappened(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--", "sh", "-c", "trap 'stty size' WINCH; echo ready; while :; do read x; echo got-$x; done")
	x := b.attach()
	x.expect(`ready`)
	x.send("first\r")
	x.expect(`got-(first)`)
	mustDo(t, pty.Setsize(x.tty, &pty.Winsize{Cols: 77, Rows: 22}))
	x.expect(`(22 77)`)
	x.kill()
	var shown []string
	lines := strings.Split(strings.TrimSpace(b.want(0, "log", "app", "--cast")), "\n")
	for _, line := range lines[1:] {
		var e []any
		if err := json.Unmarshal([]byte(line), &e); err != nil || len(e) != 3 {
			t.Fatalf("%q: %v", line, err)
		}
		shown = append(shown, fmt.Sprint(e[1], e[2]))
	}
	all := strings.Join(shown, "")
	before, resize, after := strings.Index(all, "got-first"), strings.Index(all, "r77x22"), strings.Index(all, "22 77")
	if before < 0 || resize < before || after < resize {
		t.Errorf("not in order: %q", shown)
	}
}
