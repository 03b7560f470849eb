package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A record says by which settings its check was run. A command whose results were read from its exit status alone
// confirms nothing that the same command tells test by test.
func TestARecordSaysHowItsCheckRan(t *testing.T) {
	weak := func(p *project) {
		p.want(0, "set", p.name, "--check", p.language.check+" || true", "--results", "exit", "--check-timeout", "90s", "--check-env", "PLACE", "--check-env", "DB")
	}
	own := func(p *project) { p.want(0, "set", p.name, "--results", "auto") }
	play(t, []scene{
		{"read by its status, and it fails", []string{"shell", "go", "pytest"}, func(p *project) {
			weak(p)
			p.put(p.source, p.broken())
		}, func(p *project) {
			how := `"how":{"results":"exit","env":["DB","PLACE"],"timeout_ms":90000}`
			if out := p.want(0, "handoff", "show", p.name, "--json"); !strings.Contains(strings.Join(strings.Fields(out), ""), how) {
				p.t.Errorf("no %s in %s", how, out)
			}
			own(p)
		}, "inconclusive", []finding{{"inconclusive", "one", "", "", "fails"}, {"note", "check", "", "", `read as "exit", here as "auto"`}}},
		{"read by its status, and it passes", []string{"shell", "node"}, weak, own, "holds", []finding{{"note", "check", "", "", `read as "exit", here as "auto"`}}},
		{"with other variables, and it passes", []string{"shell"}, weak, func(p *project) { p.want(0, "set", p.name, "--check-env", "DB", "--check-timeout", "5m") }, "holds",
			[]finding{{"note", "check", "variables DB PLACE", "", "other variables"}, {"note", "check", "at most 1m30s", "", "another time limit"}}},
	})
}

// What asks whether the environment is ready sees it as the checks do.
func TestNeedsSeesTheVariablesOfTheChecks(t *testing.T) {
	b := newBox(t)
	b.kill()
	b.env = append(b.env, "DATABASE=here")
	b.serve("127.0.0.1:0")
	see := `test "$DATABASE" = here`
	b.want(0, "new", "app", "--check", see, "--needs", see, "--check-env", "DATABASE")
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x", "--done-when", see, "--wait")
	b.named(b.verify(0), "note", "done_when", "already done")
}

// The word on a command is the command's, not that of the label: one that was taken back isn't run because a record
// has it under a label that another command has now.
func TestATakenBackCommandOfARecordIsNotRun(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "echo x >> ../ran")
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x", "--wait")
	b.want(0, "set", "app", "--check", "true")
	b.verify(0)
	var list []struct{ Hash, Cmd string }
	decode(t, b.want(0, "consent", "app", "--json"), &list)
	for _, c := range list {
		if strings.Contains(c.Cmd, "ran") {
			b.want(0, "consent", "app", "--revoke", c.Hash)
		}
	}
	ran := func() string { return b.must("", "cat", filepath.Join(b.dir, "ran")) }
	before := ran()
	b.named(b.verify(13), "inconclusive", "check", "needs consent")
	if after := ran(); after != before {
		t.Errorf("it ran again: %q", after)
	}
}

// A record that can't be trusted, or isn't of what is there now, has no claims to keep.
func TestNothingIsCarriedFromAnInvalidRecord(t *testing.T) {
	b := recordedBox(t)
	if err := os.Rename(b.app+"/.git", b.dir+"/git-kept"); err != nil {
		t.Fatal(err)
	}
	b.named(b.verify(14), "invalid", "directory", "isn't what it was")
	if out := b.want(4, "handoff", "repair", "app", "--carry", "--wait"); !strings.Contains(out, "nothing to carry") || !strings.Contains(out, "--explain") {
		t.Errorf("no way on: %s", out)
	}
	if err := os.Rename(b.dir+"/git-kept", b.app+"/.git"); err != nil {
		t.Fatal(err)
	}
	b.verify(0)
}

// A delivery that a weaker check recorded is verified by the receiver's own, also where it isn't merged.
func TestADeliveryIsVerifiedByTheReceiversOwnChecks(t *testing.T) {
	b := twoBox(t)
	b.want(0, "set", "side", "--check", "test -e a.go")
	b.must(b.dir+"/side", "sed", "-i", "s/a + b/a - b/", "a.go")
	b.must(b.dir+"/side", "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qam", "broken")
	b.want(0, "handoff", "record", "side", "--passed", "check", "--next", "merge it", "--wait")
	var d struct{ ID string }
	decode(t, b.want(0, "deliver", "app", "--from", "side", "--json"), &d)
	var list []struct{ Hash, Kind string }
	decode(t, b.want(0, "consent", "app", "--json"), &list)
	for _, c := range list {
		if c.Kind == "delivered" {
			b.want(0, "consent", "app", "--allow", c.Hash)
		}
	}
	if out := b.want(13, "accept", d.ID); !strings.Contains(out, "TestAdd") || !strings.Contains(out, "wasn't in the record, and fails") {
		t.Errorf("the receiver's own check was not run: %s", out)
	}
}

// Hashes of what a check read beside the tree are keyed: a short secret can't be guessed from a record, and without the
// key nothing is said about it.
func TestHashesOfInputsAreKeyed(t *testing.T) {
	b := newBox(t)
	b.write(b.app+"/.gitignore", ".env\n")
	b.commit("ignore")
	b.write(b.app+"/.env", "PIN=1\n")
	b.want(0, "new", "app", "--check", "grep -q PIN .env")
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x", "--wait")
	var r struct {
		Measured struct {
			Checks []struct{ Inputs map[string]string }
		}
	}
	inputs := func() string {
		decode(t, b.want(0, "handoff", "show", "app", "--json"), &r)
		return r.Measured.Checks[0].Inputs[".env"]
	}
	first := inputs()
	if !strings.HasPrefix(first, "hmac-sha256:") {
		t.Fatalf("the hash is %q", first)
	}
	if info, err := os.Stat(b.dir + "/state/input_key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	b.write(b.app+"/.env", "PIN=2\n")
	if _, all := b.full(); !strings.Contains(notes(all, ".env"), "changed") {
		t.Errorf("the change isn't named: %+v", all)
	}
	b.kill()
	if err := os.Remove(b.dir + "/state/input_key"); err != nil {
		t.Fatal(err)
	}
	b.serve("127.0.0.1:0")
	if verdict, all := b.full(); verdict != "holds" || notes(all, ".env") != "" {
		t.Errorf("without the key: %s, %+v", verdict, all)
	}
	b.write(b.app+"/.env", "PIN=1\n")
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x", "--wait")
	if again := inputs(); again == first || !strings.HasPrefix(again, "hmac-sha256:") {
		t.Errorf("of another key: %q, was %q", again, first)
	}
}

// full is a full verification of app.
func (b *box) full() (string, []finding) {
	b.t.Helper()
	out, _ := b.run("handoff", "verify", "app", "--json")
	var rep struct {
		Verdict  string
		Findings []finding
	}
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		b.t.Fatalf("%v in %s", err, out)
	}
	return rep.Verdict, rep.Findings
}
