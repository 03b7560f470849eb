package main

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// inSize attaches by ssh in a terminal of a size.
func (b *box) inSize(cols, rows uint16) *terminal {
	b.t.Helper()
	cmd := b.ssh(context.Background(), "-t", "app@127.0.0.1")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: cols, Rows: rows})
	if err != nil {
		b.t.Fatal(err)
	}
	return &terminal{t: b.t, cmd: cmd, tty: tty}
}

// Two people at terminals of two sizes: whoever typed last has theirs, and the other sees what fits.
func TestOfTwoSizesTheOneThatTypedLastDecides(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--", "sh", "-c", "stty -echo; echo ready; while read x; do echo $x: $(stty size); done")
	large := b.inSize(100, 30)
	defer large.kill()
	large.expect("ready")
	large.send("one\r")
	large.expect(`one: 30 100`)
	small := b.inSize(60, 20)
	defer small.kill()
	small.expect(`one: 30 100`)
	large.send("two\r")
	small.expect(`two: 30 100`)
	small.send("three\r")
	large.expect(`three: 20 60`)
	large.send("four\r")
	small.expect(`four: 30 100`)
	large.kill()
	small.send("five\r")
	small.expect(`five: 20 60`)
}

// A laptop that sleeps in the midst of a flood stops neither the program nor whoever else attaches, and shows the end
// once it wakes.
func TestAStoppedClientStopsNobody(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--", "sh", "-c", "echo ready; read x; head -c 50000000 /dev/zero | tr '\\0' 'a' | fold -w 79; echo; echo all-$x; read y; exit 5")
	first := b.attach()
	first.expect("ready")
	first.send("printed\r")
	first.expect("aaaa")
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.want(0, "wait", "app", "--for", "text=^all-printed", "--timeout", "2m")
	second := b.attach()
	defer second.kill()
	second.expect("all-printed")
	second.send("\r")
	if err := second.cmd.Wait(); err == nil || second.cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("exit status %v", second.cmd.ProcessState)
	}
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	first.through("all-printed")
	if err := first.cmd.Wait(); err == nil || first.cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("the stopped client's exit status: %v", first.cmd.ProcessState)
	}
	var size struct{ Start, End uint64 }
	if err := json.Unmarshal([]byte(b.want(0, "log", "app", "--json")), &size); err != nil || size.End < 50000000 {
		t.Errorf("the journal has %+v, %v", size, err)
	}
}

// through reads past much output to a text.
func (x *terminal) through(text string) {
	x.t.Helper()
	late := time.AfterFunc(2*time.Minute, func() { _ = x.cmd.Process.Kill() })
	defer late.Stop()
	tail, buf := "", make([]byte, 64<<10)
	for !strings.Contains(tail, text) {
		tail = tail[max(0, len(tail)-len(text)):]
		n, err := x.tty.Read(buf)
		if err != nil {
			x.t.Fatalf("%q never came: %v; the last was %q", text, err, tail)
		}
		tail += string(buf[:n])
	}
}
