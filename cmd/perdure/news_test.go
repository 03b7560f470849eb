package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
)

// turn ends the agent's turn and waits until the server knows.
func (b *box) turn(name string) {
	b.t.Helper()
	b.want(0, "send", name, "--enter", "stop")
	b.want(0, "wait", name, "--for", "idle", "--timeout", "1m")
}

// An agent was told which files others had changed while it was idle, and not who; nor of deliveries.
func TestAnAgentIsToldAtItsPromptWhoChangedWhat(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "one", "--agent", "claude")
	b.want(0, "start", "one")
	b.conversation("one")
	tells := func(prompt, pattern string) {
		t.Helper()
		b.say("one", "prompt "+prompt, "did prompt "+prompt)
		if log := b.want(0, "log", "one", "--text"); !regexp.MustCompile(pattern).MatchString(log) {
			t.Errorf("prompt %s: %q isn't told:\n%s", prompt, pattern, log)
		}
	}
	b.write(b.app+"/nobody.txt", "") // before its first prompt it is idle too
	tells("a", `- nobody\.txt, added by someone unknown at`)

	b.turn("one")
	if out, err := b.ssh(context.Background(), "one@127.0.0.1", "touch person.txt").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tells("b", `- person\.txt, added by a person \(SHA256:`)

	b.turn("one")
	b.want(0, "new", "two")
	b.want(0, "start", "two")
	b.want(0, "send", "two", "--enter", "rm person.txt; echo ed''ited")
	b.want(0, "wait", "two", "--for", "text=edited", "--timeout", "1m")
	tells("c", `- person\.txt, deleted by workspace two between`)
	b.want(0, "stop", "two")

	b.turn("one")
	b.want(0, "handoff", "record", "two", "--finished", "--wait")
	b.want(0, "deliver", "one", "--from", "two", "-m", "for you")
	tells("d", `from two: unverified\. Don't rely on it before`)
	if out := b.want(0, "ls"); !strings.Contains(out, "1 unverified") {
		t.Errorf("ls: %s", out)
	}
	for _, args := range [][]string{{"inbox", "one"}, {"show", "one"}, {"brief", "one"}} {
		if out := b.want(0, args...); !strings.Contains(out, "unverified") {
			t.Errorf("%v: %s", args, out)
		}
	}
	b.turn("one")
	b.write(b.app+"/later.txt", "")
	tells("e", `- later\.txt, added by`)
	if log := b.want(0, "log", "one"); strings.Count(log, "from two: unverified") != 1 {
		t.Errorf("it was told of the delivery more than once:\n%s", log)
	}
}
