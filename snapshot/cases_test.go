package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// lost does to the user's repository whatever may take objects away.
func (f *fixture) lost() {
	f.Helper()
	f.git("reset", "-q", "--hard")
	f.git("reflog", "expire", "--expire=now", "--all")
	f.git("gc", "-q", "--prune=now")
}

func TestClonesOfEveryKind(t *testing.T) {
	for name, args := range map[string][]string{
		"shallow":    {"--depth=1"},
		"partial":    {"--filter=blob:none"},
		"treeless":   {"--filter=tree:0"},
		"alternates": {"--shared"},
		"sparse":     {"--sparse"},
		"reftable":   {},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.repo()
			f.git("config", "uploadpack.allowFilter", "true")
			for i := range 3 {
				f.write("a.txt", fmt.Sprint(i))
				f.git("commit", "-qam", "more")
			}
			origin, from := f.dir, "file://"+f.dir
			if name == "alternates" {
				from = f.dir
			}
			f.dir = filepath.Join(f.base, "clone")
			f.gitIn(f.base, append(append([]string{"clone", "-q"}, args...), from, f.dir)...)
			f.write("a.txt", "edited")
			f.write("untracked", "new")
			f.git("add", "a.txt")
			f.write("a.txt", "edited again")
			snap := f.capture()
			if name != "sparse" {
				f.check(snap)
				f.same(f.restore(snap))
			} else if snap.Tree == "" || len(snap.Skipped) != 0 {
				t.Fatalf("%+v", snap)
			}
			want := list(f.restore(snap))
			// Not even the repository that it borrows from is needed.
			f.must(os.RemoveAll(origin))
			f.must(os.RemoveAll(filepath.Join(f.dir, ".git")))
			if got := list(f.restore(snap)); got != want {
				t.Fatal("something was borrowed")
			}
			alternates := filepath.Join(f.s.RepoPath(snap.Repo), "objects/info/alternates")
			if exists(alternates) {
				t.Fatal("the store has alternates")
			}
		})
	}
}

func TestSparsePathsAreNoDeletions(t *testing.T) {
	f := newFixture(t)
	f.repo()
	tree := f.git("rev-parse", "HEAD^{tree}")
	f.git("sparse-checkout", "set", "--no-cone", "/a.txt")
	if exists(filepath.Join(f.dir, "dir/b.txt")) {
		t.Skip("this git checks out all the same")
	}
	for range 2 {
		if snap := f.capture(); snap.Tree != tree {
			t.Fatal("what is sparse counts as deleted")
		}
	}
	f.write("a.txt", "edited")
	snap := f.capture()
	f.lost()
	var text bytes.Buffer
	f.must(f.s.Cat(context.Background(), snap, "dir/b.txt", &text))
	if text.String() != "two\n" {
		t.Fatalf("%q", text.String())
	}
}

func TestSparseIndexAndSplitIndex(t *testing.T) {
	for _, args := range [][]string{{"update-index", "--split-index"}, {"update-index", "--index-version", "4"}, {"sparse-checkout", "set", "--cone", "--sparse-index", "dir"}} {
		f := newFixture(t)
		f.repo()
		f.write("other/c", "3")
		f.git("add", "-A")
		f.git("commit", "-qm", "more")
		tree := f.git("rev-parse", "HEAD^{tree}")
		f.git(args...)
		if snap := f.capture(); snap.Tree != tree || snap.Partial {
			t.Fatalf("%v: tree %s, not %s %v", args, snap.Tree, tree, snap.Skipped)
		}
	}
}

func TestStagedAndStashedSurviveGC(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.write("a.txt", "stashed\n")
	f.write("u", "untracked in the stash\n")
	f.git("stash", "-q", "-u")
	f.write("a.txt", "staged\n")
	f.git("add", "a.txt")
	f.write("a.txt", "worktree\n")
	snap := f.capture()
	stash, blob := f.git("rev-parse", "stash"), f.git("rev-parse", ":a.txt")
	f.git("stash", "clear")
	f.lost()
	for _, id := range []string{stash, stash + "^3:u", blob, snap.Head} {
		if _, err := f.try(f.s.RepoPath(snap.Repo), "cat-file", "-e", id); err != nil {
			t.Errorf("%s is lost", id)
		}
	}
	if len(snap.Stashes) != 1 || snap.Stashes[0] != stash {
		t.Errorf("%v", snap.Stashes)
	}
}

func TestUnpushedCommitsSurvive(t *testing.T) {
	f := newFixture(t)
	f.repo()
	bare := filepath.Join(f.base, "bare.git")
	f.git("init", "-q", "--bare", bare)
	f.git("push", "-q", bare, "main")
	f.git("remote", "add", "origin", bare)
	f.git("fetch", "-q", "origin")
	var ids []string
	for i := range 3 {
		f.write("a.txt", fmt.Sprint(i))
		f.git("commit", "-qam", "local")
		ids = append(ids, f.git("rev-parse", "HEAD"))
	}
	snap := f.capture()
	f.must(os.RemoveAll(filepath.Join(f.dir, ".git")))
	for _, id := range ids {
		if _, err := f.try(f.s.RepoPath(snap.Repo), "cat-file", "-e", id+"^{tree}"); err != nil {
			t.Errorf("%s is lost", id)
		}
	}
}

func TestCorruptRepositories(t *testing.T) {
	for name, hurt := range map[string]func(f *fixture){
		"index":    func(f *fixture) { f.must(os.WriteFile(filepath.Join(f.dir, ".git/index"), []byte("junk"), 0o644)) },
		"no index": func(f *fixture) { f.must(os.Remove(filepath.Join(f.dir, ".git/index"))) },
		"HEAD":     func(f *fixture) { f.must(os.WriteFile(filepath.Join(f.dir, ".git/HEAD"), []byte("junk"), 0o644)) },
		"config":   func(f *fixture) { f.must(os.WriteFile(filepath.Join(f.dir, ".git/config"), []byte("[bad"), 0o644)) },
		"objects": func(f *fixture) {
			objects, err := filepath.Glob(filepath.Join(f.dir, ".git/objects/??/*"))
			f.must(err)
			for _, o := range objects {
				f.must(os.Chmod(o, 0o644))
				f.must(os.WriteFile(o, []byte("junk"), 0o644))
			}
		},
		"no objects": func(f *fixture) { f.must(os.RemoveAll(filepath.Join(f.dir, ".git/objects"))) },
		"dangling file": func(f *fixture) {
			f.must(os.RemoveAll(filepath.Join(f.dir, ".git")))
			f.write(".git", "gitdir: /nowhere\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.repo()
			hurt(f)
			f.write("a.txt", "edited")
			snap := f.capture()
			f.same(f.restore(snap))
		})
	}
}

func TestUnreadableForAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	f := newFixture(t)
	f.repo()
	const nobody = 65534
	f.must(filepath.WalkDir(f.base, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, nobody, nobody)
		}
		return err
	}))
	for dir := f.base; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode()&0o001 == 0 {
			f.must(os.Chmod(dir, info.Mode()|0o111))
		}
	}
	f.must(filepath.WalkDir(f.s.root, func(path string, _ os.DirEntry, err error) error { return os.Lchown(path, nobody, nobody) }))
	f.start(child{Do: "capture"}, nobody)
	f.must(os.Chmod(filepath.Join(f.dir, "a.txt"), 0))
	f.must(os.Chmod(filepath.Join(f.dir, "dir"), 0))
	out, _ := f.start(child{Do: "capture"}, nobody)
	f.must(os.Chmod(filepath.Join(f.dir, "a.txt"), 0o644))
	f.must(os.Chmod(filepath.Join(f.dir, "dir"), 0o755))
	var snap Snapshot
	f.must(json.Unmarshal([]byte(out), &snap))
	if !snap.Partial || len(snap.Skipped) != 2 || snap.Skipped[0].Path != "a.txt" || snap.Skipped[1].Path != "dir" {
		t.Fatalf("%+v", snap.Skipped)
	}
	// A restore doesn't delete what the snapshot couldn't see.
	steps, _ := f.back(snap)
	if strings.Contains(steps, "delete") || !exists(filepath.Join(f.dir, "dir/b.txt")) {
		t.Fatal(steps)
	}
}

func TestCaseOnlyRename(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.capture()
	f.must(os.Rename(filepath.Join(f.dir, "a.txt"), filepath.Join(f.dir, "A.txt")))
	f.must(os.Rename(filepath.Join(f.dir, "dir"), filepath.Join(f.dir, "Dir")))
	f.git("config", "core.ignorecase", "true")
	snap := f.capture()
	f.same(f.restore(snap))
	f.git("config", "core.ignorecase", "false")
	f.check(snap)
	f.write("a.txt", "beside")
	snap = f.capture()
	f.check(snap)
	f.same(f.restore(snap))
}

func TestNestedOfEveryKind(t *testing.T) {
	f := newFixture(t)
	f.repo()
	inner := filepath.Join(f.base, "inner")
	f.git("clone", "-q", f.dir, inner)
	f.git("submodule", "--quiet", "add", inner, "sub")
	f.git("commit", "-qm", "sub")
	f.gitIn(inner, "worktree", "add", "-q", filepath.Join(f.dir, "wt"))
	f.write("sub/a.txt", "dirty in the submodule")
	f.write("sub/untracked", "u")
	f.write("wt/deep/er", "in the worktree")
	f.write("wt/deep/inner/file", "in a repository in a repository")
	f.gitIn(filepath.Join(f.dir, "wt/deep/inner"), "init", "-q")
	snap := f.capture()
	if len(snap.Repositories) != 2 || snap.Repositories[0].Path != "sub" || len(snap.Repositories[0].Head) != 40 {
		t.Fatalf("%+v", snap.Repositories)
	}
	f.same(f.restore(snap))
	f.write("sub/a.txt", "later")
	steps, _ := f.back(snap)
	if !strings.Contains(steps, "replace sub/a.txt") {
		t.Fatal(steps)
	}
	f.same(f.restore(snap))
	for _, dir := range []string{"sub", "wt"} {
		if !exists(filepath.Join(f.dir, dir, ".git")) {
			t.Fatal("a nested .git was moved")
		}
	}
}

func TestOptedInFiles(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.write(".gitignore", ".env\nsecrets/\n*.key\nnode_modules/\n")
	f.write(".env", "A=1")
	f.must(os.Chmod(filepath.Join(f.dir, ".env"), 0o600))
	f.write("secrets/deep/one", "s")
	f.write("secrets/two.key", "k")
	f.write("dir/x.key", "x")
	f.write("node_modules/m/index.js", "no")
	take := func() Snapshot {
		snap, err := f.s.Capture(context.Background(), CaptureRequest{Workspace: "w", Dir: f.dir, Include: []string{".env", "secrets", "**/*.key"}})
		f.must(err)
		return snap
	}
	snap := take()
	f.check(snap) // the main tree is as it would be without
	if snap.Included != 4 {
		t.Fatalf("%+v", snap)
	}
	dest := f.restore(snap)
	for _, name := range []string{".env", "secrets/deep/one", "secrets/two.key", "dir/x.key"} {
		want, _ := os.ReadFile(filepath.Join(f.dir, name))
		got, err := os.ReadFile(filepath.Join(dest, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dest, ".env")); err != nil || info.Mode() != 0o600 {
		t.Error("the mode of .env is lost")
	}
	if exists(filepath.Join(dest, "node_modules")) {
		t.Error("more than asked for was kept")
	}
	f.write(".env", "A=2")
	if again := take(); again.Nested == snap.Nested || again.Tree != snap.Tree {
		t.Error("an edit of an opted-in file went unnoticed")
	}
}

func TestIgnoreRulesChange(t *testing.T) {
	f := newFixture(t)
	f.repo()
	for _, name := range []string{"x.log", "dir/y.log", "deep/er/z.log", "deep/keep.log", "build/out"} {
		f.write(name, name)
	}
	for _, rules := range []string{"", "*.log\n", "*.log\n!keep.log\n", "build\n", "/x.log\nbuild/\n", "deep/\n", "*\n!*.txt\n"} {
		f.write(".gitignore", rules)
		f.check(f.capture())
		f.check(f.capture())
	}
	f.write(".gitignore", "")
	f.write("deep/.gitignore", "*.log\n")
	f.check(f.capture())
	f.write("deep/er/.gitignore", "!z.log\n")
	f.check(f.capture())
	f.must(os.Remove(filepath.Join(f.dir, "deep/.gitignore")))
	f.check(f.capture())
	f.must(os.WriteFile(filepath.Join(f.dir, ".git/info/exclude"), []byte("build\n"), 0o644))
	f.check(f.capture())
	f.must(os.WriteFile(filepath.Join(f.dir, ".git/info/exclude"), []byte("dir\n"), 0o644))
	f.check(f.capture())
}

func TestKindsChangePlaces(t *testing.T) {
	f := newFixture(t)
	f.repo()
	put := []func(path string) error{
		func(p string) error { return os.WriteFile(p, []byte("file"), 0o644) },
		func(p string) error { return os.WriteFile(p, []byte("run"), 0o755) },
		func(p string) error { return os.Symlink("dir", p) },
		func(p string) error { return os.MkdirAll(filepath.Join(p, "in"), 0o755) },
		func(p string) error {
			return errors.Join(os.MkdirAll(p, 0o755), os.WriteFile(filepath.Join(p, "f"), []byte("x"), 0o600))
		},
		func(p string) error { return unix.Mkfifo(p, 0o644) },
		func(string) error { return nil },
	}
	var snaps []Snapshot
	var want []string
	path := filepath.Join(f.dir, "gone")
	for i := range 2 * len(put) {
		f.must(os.RemoveAll(path))
		f.must(put[(i/len(put)+i*3)%len(put)](path))
		snap := f.capture()
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			if len(snap.Skipped) != 1 {
				t.Fatalf("%+v", snap.Skipped)
			}
			f.must(os.Remove(path))
		}
		f.check(snap)
		snaps, want = append(snaps, snap), append(want, list(f.dir))
	}
	for i := 0; i < len(snaps); i += 5 {
		if got := list(f.restore(snaps[i])); got != want[i] {
			t.Fatalf("%d: had\n%s\ngot\n%s", i, want[i], got)
		}
		if len(snaps[i].Skipped) > 0 {
			continue // it doesn't know what was there, so what is there stays
		}
		f.back(snaps[i])
		if got := list(f.dir); got != want[i] {
			t.Fatalf("%d in place: had\n%s\ngot\n%s", i, want[i], got)
		}
	}
}
