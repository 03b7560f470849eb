package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"perdure/handoff"
	"perdure/snapshot"
	"perdure/workspace"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func storeDir(t *testing.T) string { return filepath.Join(t.TempDir(), "store") }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWorkspaces(t *testing.T) {
	dir := storeDir(t)
	s := open(t, dir)
	if _, err := s.Workspace("auth"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("an unknown name: %v", err)
	}
	must(t, s.PutWorkspace(workspace.Definition{Name: "web", Goal: "a"}))
	must(t, s.PutWorkspace(workspace.Definition{Name: "auth", Owns: []string{"x/**"}}))
	must(t, s.PutWorkspace(workspace.Definition{Name: "web", Goal: "b"}))
	must(t, s.Close())
	s = open(t, dir)
	all, err := s.Workspaces()
	must(t, err)
	if len(all) != 2 || all[0].Name != "auth" || all[1].Goal != "b" || all[0].Owns[0] != "x/**" {
		t.Fatalf("got %+v", all)
	}
	must(t, s.DeleteWorkspace("web"))
	if err := s.DeleteWorkspace("web"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("removed twice: %v", err)
	}
	if err := s.PutWorkspace(workspace.Definition{Name: "a\x00b"}); err == nil {
		t.Fatal("a name with a NUL was taken")
	}
}

func TestHalts(t *testing.T) {
	s := open(t, storeDir(t))
	if h, err := s.Halt("auth"); h != nil || err != nil {
		t.Fatalf("got %v, %v", h, err)
	}
	must(t, s.PutHalt(Halt{Workspace: "auth", Verdict: handoff.Drifted, Report: []byte(`{"a":1}`)}))
	h, err := s.Halt("auth")
	must(t, err)
	if h == nil || h.Verdict != handoff.Drifted || string(h.Report) != `{"a":1}` {
		t.Fatalf("got %+v", h)
	}
	must(t, s.DeleteHalt("auth"))
	must(t, s.DeleteHalt("auth"))
	if h, _ := s.Halt("auth"); h != nil {
		t.Fatal("still halted")
	}
}

func TestSnapshotsNewestFirst(t *testing.T) {
	s := open(t, storeDir(t))
	for _, id := range []string{"01A", "01C", "01B"} {
		must(t, s.PutSnapshot(snapshot.Snapshot{ID: id, Workspace: "auth"}))
	}
	must(t, s.PutSnapshot(snapshot.Snapshot{ID: "01D", Workspace: "auth2"}))
	list, err := s.Snapshots("auth")
	must(t, err)
	if len(list) != 3 || list[0].ID != "01C" || list[2].ID != "01A" {
		t.Fatalf("got %+v", list)
	}
}

// A record's bytes are hashed: they come back as they went in, in the order they came, a new chain's after
// the broken one's, and a rebuild that repeats one changes nothing.
func TestRecordsKeepOrderAndBytes(t *testing.T) {
	s := open(t, storeDir(t))
	big := bytes.Repeat([]byte("x\x00\xff"), 1<<20)
	in := [][]byte{[]byte("{ \"seq\":1 }\n"), big, []byte("new chain")}
	for i, seq := range []int{1, 2, 1} {
		must(t, s.PutRecord("auth", fmt.Sprintf("id%d", i), seq, in[i]))
	}
	must(t, s.PutRecord("auth", "id0", 1, in[0]))
	out, err := s.Records("auth")
	must(t, err)
	if len(out) != 3 {
		t.Fatalf("%d records", len(out))
	}
	for i := range in {
		if !bytes.Equal(in[i], out[i]) {
			t.Errorf("record %d differs", i)
		}
	}
}

func TestReportsOldestFirst(t *testing.T) {
	s := open(t, storeDir(t))
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, rec := range []string{"", "01B", "01A", "01B"} {
		must(t, s.PutReport("auth", rec, handoff.Report{Record: rec, At: base.Add(time.Duration(i) * time.Hour), Verdict: handoff.Holds}))
	}
	list, err := s.Reports("auth")
	must(t, err)
	var got []string
	for _, r := range list {
		got = append(got, r.Record)
	}
	if fmt.Sprint(got) != "[ 01B 01A 01B]" || list[0].Verdict != handoff.Holds {
		t.Fatalf("got %v", got)
	}
}

func TestEvents(t *testing.T) {
	s := open(t, storeDir(t))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 10 {
				if _, err := s.AppendEvent(Event{Workspace: fmt.Sprintf("w%d", i), Kind: "bell", Fields: map[string]any{"n": i}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all, err := s.Events("", 0, 0)
	must(t, err)
	if len(all) != 40 {
		t.Fatalf("%d events", len(all))
	}
	for i, e := range all {
		if e.Seq != uint64(i+1) {
			t.Fatalf("event %d has number %d", i, e.Seq)
		}
	}
	some, err := s.Events("w1", 0, 3)
	must(t, err)
	if len(some) != 3 || some[0].Workspace != "w1" {
		t.Fatalf("got %+v", some)
	}
	after, err := s.Events("w1", some[2].Seq, 0)
	must(t, err)
	if len(after) != 7 || after[0].Seq <= some[2].Seq {
		t.Fatalf("after: %d", len(after))
	}
	if none, _ := s.Events("", 40, 0); len(none) != 0 {
		t.Fatalf("after the last: %+v", none)
	}
}

func TestEventJSON(t *testing.T) {
	e := Event{Seq: 3, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Workspace: "auth", Kind: "ended", Fields: map[string]any{"kind": "false", "exit": 1, "b": "x"}}
	data, err := json.Marshal(e)
	must(t, err)
	if want := `{"at":"2026-01-02T03:04:05Z","workspace":"auth","kind":"ended","b":"x","exit":1}`; string(data) != want {
		t.Fatalf("got %s", data)
	}
}

func TestPurge(t *testing.T) {
	s := open(t, storeDir(t))
	for _, ws := range []string{"auth", "auth2"} {
		must(t, s.PutWorkspace(workspace.Definition{Name: ws}))
		must(t, s.PutHalt(Halt{Workspace: ws}))
		must(t, s.PutSnapshot(snapshot.Snapshot{ID: "01A", Workspace: ws}))
		must(t, s.PutRecord(ws, "01R", 1, []byte("r")))
		must(t, s.PutObservation(ws, "01O", []byte("o")))
		must(t, s.PutOverride(ws, "01V", []byte("v")))
		must(t, s.PutReport(ws, "01R", handoff.Report{}))
		_, err := s.AppendEvent(Event{Workspace: ws, Kind: "created"})
		must(t, err)
	}
	must(t, s.PurgeWorkspace("auth"))
	counts := func(ws string) string {
		a, _ := s.Snapshots(ws)
		b, _ := s.Records(ws)
		c, _ := s.Observations(ws)
		d, _ := s.Overrides(ws)
		e, _ := s.Reports(ws)
		f, _ := s.Events(ws, 0, 0)
		h, _ := s.Halt(ws)
		_, err := s.Workspace(ws)
		return fmt.Sprint(len(a), len(b), len(c), len(d), len(e), len(f), h != nil, err == nil)
	}
	if got := counts("auth"); got != "0 0 0 0 0 0 false false" {
		t.Errorf("purged: %s", got)
	}
	if got := counts("auth2"); got != "1 1 1 1 1 1 true true" {
		t.Errorf("the neighbour: %s", got)
	}
	if all, err := s.Events("", 0, 0); err != nil || len(all) != 1 {
		t.Errorf("all events: %v, %v", all, err)
	}
}

// What BadgerDB opens as an empty or shortened store is not presented as the truth.
func TestDamage(t *testing.T) {
	rawDelete := func(k string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			db, err := badger.Open(badgerOptions(dir))
			must(t, err)
			must(t, db.Update(func(tx *badger.Txn) error { return tx.Delete(key("meta", k)) }))
			must(t, db.Close())
		}
	}
	for name, damage := range map[string]func(*testing.T, string){
		"folder gone":      func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) },
		"folder emptied":   func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)); must(t, os.Mkdir(dir, 0o700)) },
		"manifest gone":    func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "MANIFEST"))) },
		"manifest cut":     func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, "MANIFEST"), 3)) },
		"sentinel garbage": func(t *testing.T, dir string) { must(t, os.WriteFile(dir+".id", []byte("{"), 0o600)) },
		"another's sentinel": func(t *testing.T, dir string) {
			must(t, os.WriteFile(dir+".id", []byte(`{"id":"x","schema":1,"events":0}`), 0o600))
		},
		"identity gone": rawDelete("store"),
		"identity and sentinel gone": func(t *testing.T, dir string) {
			rawDelete("store")(t, dir)
			must(t, os.Remove(dir+".id"))
		},
		"events gone": rawDelete("events"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := storeDir(t)
			s := open(t, dir)
			must(t, s.PutWorkspace(workspace.Definition{Name: "auth"}))
			_, err := s.AppendEvent(Event{Kind: "created"})
			must(t, err)
			must(t, s.Close())
			damage(t, dir)
			if s, err := Open(dir); !errors.Is(err, ErrCorrupt) {
				if s != nil {
					s.Close()
				}
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestSentinelMissingIsWrittenAgain(t *testing.T) {
	dir := storeDir(t)
	s := open(t, dir)
	id := s.id
	must(t, s.Close())
	must(t, os.Remove(dir+".id"))
	s = open(t, dir)
	if s.id != id {
		t.Fatal("another store")
	}
	if mark, err := readSentinel(dir); err != nil || mark == nil || mark.ID != id {
		t.Fatalf("got %+v, %v", mark, err)
	}
}

func TestSchema(t *testing.T) {
	dir := storeDir(t)
	must(t, open(t, dir).Close())
	must(t, os.WriteFile(dir+".id", []byte(`{"id":"x","schema":7}`), 0o600))
	_, err := Open(dir)
	var e *ErrSchema
	if !errors.As(err, &e) || e.Have != 7 || e.Want != Schema {
		t.Fatalf("got %v", err)
	}
}

// A store in use is no damaged one: the server would set it aside.
func TestHeldByAnother(t *testing.T) {
	dir := storeDir(t)
	open(t, dir)
	if _, err := Open(dir); err == nil || errors.Is(err, ErrCorrupt) {
		t.Fatalf("got %v", err)
	}
}
