package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// quickBox is a box with a quick check that fails once a.go says BAD, beside a slow one; each run is counted.
func quickBox(t *testing.T) *box {
	t.Helper()
	b := newBox(t)
	b.write(b.app+"/lint.sh", "echo lint >>"+b.dir+"/ran; ! grep -q BAD a.go\n")
	b.want(0, "new", "app", "--check", "unit=echo unit >>"+b.dir+"/ran; go test ./...", "--check", "lint=sh lint.sh", "--quick", "lint")
	b.want(0, "handoff", "record", "app", "--passed", "TestAdd", "--passed", "TestZero", "--passed", "lint", "--next", "go on", "--wait")
	return b
}

// ran is how often a check ran since it was asked last.
func (b *box) ran(label string) int {
	b.t.Helper()
	data, err := os.ReadFile(b.dir + "/ran")
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	return strings.Count(string(data), label)
}

func (b *box) forget() { b.write(b.dir+"/ran", "") }

// Quick checks were kept and never run: each reattach runs them, on the tree as it is, and says what they found.
func TestQuickChecksRunOnEveryReattach(t *testing.T) {
	for _, client := range []string{"ssh", "connect"} {
		t.Run(client, func(t *testing.T) {
			b := quickBox(t)
			x := b.arrive(client)
			x.expect(`a fresh session starts`)
			x.send("echo up=$((40+2))\r")
			x.expect(`up=42`)
			x.kill()
			b.forget()
			x = b.arrive(client)
			x.expect(`app: holds.*running lint`)
			x.expect(`quick checks as recorded`)
			if b.ran("lint") != 1 || b.ran("unit") != 0 {
				t.Errorf("ran lint %d times, unit %d times", b.ran("lint"), b.ran("unit"))
			}
			x.send("echo '// BAD' >>a.go; echo edi''ted\r")
			x.expect(`edited\r`)
			x.kill()
			x = b.arrive(client)
			x.expect(`quick check: lint recorded pass, found fail`)
			x.kill()

			out, status := b.run("handoff", "verify", "app", "--quick", "--json")
			var rep struct {
				Verdict, Scope string
				Findings       []struct{ Kind, Subject, Found string }
				Checks         []struct{ Label, Where string }
			}
			if err := json.Unmarshal([]byte(out), &rep); err != nil || status != 0 {
				t.Fatalf("status %d: %v\n%s", status, err, out)
			}
			// What a live session broke is a note on its work, not on the record.
			if rep.Scope != "quick" || len(rep.Checks) != 1 || rep.Checks[0].Where != "scratch" || !strings.Contains(out, "in the tree as it is now") {
				t.Errorf("the report: %s", out)
			}
			if out := b.want(0, "show", "app", "--json"); !regexp.MustCompile(`"verdict": "holds"`).MatchString(out) || strings.Contains(out, `"state": "halted"`) {
				t.Errorf("a quick verification touched the record's verdict: %s", out)
			}
			if b.ran("unit") != 0 {
				t.Error("a check that isn't quick ran")
			}
		})
	}
}

// A client whose link broke hears of quick checks only where something is wrong.
func TestQuickChecksRunBesideAResumedLink(t *testing.T) {
	b := quickBox(t)
	c := newCutter(t, b.address(), func() int64 { return -1 })
	x := b.inTerminal(b.connect(c.port(), "app"))
	defer x.kill()
	x.expect(`a fresh session starts`)
	x.send("echo '// BAD' >>a.go; echo edi''ted\r")
	x.expect(`edited\r`)
	b.forget()
	c.cutAll()
	x.expect(`quick check: lint recorded pass, found fail`)
	if b.ran("unit") != 0 {
		t.Error("a check that isn't quick ran")
	}
}

// A quick check that a person revoked doesn't run, and the attach says so.
func TestAQuickCheckNeedsConsent(t *testing.T) {
	b := quickBox(t)
	x := b.arrive("ssh")
	x.expect(`a fresh session starts`)
	x.send("echo up=$((40+2))\r")
	x.expect(`up=42`)
	x.kill()
	var list []struct{ Hash, Label string }
	if err := json.Unmarshal([]byte(b.want(0, "consent", "app", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Label == "lint" {
			b.want(0, "consent", "app", "--revoke", c.Hash)
		}
	}
	b.forget()
	x = b.arrive("ssh")
	defer x.kill()
	x.expect(`quick check: lint.* found .*consent`)
	if b.ran("lint") != 0 {
		t.Error("it ran all the same")
	}
}
