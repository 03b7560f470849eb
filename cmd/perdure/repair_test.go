package main

import (
	"strings"
	"testing"
)

// halted has a workspace whose record two edits contradict.
func halted(t *testing.T) *box {
	t.Helper()
	b := recordedBox(t)
	b.replace("a.go", "a + b", "a - b")
	b.write(b.app+"/b: c.txt", "new\n")
	b.verify(12)
	return b
}

// A repair answers every finding: one that is left is named, and one that is none is refused.
func TestARepairAnswersEveryFinding(t *testing.T) {
	b := halted(t)
	repair := func(status int, explain ...string) string {
		args := []string{"handoff", "repair", "app", "--failed", "TestAdd: the sign", "--failed", "TestKnown: needs the fixture", "--passed", "TestZero", "--next", "mend it", "--wait"}
		for _, e := range explain {
			args = append(args, "--explain", e)
		}
		return b.want(status, args...)
	}
	repair(2) // it says what happened
	repair(2, "a.go:")
	repair(2, "a.go: edited", "nobody: did it")
	for _, left := range []struct{ given, open string }{{"a.go: edited", mod + "TestAdd"}, {mod + "TestAdd: the sign", "a.go"}, {"b: c.txt: made", "a.go"}} {
		if out := repair(4, left.given); !strings.Contains(out, "without an explanation") || !strings.Contains(out, left.open) {
			t.Errorf("%s isn't named: %s", left.open, out)
		}
	}
	every := []string{"a.go: edited", mod + "TestAdd: the sign", "b: c.txt: made"}
	b.want(4, "start", "app")
	if out := b.want(12, append([]string{"handoff", "repair", "app", "--passed", "TestAdd", "--next", "x", "--wait"}, flags("--explain", every)...)...); !strings.Contains(out, "TestAdd") {
		t.Errorf("a repair that is contradicted itself: %s", out)
	}
	b.want(4, "start", "app")
	repair(0, every...)
	b.named(b.verify(10), "uncovered", "b: c.txt", "no check opens it")
	b.want(0, "start", "app")
	out := b.want(0, "handoff", "show", "app", "--json")
	for _, part := range append([]string{`"repairs"`, "mend it"}, every...) {
		if !strings.Contains(out, part) {
			t.Errorf("the record doesn't say %q: %s", part, out)
		}
	}
	b.want(0, "stop", "app")
	repair(4, every...) // nothing is broken
}

func flags(flag string, values []string) (out []string) {
	for _, v := range values {
		out = append(out, flag, v)
	}
	return out
}

// A repair of a broken chain starts a new one that names the broken one.
func TestARepairOfABrokenChainNamesIt(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "true")
	for _, next := range []string{"first", "second"} {
		b.want(0, "handoff", "record", "app", "--passed", "check", "--next", next, "--wait")
	}
	b.damageRecord(true, func(s string) string { return strings.Replace(s, "second", "secund", 1) })
	b.verify(14)
	b.want(4, "handoff", "repair", "app", "--carry", "--wait")
	b.want(0, "handoff", "repair", "app", "--explain", "record: a bad disk", "--passed", "check", "--next", "third", "--wait")
	var r struct {
		Seq          int
		Prev, Broken string
	}
	decode(t, b.want(0, "handoff", "show", "app", "--json"), &r)
	if r.Seq != 1 || r.Prev != "" || !strings.HasPrefix(r.Broken, "sha256:") {
		t.Errorf("%+v doesn't start a chain that names the broken one", r)
	}
	b.verify(0)
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "fourth", "--wait")
	b.verify(0)
}

// Carrying keeps the claims where no result changed, and only there; a new test that passes changes none, and what a
// person lists as flaky is none that counts.
func TestCarryIsRefusedWhereAResultChanged(t *testing.T) {
	b := halted(t)
	if out := b.want(4, "handoff", "repair", "app", "--carry", "--wait"); !strings.Contains(out, "TestAdd: pass → fail") {
		t.Errorf("what changed isn't named: %s", out)
	}
	b.replace("a.go", "a - b", "a + b")
	b.must(b.app, "rm", "b: c.txt")
	b.write(b.app+"/n_test.go", suiteOf("TestNew"))
	b.verify(11)
	b.want(0, "handoff", "repair", "app", "--carry", "--wait")
	b.verify(0)
	if out := b.want(0, "handoff", "show", "app"); !strings.Contains(out, "go on") || !strings.Contains(out, "needs the fixture") {
		t.Errorf("the claims aren't kept: %s", out)
	}
	b.replace("n_test.go", "TestNew", "TestOther")
	b.verify(12)
	if out := b.want(4, "handoff", "repair", "app", "--carry", "--wait"); !strings.Contains(out, "TestNew: pass → nothing") {
		t.Errorf("a test that went isn't named: %s", out)
	}
	b.want(0, "set", "app", "--flaky", "TestNew")
	b.verify(11)
	b.want(0, "handoff", "repair", "app", "--carry", "--wait")
	b.verify(0)
}

// A quick verification looks, and lets nobody go; a full one that holds does.
func TestOnlyAFullVerificationReleases(t *testing.T) {
	b := halted(t)
	b.replace("a.go", "a - b", "a + b")
	b.must(b.app, "rm", "b: c.txt")
	b.want(0, "handoff", "verify", "app", "--quick")
	if out := b.want(0, "show", "app", "--json"); !strings.Contains(out, `"contradicted"`) || !strings.Contains(out, `"halted"`) {
		t.Errorf("a quick verification is kept as the verdict: %s", out)
	}
	b.want(4, "handoff", "record", "app", "--passed", "TestAdd", "--next", "x", "--wait")
	b.verify(0)
	b.want(0, "start", "app")
}

// No ordinary session starts on a halted workspace: not by start, and not by an attachment without a terminal. A repair
// session does, and what is edited in it is told apart from what was there before.
func TestARepairSessionsEditsAreToldApart(t *testing.T) {
	b := halted(t)
	b.want(4, "start", "app")
	b.want(4, "attach", "app")
	x := b.attach()
	x.expect(`is halted`)
	x.send("r")
	x.expect(`[#$] `)
	if out := b.want(0, "show", "app", "--json"); !strings.Contains(out, `"repair": true`) || !strings.Contains(out, `"halted"`) {
		t.Errorf("not shown as a repair session on a halted workspace: %s", out)
	}
	x.send("echo more > mended.txt; echo do''ne\r")
	x.expect(`done`)
	x.send("exit\r")
	b.event("ended", 1)
	all := b.verify(12)
	b.named(all, "drifted", "a.go", "no session ran")
	b.named(all, "drifted", "mended.txt", "in the repair session")
	b.want(4, "start", "app")
}

// An override is a person's, says why, and is shown for ever; it lets through what was known, and no other content.
func TestAnOverrideCoversWhatWasKnown(t *testing.T) {
	b := halted(t)
	b.want(2, "handoff", "override", "app")
	b.want(2, "handoff", "override", "app", "--because", " ")
	b.want(0, "handoff", "override", "app", "--because", "known and accepted")
	b.want(4, "handoff", "override", "app", "--because", "again")
	b.verify(12)
	b.want(0, "start", "app")
	b.want(0, "stop", "app")
	b.write(b.app+"/b: c.txt", "newer\n") // the same file, other content
	b.verify(12)
	b.want(4, "start", "app")
	b.write(b.app+"/b: c.txt", "new\n")
	b.verify(12)
	b.kill()
	b.must("", "rm", "-rf", b.dir+"/state/store", b.dir+"/state/store.id")
	b.serve("127.0.0.1:0")
	for _, args := range [][]string{{"show", "app"}, {"handoff", "log", "app"}, {"brief", "app"}, {"show", "app", "--json"}, {"handoff", "log", "app", "--json"}} {
		if out := b.want(0, args...); !strings.Contains(out, "known and accepted") {
			t.Errorf("%q doesn't show the override: %s", args, out)
		}
	}
}
