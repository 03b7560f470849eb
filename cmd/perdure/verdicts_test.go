package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// finding is what a test looks for in a report.
type finding struct{ Kind, Subject, Recorded, Found, Note string }

// verify is a full verification from outside: its exit status and findings.
func (b *box) verify(status int) []finding {
	b.t.Helper()
	var rep struct {
		Verdict  string
		Findings []finding
	}
	out := b.want(status, "handoff", "verify", "app", "--json")
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		b.t.Fatalf("%v in %s", err, out)
	}
	if want := map[int]string{0: "holds", 10: "uncovered", 11: "drifted", 12: "contradicted", 13: "inconclusive", 14: "invalid", 15: "unrecorded"}[status]; rep.Verdict != want {
		b.t.Errorf("the verdict is %s, the exit status says %s", rep.Verdict, want)
	}
	return rep.Findings
}

// named wants a finding of a kind about a subject, with a word somewhere in it.
func (b *box) named(all []finding, kind, subject, word string) {
	b.t.Helper()
	for _, f := range all {
		if f.Kind == kind && f.Subject == subject && strings.Contains(f.Recorded+" "+f.Found+" "+f.Note, word) {
			return
		}
	}
	b.t.Errorf("no %s finding about %s with %q in %+v", kind, subject, word, all)
}

// known is a module with a failure that the record knows of.
const knownTest = "package app\n\nimport \"testing\"\n\nfunc TestKnown(t *testing.T) {\n\tt.Fatal(\"needs the fixture\")\n}\n"

// recordedBox has a workspace whose record names two passes and one known failure.
func recordedBox(t *testing.T) *box {
	t.Helper()
	b := newBox(t)
	b.write(b.app+"/known_test.go", knownTest)
	b.commit("a known failure")
	b.want(0, "new", "app", "--check", "go test -vet=off ./...")
	b.record("go on")
	return b
}

func (b *box) record(next string) {
	b.t.Helper()
	b.want(0, "handoff", "record", "app", "--passed", "TestAdd", "--passed", "TestZero", "--failed", "TestKnown: needs the fixture", "--next", next, "--wait")
}

func (b *box) commit(message string) {
	b.t.Helper()
	b.must(b.app, "git", "add", "-A")
	b.must(b.app, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", message)
}

func (b *box) replace(file, from, to string) {
	b.t.Helper()
	data, err := os.ReadFile(b.app + "/" + file)
	if err != nil || !strings.Contains(string(data), from) {
		b.t.Fatalf("%s has no %q: %v", file, from, err)
	}
	b.write(b.app+"/"+file, strings.ReplaceAll(string(data), from, to))
}

const mod = "example.com/app."

// The verdicts that the main job rests on, each on a real module: shared state, one change, one verdict.
func TestVerdictsFromOutside(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *box)
		status int
		want   []finding // kind, subject, and a word in Note
	}{
		"the same tree holds": {func(*box) {}, 0, nil},
		"committing what was recorded holds": {func(b *box) {
			b.must(b.app, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "x")
		}, 0, nil},
		"a green edit drifts":                     {func(b *box) { b.replace("a.go", "package app\n", "package app\n\n// Sum.\n") }, 11, []finding{{Kind: "drifted", Subject: "a.go", Note: "edited"}}},
		"another branch drifts":                   {func(b *box) { b.must(b.app, "git", "checkout", "-qb", "other") }, 11, []finding{{Kind: "drifted", Subject: "branch", Note: "other"}}},
		"an edit that breaks a test contradicts":  {func(b *box) { b.replace("a.go", "a + b", "a - b") }, 12, []finding{{Kind: "contradicted", Subject: mod + "TestAdd", Note: "fail"}, {Kind: "drifted", Subject: "a.go", Note: "edited"}}},
		"a check that runs no test says nothing":  {func(b *box) { b.want(0, "set", "app", "--check", "go test -run Nothing ./...") }, 13, []finding{{Kind: "inconclusive", Subject: "check", Note: "no tests"}}},
		"a check that isn't there says nothing":   {func(b *box) { b.want(0, "set", "app", "--check", "nosuchprogram") }, 13, []finding{{Kind: "inconclusive", Subject: "check", Note: "missing"}}},
		"a deleted test contradicts":              {func(b *box) { b.replace("a_test.go", "TestZero", "helper") }, 12, []finding{{Kind: "contradicted", Subject: mod + "TestZero", Note: "absent"}}},
		"a known failure that passes contradicts": {func(b *box) { b.replace("known_test.go", "t.Fatal", "t.Log") }, 12, []finding{{Kind: "contradicted", Subject: mod + "TestKnown", Note: "pass"}}},
		"fewer tests, all of them green, contradict": {func(b *box) {
			b.must(b.app, "rm", "known_test.go")
			b.replace("a_test.go", "TestZero", "helper")
			b.commit("fewer")
		}, 12,
			[]finding{{Kind: "contradicted", Subject: mod + "TestZero", Note: "absent"}, {Kind: "contradicted", Subject: mod + "TestKnown", Note: "absent"}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := recordedBox(t)
			c.change(b)
			got := b.verify(c.status)
			for _, f := range c.want {
				b.named(got, f.Kind, f.Subject, f.Note)
			}
		})
	}
}

// A result can change under an unchanged tree: the record is wrong in one direction or the other.
func TestVerdictOfAnUnchangedTreeWhoseResultsDiffer(t *testing.T) {
	for word, fresh := range map[string]string{"fail": "", "pass": "x"} {
		t.Run("now "+word, func(t *testing.T) {
			b := newBox(t)
			outside := b.dir + "/service"
			b.write(outside, map[string]string{"fail": "x", "pass": ""}[word])
			b.want(0, "new", "app", "--check", "test -s "+outside)
			if word == "fail" {
				b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x", "--wait")
			} else {
				b.want(0, "handoff", "record", "app", "--failed", "check: no service", "--next", "x", "--wait")
			}
			b.want(0, "handoff", "verify", "app")
			b.write(outside, fresh)
			b.named(b.verify(12), "contradicted", "check", word)
		})
	}
}

// The seed of it all: the record was written before the last edit, and a disconnect's own observation of the newer
// tree does not hide it. Nothing but a repair, an override or a later verification that holds lets a session start.
func TestARecordFromBeforeTheLastEditHalts(t *testing.T) {
	b := recordedBox(t)
	x := b.attach()
	x.expect(`a fresh session starts`)
	x.send("sed -i 's/a + b/a - b/' a.go; echo edi''ted\r")
	x.expect(`edited`)
	x.kill()
	b.event("snapshot", 3) // made, recorded, and the disconnect's
	b.want(0, "stop", "app")

	x = b.attach()
	x.expect(`(?s)contradicted.*TestAdd.*drifted.*a\.go.*is halted`)
	x.kill()
	b.want(4, "start", "app")
	if out := b.want(0, "show", "app", "--json"); !strings.Contains(out, `"state": "halted"`) {
		t.Errorf("not halted: %s", out)
	}

	b.want(0, "handoff", "override", "app", "--because", "the demo is in an hour")
	b.want(0, "start", "app")
	if out := b.want(0, "events", "app", "--json"); !strings.Contains(out, "the demo is in an hour") {
		t.Errorf("the override isn't told: %s", out)
	}
	b.want(0, "stop", "app")
	b.verify(12)
	b.want(0, "start", "app") // nothing new is wrong
	b.want(0, "stop", "app")
	b.replace("a_test.go", "TestZero", "helper") // something is
	b.verify(12)
	b.want(4, "start", "app")
	b.replace("a.go", "a - b", "a + b") // both are taken back
	b.replace("a_test.go", "helper", "TestZero")
	b.verify(0)
	b.want(0, "start", "app")
}

// A stored record that was damaged is never read as a sound one, whatever the damage; and a repair starts a new chain.
func TestADamagedRecordIsInvalidAndSaysWhere(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(string) string
		newest bool
		word   string
	}{
		"truncated":             {func(s string) string { return s[:len(s)/2] }, true, "at byte"},
		"duplicate key":         {func(s string) string { return strings.Replace(s, `"seq":2`, `"seq":2,"seq":2`, 1) }, true, "duplicate key"},
		"unknown field":         {func(s string) string { return strings.Replace(s, `"seq":2`, `"seq":2,"x":1`, 1) }, true, `"x"`},
		"edited by hand":        {func(s string) string { return strings.Replace(s, "later", "never", 1) }, true, "edited"},
		"an earlier one edited": {func(s string) string { return strings.Replace(s, "first", "fixed", 1) }, false, "edited"},
		"an earlier one is cut": {func(s string) string { return s[:9] }, false, "record 1"},
		"emptied":               {func(string) string { return "" }, true, "record"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.want(0, "new", "app", "--check", "true")
			for _, next := range []string{"first", "later"} {
				b.want(0, "handoff", "record", "app", "--passed", "check", "--next", next, "--wait")
			}
			b.damageRecord(c.newest, c.damage)
			b.named(b.verify(14), "invalid", "record", c.word)
			b.want(4, "start", "app")
			b.want(0, "handoff", "repair", "app", "--explain", "record: a disk error", "--passed", "check", "--next", "on", "--wait")
			b.verify(0)
		})
	}
	t.Run("the newest is gone", func(t *testing.T) {
		b := newBox(t)
		b.want(0, "new", "app", "--check", "true")
		b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x", "--wait")
		b.damageRecord(true, nil)
		b.named(b.verify(14), "invalid", "record", "missing")
	})
}

// damageRecord edits a record behind perdure's back, or deletes it, while no server runs; then the store has to be
// rebuilt from what is left.
func (b *box) damageRecord(newest bool, damage func(string) string) {
	b.t.Helper()
	b.kill()
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", b.dir + "/state/snapshots/ledger.git"}, args...)...)
		cmd.Env, cmd.Stdin = b.env, strings.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			b.t.Fatalf("git %q: %v", args, err)
		}
		return string(out)
	}
	refs := strings.Fields(git("", "for-each-ref", "--format=%(refname)", "refs/perdure/app/record"))
	ref := refs[0]
	if newest {
		ref = refs[len(refs)-1]
	}
	if damage == nil {
		git("", "update-ref", "-d", ref)
	} else {
		was := git("", "cat-file", "blob", ref)
		now := damage(was)
		if now == was {
			b.t.Fatalf("nothing is damaged in %s", was)
		}
		git("", "update-ref", ref, strings.TrimSpace(git(now, "hash-object", "-w", "--stdin")))
	}
	b.must("", "rm", "-rf", b.dir+"/state/store", b.dir+"/state/store.id")
	b.serve("127.0.0.1:0")
}

// An earlier workspace of the same name leaves no record in force behind, and no seal.
func TestAWorkspaceMadeAnewStartsANewChain(t *testing.T) {
	b := newBox(t)
	for range 2 {
		b.want(0, "new", "app", "--check", "true")
		b.verify(15)
		b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x", "--wait")
		b.verify(0)
		b.want(0, "rm", "app")
	}
}

// A record edited in the ledger under a running server, whose store still has the true bytes, is found too; and who
// made an edit, and that a nested repository's own files count, is told.
func TestAnEditBehindARunningServerIsFound(t *testing.T) {
	b := recordedBox(t)
	b.must("", "git", "init", "-q", b.app+"/inner")
	b.write(b.app+"/inner/f", "1")
	b.must(b.app+"/inner", "git", "add", "-A")
	b.must(b.app+"/inner", "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "begin")
	b.named(b.verify(11), "drifted", "inner", "someone else")
	b.want(0, "handoff", "repair", "app", "--carry", "--wait")
	b.write(b.app+"/inner/f", "2")
	b.named(b.verify(11), "drifted", "inner", "content changed")
	b.write(b.app+"/inner/f", "1")
	b.verify(0)
	ledger := b.dir + "/state/snapshots/ledger.git"
	ref := strings.Fields(b.must("", "git", "--git-dir", ledger, "for-each-ref", "--sort=-refname", "--format=%(refname)", "refs/perdure/app/record"))[0]
	b.write(b.dir+"/other", strings.Replace(b.must("", "git", "--git-dir", ledger, "cat-file", "blob", ref), "pass", "skip", 1))
	b.must("", "git", "--git-dir", ledger, "update-ref", ref, strings.TrimSpace(b.must("", "git", "--git-dir", ledger, "hash-object", "-w", b.dir+"/other")))
	b.named(b.verify(14), "invalid", "record", "edited")
	b.want(4, "start", "app")
	b.want(4, "handoff", "repair", "app", "--carry", "--wait")
}
