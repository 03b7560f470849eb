package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRestoreStaysInside(t *testing.T) {
	f := newFixture(t)
	f.repo()
	snap := f.capture()
	outside := filepath.Join(f.base, "outside")
	f.must(os.MkdirAll(outside, 0o755))
	f.must(os.RemoveAll(filepath.Join(f.dir, "dir")))
	f.must(os.Symlink(outside, filepath.Join(f.dir, "dir")))
	f.must(os.Remove(filepath.Join(f.dir, "a.txt")))
	f.must(os.Symlink(filepath.Join(outside, "a"), filepath.Join(f.dir, "a.txt")))
	f.write("newer", "kept")
	_, err := f.s.Restore(context.Background(), snap, f.dir, nil, false)
	if !errors.Is(err, ErrNotEmpty) {
		t.Fatal(err)
	}
	n, err := f.s.Restore(context.Background(), snap, f.dir, nil, true)
	if err != nil || n != 3 {
		t.Fatal(n, err)
	}
	if got := list(outside); got != "" {
		t.Fatalf("written outside: %s", got)
	}
	if data, _ := os.ReadFile(filepath.Join(f.dir, "newer")); string(data) != "kept" {
		t.Fatal("a restore deleted a file")
	}
	dest := filepath.Join(f.base, "only")
	if n, err := f.s.Restore(context.Background(), snap, dest, []string{"dir"}, false); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if _, err := f.s.Restore(context.Background(), snap, f.base+"/x", []string{"nope"}, false); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

func TestDeadCapturesDontBlock(t *testing.T) {
	f := newFixture(t)
	f.repo()
	snap := f.capture()
	area := filepath.Join(f.s.RepoPath(snap.Repo), "perdure", "w")
	found, _ := filepath.Glob(area + "/*.stat")
	if len(found) != 1 {
		t.Fatal(found)
	}
	whole, err := os.ReadFile(found[0])
	f.must(err)
	for _, junk := range []string{"", "torn", string(whole[:len(whole)/2]), string(whole[:len(whole)-1]) + "x"} {
		f.must(os.WriteFile(found[0], []byte(junk), 0o600))
		f.must(os.WriteFile(filepath.Join(f.s.RepoPath(snap.Repo), "objects/pack/tmp_pack_dead"), []byte(junk), 0o600))
		f.write("a.txt", "after "+junk)
		f.check(f.capture())
	}
}

func TestCapturesAtOnce(t *testing.T) {
	f := newFixture(t)
	f.repo()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := f.s.Capture(context.Background(), CaptureRequest{Workspace: "w", Dir: f.dir, Reason: "manual"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	snaps, err := f.s.List(context.Background(), "w")
	if err != nil || len(snaps) != 4 {
		t.Fatal(len(snaps), err)
	}
	f.must(f.s.Remove(context.Background(), "w"))
	if snaps, _ = f.s.List(context.Background(), "w"); len(snaps) != 0 {
		t.Fatal("not removed")
	}
	f.check(f.capture())
}

func TestRefusedDirectories(t *testing.T) {
	f := newFixture(t)
	for _, dir := range []string{os.Getenv("HOME"), "/", filepath.Join(f.base, "state"), filepath.Join(f.base, "state", "snapshots")} {
		if _, err := f.s.Read(context.Background(), "w", dir); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestFailureIsNoSnapshot(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.capture()
	f.must(os.RemoveAll(f.dir))
	if _, err := f.s.Capture(context.Background(), CaptureRequest{Workspace: "w", Dir: f.dir}); err == nil {
		t.Fatal("a directory that is gone was captured")
	}
	if snaps, _ := f.s.List(context.Background(), "w"); len(snaps) != 1 {
		t.Fatal(len(snaps))
	}
}

func TestDiffAndResolve(t *testing.T) {
	f := newFixture(t)
	f.repo()
	a := f.capture()
	f.write("a.txt", "z")
	f.write("n", "")
	f.must(os.Chmod(filepath.Join(f.dir, "gone"), 0o755))
	f.must(os.RemoveAll(filepath.Join(f.dir, "dir")))
	b := f.capture()
	changes, err := f.s.Diff(context.Background(), a.Repo, a.Tree, b.Tree)
	f.must(err)
	if got := told(changes); got != "a.txt modified, dir/b.txt deleted, gone mode, n added" {
		t.Fatal(got)
	}
	snaps, err := f.s.List(context.Background(), "w")
	f.must(err)
	for spec, want := range map[string]string{"latest": b.ID, "-1": a.ID, a.ID: a.ID, "@" + a.At.Format(time.RFC3339Nano): a.ID} {
		if got, err := Resolve(snaps, spec); err != nil || got.ID != want {
			t.Errorf("%s: %s %v", spec, got.ID, err)
		}
	}
	if _, err := Resolve(snaps, "0"); !errors.Is(err, ErrAmbiguous) {
		t.Error(err)
	}
	if _, err := Resolve(snaps, "-7"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestLedger(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	for i, key := range []string{"a", "a..b", "x.lock", "with space", "a"} {
		f.must(f.s.Put(ctx, "w", "record", key, []byte(fmt.Sprint(i, "\x00"))))
	}
	f.must(f.s.Put(ctx, "other", "halt", "k", nil))
	got := map[string]string{}
	read := func() {
		clear(got)
		f.must(f.s.Entries(ctx, func(w, kind, key string, data []byte) error {
			got[w+"/"+kind+"/"+key] = string(data)
			return nil
		}))
	}
	read()
	if len(got) != 5 || got["w/record/a"] != "4\x00" || got["w/record/x.lock"] == "" {
		t.Fatalf("%q", got)
	}
	f.must(f.s.Forget(ctx, "w"))
	read()
	if len(got) != 1 {
		t.Fatalf("%q", got)
	}
}

// told is each change's path and kind.
func told(changes []Change) string {
	var out []string
	for _, c := range changes {
		out = append(out, c.Path+" "+c.Kind)
	}
	return strings.Join(out, ", ")
}

// An ignored folder with nothing in it stood in the way of a restore that needed its place for a file. One with a file
// in it still does.
func TestAFileTakesThePlaceOfAFolderOfEmptyFolders(t *testing.T) {
	for _, held := range []bool{false, true} {
		f := newFixture(t)
		f.repo()
		f.write(".gitignore", "cache/\n")
		f.write("place", "a file")
		snap := f.capture()
		f.must(os.Remove(filepath.Join(f.dir, "place")))
		f.must(os.MkdirAll(filepath.Join(f.dir, "place", "cache", "deeper"), 0o755))
		f.write("place/now", "a folder")
		if held {
			f.write("place/cache/deeper/kept", "ignored")
		}
		f.capture()
		earlier, err := f.s.List(context.Background(), "w")
		f.must(err)
		plan, err := f.s.PlanRestore(context.Background(), snap, PlanRequest{Dir: f.dir, Earlier: earlier})
		f.must(err)
		_, err = f.s.Apply(context.Background(), plan, nil)
		data, _ := os.ReadFile(filepath.Join(f.dir, "place"))
		kept, _ := os.ReadFile(filepath.Join(f.dir, "place/cache/deeper/kept"))
		if held && (err == nil || string(kept) != "ignored") || !held && (err != nil || string(data) != "a file") {
			t.Errorf("held %v: %v; %q, %q", held, err, data, kept)
		}
	}
}
