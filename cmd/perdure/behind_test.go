package main

import (
	"encoding/json"
	"testing"
	"time"
)

// Since when the tree is behind its record is the first snapshot that found it so: a later one doesn't move it, and
// taking the edit back clears it, everywhere.
func TestBehindSaysSinceWhen(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "true")
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x", "--wait")
	type behind struct {
		At     time.Time
		Behind *int
		Since  *time.Time `json:"behind_since"`
	}
	read := func(out string, into any) {
		t.Helper()
		if err := json.Unmarshal([]byte(out), into); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
	}
	var taken, listed []behind
	take := func() behind {
		t.Helper()
		var s behind
		read(b.want(0, "snapshot", "app", "--json"), &s)
		taken = append([]behind{s}, taken...)
		return s
	}
	expect := func(what string, got behind, n int, since *time.Time) {
		t.Helper()
		if got.Behind == nil || *got.Behind != n || (got.Since == nil) != (since == nil) || since != nil && !got.Since.Equal(*since) {
			t.Errorf("%s: behind %v since %v, want %d since %v", what, got.Behind, got.Since, n, since)
		}
	}
	expect("equal", take(), 0, nil)
	b.replace("a.go", "package app", "package app // one")
	first := take()
	expect("edited", first, 1, &first.At)
	b.write(b.app+"/b.go", "package app\n")
	expect("edited more", take(), 2, &first.At)

	var ws []struct{ Handoff behind }
	read(b.want(0, "ls", "--json"), &ws)
	expect("ls", ws[0].Handoff, 2, &first.At)
	var w struct{ Handoff behind }
	read(b.want(0, "show", "app", "--json"), &w)
	expect("show", w.Handoff, 2, &first.At)
	read(b.want(0, "snapshots", "app", "--json"), &listed)
	for i := range taken {
		expect("snapshots", listed[i], *taken[i].Behind, taken[i].Since)
	}

	b.must(b.app, "git", "checkout", "-q", "a.go")
	b.must(b.app, "git", "clean", "-fdq")
	read(b.want(0, "show", "app", "--json"), &w)
	expect("taken back", w.Handoff, 0, nil)
	expect("taken back", take(), 0, nil)
}
