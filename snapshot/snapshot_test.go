package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fixture is a store, and a directory beside it.
type fixture struct {
	*testing.T
	s    *Store
	dir  string
	base string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(base, "home")
	dir := filepath.Join(base, "work")
	for _, d := range []string{home, dir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	s, err := Open(filepath.Join(base, "state", "snapshots"))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, s: s, dir: dir, base: base}
	t.Cleanup(func() {
		repos, _ := s.repos()
		for _, r := range repos {
			out, err := exec.Command("git", "--git-dir", s.RepoPath(r), "fsck", "--strict", "--full").CombinedOutput()
			if err != nil || strings.Contains(string(out), "error") || strings.Contains(string(out), "warning") {
				t.Errorf("fsck: %v\n%s", err, out)
			}
		}
	})
	return f
}

func (f *fixture) git(args ...string) string {
	f.Helper()
	return f.gitIn(f.dir, args...)
}

func (f *fixture) gitIn(dir string, args ...string) string {
	f.Helper()
	out, err := f.try(dir, args...)
	if err != nil {
		f.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

func (f *fixture) try(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (f *fixture) write(path, text string) {
	f.Helper()
	full := filepath.Join(f.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) capture() Snapshot {
	f.Helper()
	before := f.fingerprint()
	snap, err := f.s.Capture(context.Background(), CaptureRequest{Workspace: "w", Dir: f.dir, Reason: "manual"})
	f.must(err)
	if after := f.fingerprint(); after != before {
		f.Fatalf("the user's repository changed:\n%s\nthen\n%s", before, after)
	}
	return snap
}

// fingerprint covers all of the user's .git, names and content.
func (f *fixture) fingerprint() string {
	var b strings.Builder
	filepath.WalkDir(filepath.Join(f.dir, ".git"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		info, _ := d.Info()
		fmt.Fprintf(&b, "%s %v %v\n", path, info.Mode(), info.ModTime())
		return nil
	})
	return b.String()
}

// oracle is the tree that plain, isolated git gives for the directory, seeded
// with the paths of HEAD and of the user's index.
func (f *fixture) oracle() string {
	f.Helper()
	base := f.T.TempDir()
	store := filepath.Join(base, "o.git")
	format := "sha1"
	if out, err := f.try(f.dir, "rev-parse", "--show-object-format"); err == nil {
		format = strings.TrimSpace(out)
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_DIR=" + store, "GIT_OPTIONAL_LOCKS=0"}
	run := func(extra []string, stdin string, args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}, args...)...)
		cmd.Dir, cmd.Env, cmd.Stdin = f.dir, append(append([]string{}, env...), extra...), strings.NewReader(stdin)
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		if err := cmd.Run(); err != nil {
			f.Fatalf("oracle %v: %v %s", args, err, stderr.String())
		}
		return out.String()
	}
	work := []string{"GIT_WORK_TREE=" + f.dir, "GIT_INDEX_FILE=" + filepath.Join(base, "index")}
	run(nil, "", "init", "-q", "--bare", "--template=", "--object-format="+format, store)
	f.must(os.MkdirAll(filepath.Join(store, "info"), 0o755))
	f.must(os.WriteFile(filepath.Join(store, "info", "attributes"), []byte(attributes), 0o644))
	if text, err := os.ReadFile(filepath.Join(f.dir, ".git", "info", "exclude")); err == nil {
		f.must(os.WriteFile(filepath.Join(store, "info", "exclude"), text, 0o644))
	}
	run(work, "", "add", "-A")
	var seed []string
	for _, args := range [][]string{{"ls-files", "-z"}, {"ls-tree", "-r", "-z", "--name-only", "HEAD"}} {
		out, _ := f.try(f.dir, args...)
		if strings.HasPrefix(out, "fatal") {
			continue
		}
		for _, p := range fields([]byte(out)) {
			if info, err := os.Lstat(filepath.Join(f.dir, p)); err == nil && !info.IsDir() {
				seed = append(seed, p)
			}
		}
	}
	if len(seed) > 0 {
		run(work, string(joined(seed)), "update-index", "--add", "-z", "--stdin")
	}
	return strings.TrimSpace(run(work, "", "write-tree"))
}

func (f *fixture) check(snap Snapshot) {
	f.Helper()
	if want := f.oracle(); snap.Tree != want {
		changes, _ := f.s.Diff(context.Background(), snap.Repo, snap.Tree, want)
		f.Fatalf("tree %s, git says %s (%v)", snap.Tree, want, changes)
	}
}

func (f *fixture) restore(snap Snapshot) string {
	f.Helper()
	dest := filepath.Join(f.T.TempDir(), "out")
	_, err := f.s.Restore(context.Background(), snap, dest, nil, false)
	f.must(err)
	return dest
}

// list describes every file below dir but .git.
func list(dir string) string {
	var lines []string
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == ".git" {
			return fs.SkipDir
		}
		info, _ := d.Info()
		rel, _ := filepath.Rel(dir, path)
		text := ""
		if info.Mode().IsRegular() {
			data, _ := os.ReadFile(path)
			text = string(data)
		} else if info.Mode()&fs.ModeSymlink != 0 {
			text, _ = os.Readlink(path)
		}
		if rel != "." {
			lines = append(lines, fmt.Sprintf("%q %v %q", rel, info.Mode(), text))
		}
		return nil
	})
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func (f *fixture) same(dest string) {
	f.Helper()
	if a, b := list(f.dir), list(dest); a != b {
		f.Fatalf("restored differs; had\n%s\ngot\n%s", a, b)
	}
}

func (f *fixture) repo() {
	f.Helper()
	f.git("init", "-q")
	f.write("a.txt", "one\n")
	f.write("dir/b.txt", "two\n")
	f.write("gone", "x\n")
	f.git("add", "-A")
	f.git("commit", "-qm", "first")
}

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
	staged := f.git("rev-parse", ":a.txt")
	snap := f.capture()
	f.check(snap)
	f.git("reset", "-q", "--hard")
	f.git("reflog", "expire", "--expire=now", "--all")
	f.git("gc", "-q", "--prune=now")
	f.must(os.RemoveAll(filepath.Join(f.dir, ".git")))
	g := f.s.git(snap.Repo)
	out, err := g.run(context.Background(), nil, "cat-file", "blob", snap.Commit+":git/objects/"+staged)
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
	for _, name := range []string{"MERGE_HEAD", "index", "HEAD"} {
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

func TestNothingOfTheUsersRuns(t *testing.T) {
	f := newFixture(t)
	f.git("init", "-q")
	trap := filepath.Join(f.base, "ran")
	script := filepath.Join(f.base, "trap.sh")
	f.must(os.WriteFile(script, []byte("#!/bin/sh\ntouch "+trap+"\ncat\n"), 0o755))
	f.write(".gitattributes", "*.txt text eol=crlf filter=evil ident\n*.u working-tree-encoding=UTF-16\n*.lfs filter=lfs\n")
	f.write("a.txt", "crlf\r\n$Id: x$\r\n")
	f.write("b.u", "plain")
	f.write("c.lfs", "big")
	config := "[core]\n\tfsmonitor=" + script + "\n\tautocrlf=true\n\thooksPath=" + f.base + "\n[filter \"evil\"]\n\tclean=" + script +
		"\n\tsmudge=" + script + "\n\tprocess=" + script + "\n\trequired=true\n[commit]\n\tgpgSign=true\n[gpg]\n\tprogram=" + script + "\n"
	f.must(os.WriteFile(filepath.Join(os.Getenv("HOME"), ".gitconfig"), []byte(config), 0o644))
	t.Setenv("GIT_DIR", "/nonexistent")
	local := filepath.Join(f.dir, ".git", "config")
	old, _ := os.ReadFile(local)
	f.must(os.WriteFile(local, append(old, config...), 0o644))
	f.must(os.Symlink(script, filepath.Join(f.base, "post-index-change")))
	f.must(os.Symlink(script, filepath.Join(f.base, "reference-transaction")))
	snap := f.capture()
	os.Unsetenv("GIT_DIR")
	if _, err := os.Stat(trap); err == nil {
		t.Fatal("something of the user's ran")
	}
	f.same(f.restore(snap))
}

func TestConvertedFilesAreNotEdited(t *testing.T) {
	f := newFixture(t)
	f.git("init", "-q")
	f.write(".gitattributes", "*.txt text eol=crlf\n")
	f.write("a.txt", "x\r\ny\r\n")
	f.write("b", "1")
	f.git("add", "-A")
	f.git("commit", "-qm", "x")
	f.write("b", "2")
	snap := f.capture()
	files, ok, err := f.s.ChangedSince(context.Background(), f.dir, snap.Repo, snap.Head, snap.Tree)
	if err != nil || !ok || fmt.Sprint(files) != "[b]" {
		t.Fatal(files, ok, err)
	}
	_, ok, err = f.s.ChangedSince(context.Background(), f.dir, snap.Repo, strings.Repeat("1", 40), snap.Tree)
	if ok || err != nil {
		t.Fatal("a base that is gone must be said to be", ok, err)
	}
}

func TestHiddenEditsAreCaptured(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.capture()
	f.git("update-index", "--assume-unchanged", "a.txt")
	f.git("update-index", "--skip-worktree", "dir/b.txt")
	f.git("config", "core.ignoreStat", "true")
	f.write("a.txt", "hidden\n")
	f.write("dir/b.txt", "hidden too\n")
	f.check(f.capture())
	f.must(os.Remove(filepath.Join(f.dir, "dir/b.txt")))
	snap := f.capture()
	var text bytes.Buffer
	f.must(f.s.Cat(context.Background(), snap, "dir/b.txt", &text))
	if text.String() != "two\n" {
		t.Fatal("a sparse path that is absent is no deletion")
	}
}

func TestRacyEditsAreCaptured(t *testing.T) {
	f := newFixture(t)
	f.repo()
	past := time.Now().Add(-time.Hour)
	for i := range 20 {
		f.write("a.txt", fmt.Sprintf("%04d", i))
		f.must(os.Chtimes(filepath.Join(f.dir, "a.txt"), past, past))
		st, err := f.s.Read(context.Background(), "w", f.dir)
		f.must(err)
		var text bytes.Buffer
		f.must(f.s.Patch(context.Background(), st.Repo, "", st.Tree, &text, "a.txt"))
		if !strings.Contains(text.String(), fmt.Sprintf("+%04d", i)) {
			t.Fatalf("edit %d was missed:\n%s", i, text.String())
		}
	}
}

func TestNestedRepositories(t *testing.T) {
	f := newFixture(t)
	f.repo()
	for _, dir := range []string{"born", "unborn"} {
		f.write(dir+"/file", "in "+dir)
		f.gitIn(filepath.Join(f.dir, dir), "init", "-q")
	}
	f.gitIn(filepath.Join(f.dir, "born"), "add", "-A")
	f.gitIn(filepath.Join(f.dir, "born"), "commit", "-qm", "inner")
	f.write("born/file", "dirty")
	snap := f.capture()
	f.same(f.restore(snap))
	if snap.Nested == "" || snap.Partial {
		t.Fatalf("%+v", snap)
	}
	f.write("born/file", "dirtier")
	again := f.capture()
	if again.Nested == snap.Nested {
		t.Fatal("an edit in a nested repository went unnoticed")
	}
	f.must(os.RemoveAll(filepath.Join(f.dir, "unborn", ".git")))
	f.check(f.capture())
	f.must(os.RemoveAll(filepath.Join(f.dir, "born", ".git")))
	f.check(f.capture())
}

func TestSubmoduleNotCheckedOutStays(t *testing.T) {
	f := newFixture(t)
	f.repo()
	inner := filepath.Join(f.base, "inner")
	f.git("clone", "-q", f.dir, inner)
	f.git("submodule", "--quiet", "add", inner, "sub")
	f.git("commit", "-qm", "sub")
	want := f.git("rev-parse", "HEAD^{tree}")
	if snap := f.capture(); snap.Tree != want {
		t.Fatal("a clean submodule differs")
	}
	f.git("submodule", "--quiet", "deinit", "sub")
	for range 2 {
		if snap := f.capture(); snap.Tree != want {
			t.Fatal("a submodule that isn't checked out was deleted")
		}
		f.write("x", "y")
		f.capture()
		f.must(os.Remove(filepath.Join(f.dir, "x")))
	}
}

func TestSpecialFilesAndTypeChanges(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.capture()
	f.must(os.Remove(filepath.Join(f.dir, "gone")))
	f.must(unix.Mkfifo(filepath.Join(f.dir, "gone"), 0o644))
	f.must(unix.Mkfifo(filepath.Join(f.dir, "pipe"), 0o644))
	f.must(os.Remove(filepath.Join(f.dir, "a.txt")))
	f.must(os.Symlink("/etc/passwd", filepath.Join(f.dir, "a.txt")))
	f.must(os.RemoveAll(filepath.Join(f.dir, "dir")))
	f.write("dir", "a file now")
	snap := f.capture()
	if !snap.Partial || len(snap.Skipped) != 2 || snap.Skipped[0].Why != "fifo" {
		t.Fatalf("%+v", snap.Skipped)
	}
	f.must(os.Remove(filepath.Join(f.dir, "gone")))
	f.must(os.Remove(filepath.Join(f.dir, "pipe")))
	f.check(snap)
	f.same(f.restore(snap))
	f.must(os.Remove(filepath.Join(f.dir, "dir")))
	f.write("dir/in", "folder again")
	f.check(f.capture())
	f.write(".gitignore", "p2\n")
	f.must(unix.Mkfifo(filepath.Join(f.dir, "p2"), 0o644))
	if snap := f.capture(); snap.Partial || len(snap.Skipped) != 0 {
		t.Fatalf("an ignored fifo was listed: %+v", snap.Skipped)
	}
}

func TestLinksAndOddNames(t *testing.T) {
	f := newFixture(t)
	f.repo()
	for name, target := range map[string]string{"dangling": "nowhere", "loop": "loop", "abs": "/tmp", "up": "../.."} {
		f.must(os.Symlink(target, filepath.Join(f.dir, name)))
	}
	for _, name := range []string{"new\nline", "bad\xff\xfe", "-n", `back\slash`, "tab\t", "*", ":(top)x", " ", "Case", "case"} {
		f.write(name, name)
	}
	f.must(unix.Mkfifo(filepath.Join(f.dir, "pipe*"), 0o644))
	snap := f.capture()
	f.must(os.Remove(filepath.Join(f.dir, "pipe*")))
	f.check(snap)
	f.same(f.restore(snap))
}

func TestModesEmptyFoldersHardLinks(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.must(os.Chmod(filepath.Join(f.dir, "a.txt"), 0o400))
	f.write("run", "x")
	f.must(os.Chmod(filepath.Join(f.dir, "run"), 0o755))
	f.must(os.MkdirAll(filepath.Join(f.dir, "empty/deep"), 0o755))
	f.must(os.Chmod(filepath.Join(f.dir, "empty/deep"), 0o500))
	f.must(os.Chmod(filepath.Join(f.dir, "dir"), 0o550))
	f.must(os.Link(filepath.Join(f.dir, "run"), filepath.Join(f.dir, "run2")))
	snap := f.capture()
	f.check(snap)
	f.same(f.restore(snap))
	if len(snap.Skipped) != 1 || snap.Partial {
		t.Fatalf("%+v", snap.Skipped)
	}
}

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
	found, _ := filepath.Glob(area + "/*.index")
	if len(found) != 1 {
		t.Fatal(found)
	}
	for _, junk := range []string{"", "torn index"} {
		f.must(os.WriteFile(found[0]+".lock", nil, 0o600))
		f.must(os.WriteFile(found[0], []byte(junk), 0o600))
		f.write("a.txt", "after "+junk)
		f.check(f.capture())
	}
	stat := strings.TrimSuffix(found[0], ".index") + ".stat"
	f.must(os.WriteFile(stat, []byte("torn"), 0o600))
	f.check(f.capture())
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
	if got := fmt.Sprint(changes); got != "[{a.txt modified} {dir/b.txt deleted} {gone mode} {n added}]" {
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
	if len(got) != 5 || got["w/record/a"] != "4 \x00" || got["w/record/x.lock"] == "" {
		t.Fatalf("%q", got)
	}
	f.must(f.s.Forget(ctx, "w"))
	read()
	if len(got) != 1 {
		t.Fatalf("%q", got)
	}
}
