package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// say types a line to the agent, and waits until it says what it did.
func (b *box) say(name, line, until string) {
	b.t.Helper()
	b.want(0, "send", name, "--enter", line)
	b.want(0, "wait", name, "--for", "text="+until, "--timeout", "1m")
}

// of is one workspace's summary.
func (b *box) of(name string) (w struct {
	Session   struct{ Activity, Source string }
	Attention *struct{ Why, Text string }
}) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.want(0, "show", name, "--json")), &w); err != nil {
		b.t.Fatal(err)
	}
	return w
}

func (b *box) conversation(name string) string {
	b.t.Helper()
	b.want(0, "wait", name, "--for", `text=(startup|resume) conversation`, "--timeout", "1m")
	m := regexp.MustCompile(`(?:startup|resume) conversation (\S+)`).FindAllStringSubmatch(b.want(0, "log", name), -1)
	if m == nil {
		b.t.Fatal("no conversation")
	}
	return m[len(m)-1][1]
}

// An agent is started with the brief, asked for a record once, observed before it compacts, and resumes its own
// conversation after a crash: another's in the same directory, or one that is gone, never.
func TestAnAgentIsWiredInFromStartToResume(t *testing.T) {
	for _, preset := range []string{"claude", "gemini"} {
		t.Run(preset, func(t *testing.T) { wiredIn(t, newBox(t), preset) })
	}
}

func wiredIn(t *testing.T, b *box, preset string) {
	b.want(0, "new", "one", "--agent", preset, "--check", "go test -json ./...", "--goal", "add numbers")
	b.want(0, "new", "two", "--agent", preset)
	b.want(0, "start", "one")
	b.want(0, "start", "two")
	first, other := b.conversation("one"), b.conversation("two")
	if first == other {
		t.Fatal("two agents in one conversation")
	}
	if log := b.want(0, "log", "one"); !strings.Contains(log, "unrecorded") || !strings.Contains(log, "add numbers") {
		t.Fatalf("the brief was not injected:\n%s", log)
	}
	b.say("one", "prompt go", "did prompt")
	if w := b.of("one"); w.Session.Activity != "working" || w.Session.Source != "hook" {
		t.Fatalf("after a prompt: %+v", w)
	}
	b.write(b.app+"/new.go", "package app\n")
	b.say("one", "stop", "was asked, and again: false")
	if w := b.of("one"); w.Session.Activity != "idle" || w.Attention == nil || w.Attention.Why != "turn-done" {
		t.Fatalf("after a turn: %+v", w)
	}
	b.say("one", "stop", "was not asked")
	b.want(0, "handoff", "record", "one", "--passed", "example.com/app.TestAdd", "--next", "TestZero too", "--wait")
	b.write(b.app+"/person.go", "package app\n")
	b.say("one", "prompt more", `- person\.go`)
	if preset == "claude" {
		b.want(0, "send", "one", "--enter", "permission rm -rf build")
		b.want(0, "wait", "one", "--for", "waiting", "--timeout", "1m")
		if w := b.of("one"); w.Attention == nil || w.Attention.Why != "permission" {
			t.Fatalf("before a permission: %+v", w)
		}
		b.say("one", "yes", "did permission")
		if w := b.of("one"); w.Attention != nil || w.Session.Activity != "working" {
			t.Fatalf("after a permission: %+v", w)
		}
	}
	b.say("one", "compact", "compacted")
	if log := b.want(0, "handoff", "log", "one", "--json"); !strings.Contains(log, `"compact, `) {
		t.Fatalf("no observation of the compaction:\n%s", log)
	}
	if status := b.must(b.app, "git", "status", "--porcelain"); strings.TrimSpace(status) != "?? new.go\n?? person.go" {
		t.Fatalf("something was written into the repository:\n%s", status)
	}
	os.Remove(b.app + "/person.go")

	// A crash, and the right one of two conversations is resumed.
	b.want(0, "send", "one", "--enter", "crash")
	b.want(0, "wait", "one", "--for", "exit", "--timeout", "1m")
	b.want(0, "start", "one")
	if got := b.conversation("one"); got != first || !strings.Contains(b.want(0, "log", "one"), "resume conversation") {
		t.Fatalf("conversation %s, want %s resumed", got, first)
	}

	// Gone: a fresh one starts with the brief, and is the one that is resumed from then on.
	b.want(0, "send", "one", "--enter", "quit")
	b.want(0, "wait", "one", "--for", "exit", "--timeout", "1m")
	if err := os.Remove(filepath.Join(b.dir, "home/.claude/projects/-app", first+".jsonl")); err != nil {
		t.Fatal(err)
	}
	b.want(0, "start", "one")
	b.want(0, "wait", "one", "--for", "text=startup conversation", "--timeout", "1m")
	fresh := b.conversation("one")
	if fresh == first || fresh == other || !strings.Contains(b.want(0, "log", "one"), "TestZero too") {
		t.Fatalf("no fresh conversation with the brief: %s\n%s", fresh, b.want(0, "log", "one"))
	}
	b.want(0, "stop", "one")
	b.want(0, "start", "one")
	if got := b.conversation("one"); got != fresh {
		t.Fatalf("conversation %s, want %s", got, fresh)
	}
	for _, name := range []string{"one", "two"} {
		b.want(0, "rm", name)
	}
}
