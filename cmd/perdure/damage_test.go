package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// damages are what can happen to the folder of the store, or beside it.
var damages = map[string]func(t *testing.T, state string){
	"store deleted":      func(t *testing.T, state string) { mustDo(t, os.RemoveAll(state+"/store")) },
	"store emptied":      func(t *testing.T, state string) { eachFile(t, state+"/store/*", os.Remove) },
	"manifest deleted":   func(t *testing.T, state string) { mustDo(t, os.Remove(state+"/store/MANIFEST")) },
	"manifest cut":       func(t *testing.T, state string) { mustDo(t, os.Truncate(state+"/store/MANIFEST", 20)) },
	"tables flipped":     func(t *testing.T, state string) { eachFile(t, state+"/store/*.sst", flipByte) },
	"tables cut":         func(t *testing.T, state string) { eachFile(t, state+"/store/*.sst", halve) },
	"log flipped":        func(t *testing.T, state string) { eachFile(t, state+"/store/*.mem", flipByte) },
	"all bytes zero":     func(t *testing.T, state string) { eachFile(t, state+"/store/*", zero) },
	"sentinel deleted":   func(t *testing.T, state string) { mustDo(t, os.Remove(state+"/store.id")) },
	"sentinel flipped":   func(t *testing.T, state string) { mustDo(t, flipByte(state+"/store.id")) },
	"store and sentinel": func(t *testing.T, state string) { eachFile(t, state+"/store*", os.RemoveAll) },
	"backups damaged too": func(t *testing.T, state string) {
		eachFile(t, state+"/store/*", zero)
		eachFile(t, state+"/store.backups/*", flipByte)
	},
	"everything but ledger": func(t *testing.T, state string) { eachFile(t, state+"/store*", os.RemoveAll) },
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eachFile(t *testing.T, pattern string, do func(string) error) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	mustDo(t, err)
	for _, f := range files {
		mustDo(t, do(f))
	}
}

// flipByte changes one bit in the first third of a file, where a sparse one has data.
func flipByte(path string) error {
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return err
	}
	data[min(len(data)/3, 60)] ^= 0x10
	return os.WriteFile(path, data, 0o600)
}

func halve(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, fi.Size()/2)
}

func zero(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, make([]byte, fi.Size()), 0o600)
}

// inventory is everything that must outlast the store: definitions, states, records, overrides and snapshots.
func (b *box) inventory() string {
	b.t.Helper()
	var lines []string
	for _, name := range []string{"app", "halted"} {
		var w struct {
			Goal, State, Dir string
			Checks           []string
			Overrides        []any
			Session          struct{ Pid int }
		}
		mustDo(b.t, json.Unmarshal([]byte(b.want(0, "show", name, "--json")), &w))
		all, err := json.Marshal(w)
		mustDo(b.t, err)
		lines = append(lines, string(all))
	}
	names := func(of string) (out []string) {
		var list []struct{ ID, Name, State string }
		mustDo(b.t, json.Unmarshal([]byte(of), &list))
		for _, l := range list {
			out = append(out, l.ID+l.Name+l.State)
		}
		return out
	}
	lines = append(lines, names(b.want(0, "ls", "--json"))...)
	lines = append(lines, names(b.want(0, "snapshots", "app", "--json"))...)
	return strings.Join(append(lines, b.want(0, "handoff", "show", "app", "--json")), "\n")
}

// Whatever happens to the store, the server comes back with every workspace, record, override, halt and snapshot,
// adopts the live session, and says that the store was rebuilt. It never shows an empty list.
func TestADamagedStoreIsRebuiltAndNeverShownEmpty(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--goal", "a goal", "--check", "grep -q package a.go")
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "go on", "--wait")
	other := b.dir + "/other"
	mustDo(t, os.Mkdir(other, 0o700))
	b.want(0, "new", "halted", "--check", "true", "--dir", other)
	b.want(0, "handoff", "record", "halted", "--passed", "check", "--next", "go on", "--wait")
	b.want(0, "start", "app")
	b.write(other+"/x", "edited late")
	b.want(11, "handoff", "verify", "halted")
	b.want(0, "handoff", "override", "halted", "--because", "known")
	b.write(other+"/y", "edited later")
	b.want(11, "handoff", "verify", "halted")
	t.Cleanup(func() { b.run("rm", "halted") })
	want := b.inventory()
	state := b.dir + "/state"
	// Without a trace of the store: of the damages below, which come in any order, this one once left no event.
	b.kill()
	damages["everything but ledger"](t, state)
	b.serve("127.0.0.1:" + b.port)
	if out := b.want(0, "events", "--json"); !strings.Contains(out, `"rebuilt"`) {
		t.Errorf("no event tells that a lost store was rebuilt:\n%s", out)
	}
	for name, damage := range damages {
		b.kill()
		damage(t, state)
		b.serve("127.0.0.1:" + b.port)
		if got := b.inventory(); got != want {
			t.Fatalf("%s:\n%s\nwas\n%s", name, got, want)
		}
	}
	if out := b.want(0, "events", "--json"); !strings.Contains(out, `"rebuilt"`) {
		t.Errorf("no event tells that the store was rebuilt:\n%s", out)
	}
}

// While the server can't start, whoever is at the box still reaches a live session.
func TestDirectAttachWithoutAServerThatCanStart(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app")
	b.want(0, "start", "app")
	b.kill()
	sentinel := b.dir + "/state/store.id"
	before, err := os.ReadFile(sentinel)
	mustDo(t, err)
	b.write(sentinel, `{"id":"x","schema":99,"events":0}`)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.bin, "serve", "--listen", "127.0.0.1:0")
	cmd.Env = b.env
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "a newer perdure wrote it") {
		t.Fatalf("the server: %v\n%s", err, out)
	}
	x := b.direct()
	x.send("echo direct=$((40+2))\r")
	x.expect(`direct=(42)`)
	x.kill()
	b.write(sentinel, string(before))
	b.serve("127.0.0.1:" + b.port)
	if state, _, _ := b.session(); state != "live" {
		t.Errorf("the session is %s", state)
	}
}
