package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestModifiedAddedDeletedUntracked(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.check(f.capture())
	f.write("a.txt", "changed\n")
	f.must(os.Remove(filepath.Join(f.dir, "gone")))
	f.write("new/file", "untracked")
	f.write(".gitignore", "*.log\n")
	snap := f.capture()
	f.check(snap)
	f.same(f.restore(snap))
	if snap.Branch != "main" || snap.Head != f.git("rev-parse", "HEAD") || snap.Files != 4 {
		t.Fatalf("%+v", snap)
	}
	f.write("x.log", "ignored")
	if got := f.capture(); got.Tree != snap.Tree {
		t.Fatal("an ignored file moved the tree")
	}
}

func TestTrackedButIgnoredStays(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.write(".gitignore", "build/\n*.o\n")
	f.write("build/kept", "tracked")
	f.write("build/junk", "not")
	f.write("x.o", "in the index only")
	f.git("add", "-f", "build/kept", "x.o")
	f.check(f.capture())
	f.git("commit", "-qm", "forced")
	f.git("rm", "-q", "--cached", "build/kept")
	f.check(f.capture())
	f.write("build/kept", "edited")
	f.check(f.capture())
	f.git("commit", "-qm", "untracked now")
	f.check(f.capture())
	f.write("plain", "untracked")
	f.check(f.capture())
	f.write(".gitignore", "build/\n*.o\nplain\n")
	f.check(f.capture())
	f.write(".gitignore", "")
	f.check(f.capture())
}

func TestExcludesOfTheUserHold(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.must(os.WriteFile(filepath.Join(f.dir, ".git/info/exclude"), []byte("secret\n"), 0o644))
	f.must(os.WriteFile(filepath.Join(os.Getenv("HOME"), "ig"), []byte("mine\n"), 0o644))
	f.must(os.WriteFile(filepath.Join(os.Getenv("HOME"), ".gitconfig"), []byte("[core]\nexcludesFile=~/ig\n"), 0o644))
	f.write("secret", "s")
	f.write("mine", "m")
	snap := f.capture()
	for _, name := range []string{"secret", "mine"} {
		if err := f.s.Cat(context.Background(), snap, name, &bytes.Buffer{}); !errors.Is(err, ErrNotFound) {
			t.Fatalf("%s was captured: %v", name, err)
		}
	}
}

func TestIndexStatesAreKept(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.write("a.txt", "staged\n")
	f.git("add", "a.txt")
	f.write("a.txt", "worktree\n")
	f.write("later", "intent")
	f.git("add", "-N", "later")
	snap := f.capture()
	f.check(snap)
	f.git("reset", "-q", "--hard")
	f.git("reflog", "expire", "--expire=now", "--all")
	f.git("gc", "-q", "--prune=now")
	f.must(os.RemoveAll(filepath.Join(f.dir, ".git")))
	g := f.s.git(snap.Repo)
	out, err := g.run(context.Background(), nil, "cat-file", "blob", snap.Commit+":git/index/tree/a.txt")
	if err != nil || string(out) != "staged\n" {
		t.Fatalf("staged blob: %q %v", out, err)
	}
	var text bytes.Buffer
	f.must(f.s.Cat(context.Background(), snap, "a.txt", &text))
	if text.String() != "worktree\n" {
		t.Fatalf("%q", text.String())
	}
}

func TestConflictAndOperations(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.git("checkout", "-qb", "side")
	f.write("a.txt", "side\n")
	f.git("commit", "-qam", "side")
	f.git("checkout", "-q", "main")
	f.write("a.txt", "main\n")
	f.git("commit", "-qam", "main")
	f.try(f.dir, "merge", "side")
	snap := f.capture()
	f.check(snap)
	st, err := f.s.Read(context.Background(), "w", f.dir)
	f.must(err)
	if fmt.Sprint(st.Operations) != "[merge]" || st.Tree != snap.Tree {
		t.Fatalf("%+v", st)
	}
	g := f.s.git(snap.Repo)
	for _, name := range []string{"MERGE_HEAD", "HEAD"} {
		want, _ := os.ReadFile(filepath.Join(f.dir, ".git", name))
		got, err := g.run(context.Background(), nil, "cat-file", "blob", snap.Commit+":git/"+name)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	f.git("merge", "--abort")
	f.try(f.dir, "rebase", "side")
	snap = f.capture()
	if _, err := g.run(context.Background(), nil, "cat-file", "-e", snap.Commit+":git/rebase-merge/onto"); err != nil || snap.Branch != "" {
		t.Fatalf("rebase state: %v, branch %q", err, snap.Branch)
	}
}

func TestRepositoryComesAndGoes(t *testing.T) {
	f := newFixture(t)
	f.write("a", "1")
	plain := f.capture()
	f.check(plain)
	f.git("init", "-q")
	unborn := f.capture()
	if unborn.Head != "" || unborn.Branch != "main" || unborn.Tree != plain.Tree {
		t.Fatalf("%+v", unborn)
	}
	f.git("add", "-A")
	f.git("commit", "-qm", "x")
	f.git("checkout", "-q", "--detach")
	detached := f.capture()
	if detached.Branch != "" || detached.Head == "" {
		t.Fatalf("%+v", detached)
	}
	f.must(os.RemoveAll(filepath.Join(f.dir, ".git")))
	last := f.capture()
	snaps, err := f.s.List(context.Background(), "w")
	f.must(err)
	if len(snaps) != 4 || snaps[0].ID != last.ID {
		t.Fatalf("%d snapshots", len(snaps))
	}
	for _, snap := range snaps {
		f.same(f.restore(snap))
	}
	f.write("a", "2")
	after := f.capture()
	changes, err := f.s.Diff(context.Background(), detached.Repo, detached.Tree, after.Tree)
	if err != nil || told(changes) != "a modified" {
		t.Fatal(changes, err)
	}
	all, err := f.s.List(context.Background(), "w")
	f.must(err)
	versions, err := f.s.Versions(context.Background(), all, "a")
	if err != nil || len(versions) != 2 || versions[0].ID != after.ID || versions[1].ID != plain.ID {
		t.Fatal(versions, err)
	}
}

func TestLinkedWorktreeAndSubdirectory(t *testing.T) {
	f := newFixture(t)
	f.repo()
	main := f.capture()
	other := filepath.Join(f.base, "linked")
	f.git("worktree", "add", "-q", "-b", "two", other)
	f.dir = other
	f.write("mine", "x")
	snap := f.capture()
	f.check(snap)
	if snap.Repo != main.Repo || snap.Branch != "two" {
		t.Fatalf("%+v", snap)
	}
	sub, err := f.s.Read(context.Background(), "sub", filepath.Join(other, "dir"))
	f.must(err)
	if want := f.git("rev-parse", "HEAD:dir"); sub.Tree != want || sub.Repo != main.Repo {
		t.Fatalf("subdirectory %s, want %s", sub.Tree, want)
	}
}

func TestSHA256(t *testing.T) {
	f := newFixture(t)
	f.git("init", "-q", "--object-format=sha256")
	f.write("a", "1")
	f.git("add", "a")
	f.git("commit", "-qm", "x")
	f.write("a", "2")
	snap := f.capture()
	f.check(snap)
	f.same(f.restore(snap))
	files, ok, err := f.s.ChangedSince(context.Background(), f.dir, snap.Repo, snap.Head, snap.Tree)
	if err != nil || !ok || fmt.Sprint(files) != "[a]" {
		t.Fatal(files, ok, err)
	}
}

func TestManyNewFilesComeAsOnePack(t *testing.T) {
	f := newFixture(t)
	for i := range 250 {
		f.write(fmt.Sprintf("d%d/f\n%d", i%7, i), strings.Repeat("\n", i))
	}
	snap := f.capture()
	f.check(snap)
	f.same(f.restore(snap))
	packs, err := filepath.Glob(filepath.Join(f.s.RepoPath(snap.Repo), "objects/pack/*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
}
