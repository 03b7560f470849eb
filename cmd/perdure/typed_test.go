package main

import (
	"os"
	"strings"
	"testing"
)

// gated is a box whose workspace was recorded, and whose check waits for the gate from then on: the progress screen
// stays until it is opened.
func gated(t *testing.T) (b *box, open func()) {
	t.Helper()
	b = newBox(t)
	gate := b.dir + "/gate"
	open = func() { b.write(gate, "") }
	open()
	b.want(0, "new", "app", "--check", "until [ -e "+gate+" ]; do sleep 0.02; done; go test ./...")
	b.want(0, "handoff", "record", "app", "--passed", "TestAdd", "--passed", "TestZero", "--next", "go on", "--wait")
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	return b, open
}

// once fails unless the session printed the text once.
func (b *box) once(text string) {
	b.t.Helper()
	if out := b.want(0, "log", "app", "--text"); strings.Count(out, text) != 1 {
		b.t.Errorf("%q is there %d times:\n%s", text, strings.Count(out, text), out)
	}
}

// arrive attaches by either of the two clients.
func (b *box) arrive(client string) *terminal {
	if client == "connect" {
		return b.inTerminal(b.connect(b.port, "app"))
	}
	return b.attach()
}

// Keys that were typed while the checks ran were lost, or taken for b, l or q.
func TestWhatIsTypedWhileTheChecksRunReachesTheSessionOnce(t *testing.T) {
	for _, name := range []string{"ssh", "connect"} {
		t.Run(name, func(t *testing.T) {
			b, open := gated(t)
			x := b.arrive(name)
			defer x.kill()
			x.expect(`verifying app`)
			x.send("echo blq=$((40+2))\r")
			x.send("echo again=$((50+4))\r")
			open()
			x.expect(`(?s)blq=42.*again=54`)
			b.once("blq=42")
			b.once("again=54")
			x.send("exit 5\r")
			if err := x.drain(); x.cmd.ProcessState.ExitCode() != 5 {
				t.Errorf("the session's end: %v", err)
			}
		})
	}
}

// A link that breaks while the checks run takes nothing with it that was typed for the session.
func TestWhatIsTypedWhileTheChecksRunSurvivesACut(t *testing.T) {
	b, open := gated(t)
	c := newCutter(t, b.address(), func() int64 { return -1 })
	x := b.inTerminal(b.connect(c.port(), "app"))
	defer x.kill()
	x.expect(`verifying app`)
	x.send("echo cut=$((40+2))\r")
	x.expect(`bytes typed wait for the session`)
	c.cutAll()
	x.expect(`verifying app`)
	open()
	x.expect(`cut=42`)
	b.once("cut=42")
	x.send("exit\r")
	_ = x.drain()
}

// One key by itself is for the progress screen: l shows the last screen, b leaves the checks in the background.
func TestASingleKeyIsForTheProgressScreen(t *testing.T) {
	for _, name := range []string{"ssh", "connect"} {
		t.Run(name, func(t *testing.T) {
			b, open := gated(t)
			x := b.arrive(name)
			defer x.kill()
			x.expect(`verifying app.*\[b\] .*\[l\] .*\[q\] `)
			x.send("l")
			x.expect(`no session before`)
			x.send("b")
			x.expect(`verification of app goes on`)
			_ = x.drain()
			open()
			b.event("verified", 1)
			if state, _, _ := b.session(); state != "" {
				t.Errorf("a session is %s", state)
			}
		})
	}
}

// A halt prompt took what had been typed before it was drawn for its answer: "cargo" carried the record.
func TestAHaltPromptTakesNothingThatWasTypedBeforeIt(t *testing.T) {
	for _, name := range []string{"ssh", "connect"} {
		t.Run(name, func(t *testing.T) {
			b, open := gated(t)
			b.write(b.app+"/b.go", "package app\n// \x1b]0;mine\x07\n"+strings.Repeat("//\tmore\n", 500))
			x := b.arrive(name)
			defer x.kill()
			x.expect(`verifying app`)
			x.send("cargo run\r")
			open()
			x.expect(`(?s)dropped.*\[q\] leave`)
			x.send("cargo run\r") // not one key, so no answer
			x.expect(`one key`)
			x.send("d")
			x.expect(`(?s)\+package app.*more lines: .*perdure diff app record.*\[q\] leave`)
			if !strings.Contains(x.last, `// \x1b]0;mine\x07`) || strings.Contains(x.last, "\x1b]0;mine") {
				t.Errorf("what a file holds drives the terminal:\n%q", x.last)
			}
			x.send("q")
			x.expect(`app stays halted`)
			_ = x.drain()
			if out := b.want(0, "handoff", "log", "app", "--json"); strings.Count(out, `"kind": "record"`) != 1 {
				t.Errorf("a record was made:\n%s", out)
			}
			if state, _, _ := b.session(); state != "" {
				t.Errorf("a session is %s", state)
			}
		})
	}
}

// drain reads the terminal to its end and waits for its client.
func (x *terminal) drain() error {
	x.t.Helper()
	_, _ = x.seen.ReadFrom(x.tty) // ends with an error where the other end is closed
	return x.cmd.Wait()
}
