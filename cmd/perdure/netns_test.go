package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"perdure/cmd/perdure-bench/wan"
)

// newNetwork skips the test where none can be made.
func newNetwork(t *testing.T) *wan.Network {
	t.Helper()
	n, err := wan.New(fmt.Sprintf("pt%d", os.Getpid()))
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(n.Close)
	return n
}

// newBoxBehind is a box whose server is at the network's far end.
func newBoxBehind(t *testing.T, w *wan.Network) *box {
	b := newBox(t)
	b.kill()
	b.in = w.Far
	b.serve(wan.FarAddress + ":0")
	return b
}

// connectFrom runs connect in a pty at the near end.
func (b *box) connectFrom(w *wan.Network, args ...string) *terminal {
	b.t.Helper()
	cmd := exec.Command("ip", append(wan.Command(w.Near, b.bin, "connect", "perdure@"+wan.FarAddress+":"+b.port)[1:], args...)...)
	cmd.Env = append(b.connectEnv(), "TERM=xterm-256color")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 100, Rows: 30})
	if err != nil {
		b.t.Fatal(err)
	}
	x := &terminal{t: b.t, cmd: cmd, tty: tty}
	b.t.Cleanup(x.kill)
	return x
}

// The link goes black without a word: that is said on one line, what is typed waits and is sent once, and it goes on
// by itself when the link is back, or when the laptop has another address.
func TestABlackLinkIsSaidAndTheSessionGoesOn(t *testing.T) {
	w := newNetwork(t)
	b := newBoxBehind(t, w)
	b.want(0, "new", "app", "--", "sh", "-c", "stty -echo; PS1=; export PS1; echo ready; exec cat")
	x := b.connectFrom(w, "app")
	x.expect("ready")
	x.send("one\r")
	x.expect("one")

	w.Set(wan.Shape{Cut: true})
	began := time.Now()
	x.send("two\r")
	x.expect(`no answer for \d+ s`)
	if noticed := time.Since(began); noticed > 20*time.Second {
		t.Errorf("noticed after %v", noticed)
	}
	x.expect(`\d+ bytes typed wait`)
	w.Set(wan.Shape{Delay: 10 * time.Millisecond})
	x.expect("two")

	if err := w.Move("10.77.0.9"); err != nil {
		t.Fatal(err)
	}
	x.send("three\r")
	x.expect("three")

	w.Set(wan.Shape{Cut: true})
	left := time.Now()
	x.send("~.")
	x.expect("left app; its session goes on")
	if err := x.cmd.Wait(); err != nil {
		t.Errorf("left with %v", err)
	}
	if took := time.Since(left); took > 5*time.Second { // 200 ms where the machine is idle
		t.Errorf("left after %v", took)
	}
	w.Set(wan.Shape{Delay: 10 * time.Millisecond})
	if out := b.want(0, "log", "app", "--raw"); strings.Count(out, "two") != 1 || strings.Count(out, "three") != 1 {
		t.Errorf("typed once, received: %q", out)
	}
}
