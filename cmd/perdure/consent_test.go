package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A command that an agent brings runs only after a person allowed it, by its hash; another command needs another word.
func TestACommandNeedsConsentByItsHash(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "true", "--needs", "test ! -e notready", "--", "/bin/sh", "-c", "perdure handoff record --passed check --next x --done-when 'touch ran'; exec sleep 100000")
	b.want(0, "start", "app")
	b.event("recorded", 1)
	b.want(0, "stop", "app")
	b.named(b.verify(0), "note", "done_when", "consent")
	if _, err := os.Stat(b.app + "/ran"); err == nil {
		t.Fatal("an agent's command ran without consent")
	}
	var list []struct {
		Hash, Kind, Cmd string
		Allowed         bool
	}
	if err := json.Unmarshal([]byte(b.want(0, "consent", "app", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	hash := ""
	for _, c := range list {
		if c.Kind == "done_when" && !c.Allowed {
			hash = c.Hash
		} else if !c.Allowed {
			t.Errorf("a person's own %s %q is not allowed", c.Kind, c.Cmd)
		}
	}
	if out := b.want(0, "ls", "--json"); !strings.Contains(out, `"why": "consent"`) {
		t.Errorf("nobody is asked: %s", out)
	}
	b.want(3, "consent", "app", "--allow", "000000000000")
	b.want(0, "consent", "app", "--allow", hash)
	b.kill()
	b.serve("127.0.0.1:0") // a word lasts
	b.verify(13)           // it ran, and it edits files
	if err := os.Remove(b.app + "/ran"); err != nil {
		t.Fatal("an allowed command did not run")
	}
	b.want(0, "consent", "app", "--revoke", hash)
	b.named(b.verify(0), "note", "done_when", "consent")
}

// While the environment isn't ready nothing is failed, and the halt ends by itself once it is.
func TestAHaltForWhatIsNotReadyEndsByItself(t *testing.T) {
	b := newBox(t)
	b.write(b.app+"/.gitignore", "notready\n")
	b.commit("ignore")
	b.want(0, "new", "app", "--check", "true", "--needs", "test ! -e notready")
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x", "--wait")
	b.write(b.app+"/notready", "")
	b.named(b.verify(13), "inconclusive", "needs", "not ready")
	b.want(4, "start", "app")
	if err := os.Remove(b.app + "/notready"); err != nil {
		t.Fatal(err)
	}
	b.event("released", 1)
	b.want(0, "start", "app")
}

// While a session is live the record's own tree is checked in a scratch checkout, which shares what --link names and is
// prepared by --setup.
func TestAScratchCheckoutIsPrepared(t *testing.T) {
	b := newBox(t)
	b.write(b.app+"/.gitignore", "deps\nmade\n")
	b.commit("ignore")
	if err := os.MkdirAll(b.app+"/deps", 0o700); err != nil {
		t.Fatal(err)
	}
	b.write(b.app+"/deps/one", "1")
	b.write(b.app+"/made", "1")
	b.want(0, "new", "app", "--check", "test -e deps/one && test -e made && ! grep -q moved a.go", "--setup", "test -e deps/one && touch made", "--link", "deps")
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x", "--wait")
	b.want(0, "start", "app")
	b.replace("a.go", "package app", "package app // moved")
	out := b.want(0, "handoff", "verify", "app", "--json")
	if !strings.Contains(out, `"where": "scratch"`) || !strings.Contains(out, `"behind": 1`) {
		t.Errorf("not checked in a scratch checkout: %s", out)
	}
	b.want(0, "set", "app", "--setup", "echo no; false")
	b.named(b.verify(13), "inconclusive", "setup", "status 1")
}
