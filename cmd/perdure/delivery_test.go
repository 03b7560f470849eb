package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// twoBox has two workspaces in two worktrees of a repository: app receives, side sends.
func twoBox(t *testing.T) *box {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "go test ./...")
	b.want(0, "new", "side", "--worktree", "side", "--dir", b.dir+"/side", "--check", "go test ./...")
	t.Cleanup(func() { b.run("rm", "side") })
	return b
}

// send commits a file in the sender's worktree, records it and delivers.
func (b *box) send(file, text string, args ...string) string {
	b.t.Helper()
	b.write(b.dir+"/side/"+file, text)
	b.must(b.dir+"/side", "git", "add", "-A")
	b.must(b.dir+"/side", "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "side work")
	b.want(0, append([]string{"handoff", "record", "side", "--passed", "TestAdd", "--next", "merge it", "--wait"}, args...)...)
	var d struct{ ID, State string }
	if err := json.Unmarshal([]byte(b.want(0, "deliver", "app", "--from", "side", "-m", "take this", "--json")), &d); err != nil || d.State != "unverified" {
		b.t.Fatalf("%v, %+v", err, d)
	}
	return d.ID
}

func (b *box) state() string {
	b.t.Helper()
	return b.must(b.app, "sh", "-c", "git rev-parse HEAD; git status --porcelain=v2; git for-each-ref; git stash list; sha256sum .git/config; find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum")
}

// A delivery counts only once the receiver verified it: on its own tree, and on the merge.
func TestADeliveryIsVerifiedAndThenMerged(t *testing.T) {
	b := twoBox(t)
	id := b.send("b_test.go", suiteOf("TestSide"))
	b.want(4, "deliver", "app", "--from", "side") // once
	b.kill()
	b.serve("127.0.0.1:0") // it survives
	for _, args := range [][]string{{"inbox", "app"}, {"ls", "--json"}, {"show", "app"}, {"brief", "app"}} {
		if out := b.want(0, args...); !strings.Contains(out, "unverified") || !strings.Contains(out, id) {
			t.Errorf("%q does not show it as unverified:\n%s", args, out)
		}
	}
	before := b.state()
	b.write(b.app+"/a.go", "package app\n\nfunc Add(a, b int) int { return b + a }\n")
	b.want(4, "accept", id, "--merge") // there are edits in the way
	b.must(b.app, "git", "checkout", "-q", "a.go")
	if after := b.state(); after != before {
		t.Errorf("a refused merge changed the repository:\n%s", after)
	}
	b.want(0, "accept", id, "--merge")
	if _, err := os.Stat(b.app + "/b_test.go"); err != nil {
		t.Errorf("the delivered file is missing: %v", err)
	}
	b.want(4, "accept", id)
	for _, name := range []string{"app", "side"} {
		if out := b.want(0, "inbox", name); !regexp.MustCompile(`accepted +holds`).MatchString(out) {
			t.Errorf("%s does not see the verdict: %s", name, out)
		}
	}
}

// A merge that doesn't hold never touches the receiver, though the delivery itself does.
func TestAMergeThatDoesNotHoldTouchesNothing(t *testing.T) {
	b := twoBox(t)
	b.replace("a.go", "return a + b", "return a + b + 0")
	b.write(b.app+"/c.go", "package app\n\nfunc Neg(a int) int { return -a }\n")
	b.commit("receiver's own")
	id := b.send("c_test.go", "package app\n\nimport \"testing\"\n\nfunc Neg(int) int { return 1 }\n\nfunc TestNeg(t *testing.T) {}\n")
	before := b.state()
	out := b.want(12, "accept", id, "--merge")
	if !strings.Contains(out, "TestAdd") || !strings.Contains(out, "on the merge") {
		t.Errorf("the report does not name what fails on the merge:\n%s", out)
	}
	if after := b.state(); after != before {
		t.Errorf("the receiver was touched:\n%s\nwas\n%s", after, before)
	}
	b.want(2, "reject", id)
	b.want(0, "reject", id, "--because", "it does not build here")
	if out := b.want(0, "inbox", "side"); !strings.Contains(out, "rejected") || !strings.Contains(out, "does not build") {
		t.Errorf("the sender does not see why: %s", out)
	}
	b.want(3, "accept", "01ZZZZ")
	b.want(3, "deliver", "nobody", "--from", "side")
}

func suiteOf(names ...string) string {
	text := "package app\n\nimport \"testing\"\n"
	for _, n := range names {
		text += "\nfunc " + n + "(t *testing.T) {}\n"
	}
	return text
}

// A record that takes long is promised by its id, and a server that starts again keeps the promise.
func TestAPendingRecordOutlivesItsServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for the time after which a record is pending")
	}
	b := newBox(t)
	b.write(b.app+"/.gitignore", "go-on\nrunning\n")
	b.commit("ignore")
	b.want(0, "new", "app", "--check", "touch running; until test -e go-on; do sleep 0.2; done")
	out := b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x")
	m := regexp.MustCompile(`pending (\w{26})`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no pending record: %s", out)
	}
	b.want(3, "handoff", "show", "app", m[1])
	b.kill()
	b.must("", "sh", "-c", "while pgrep -f '[u]ntil test -e go-on' >/dev/null; do sleep 0.1; done") // fails by the test's own end
	b.write(b.app+"/go-on", "")
	b.serve("127.0.0.1:0")
	b.event("recorded", 1)
	b.want(0, "handoff", "show", "app", m[1])
}

// On a merge each test counts that ran on it: what a person lists as flaky stops nobody, what two runs differ about is
// flaky, and results of a check that nobody ran again there say nothing, for better or worse.
func TestAMergeCountsOnlyWhatRanOnIt(t *testing.T) {
	fickle := "package app\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestFickle(t *testing.T) {\n\tif _, err := os.Stat(os.Getenv(\"HOME\") + \"/bad\"); err == nil {\n\t\t_ = os.Remove(os.Getenv(\"HOME\") + \"/once\")\n\t\tt.Fatal()\n\t}\n}\n"
	conflict := func(b *box) { // the merge isn't either side's tree
		b.write(b.app+"/c.go", "package app\n\nfunc Neg(a int) int { return -a }\n")
		b.commit("receiver's own")
	}
	t.Run("a listed one", func(t *testing.T) {
		b := twoBox(t)
		conflict(b)
		b.want(0, "set", "app", "--flaky", "TestFickle", "--setup", "touch "+b.dir+"/home/bad")
		id := b.send("f_test.go", fickle)
		if out := b.want(0, "accept", id, "--merge"); !strings.Contains(out, "TestFickle") {
			t.Errorf("it isn't told:\n%s", out)
		}
	})
	t.Run("two runs differ", func(t *testing.T) {
		b := twoBox(t)
		conflict(b)
		id := b.send("f_test.go", strings.Replace(fickle, "/once", "/bad", 1))
		b.want(0, "set", "app", "--setup", "grep -q Neg c.go 2>/dev/null && touch "+b.dir+"/home/bad; true")
		if out := b.want(13, "accept", id, "--merge"); !strings.Contains(out, "flaky") || !strings.Contains(out, "TestFickle") {
			t.Errorf("flakiness on the merge isn't told:\n%s", out)
		}
	})
	t.Run("a check that nobody runs there", func(t *testing.T) {
		b := twoBox(t)
		conflict(b)
		b.want(0, "set", "app", "--check", "test -e never")
		b.want(0, "handoff", "record", "app", "--failed", "check: not yet", "--next", "x", "--wait")
		b.want(0, "set", "app", "--check", "go test ./...")
		id := b.send("d_test.go", suiteOf("TestSide"))
		if out := b.want(0, "accept", id, "--merge"); !strings.Contains(out, "not run again") {
			t.Errorf("what doesn't count isn't told:\n%s", out)
		}
	})
}
