package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

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
	t.Cleanup(func() { os.Chmod(filepath.Join(f.dir, "dir"), 0o755) })
	f.must(os.Link(filepath.Join(f.dir, "run"), filepath.Join(f.dir, "run2")))
	snap := f.capture()
	f.check(snap)
	dest := f.restore(snap)
	t.Cleanup(func() { os.Chmod(filepath.Join(dest, "dir"), 0o755) })
	f.same(dest)
	if len(snap.Skipped) != 1 || snap.Partial {
		t.Fatalf("%+v", snap.Skipped)
	}
}

func TestUnreadableIsListed(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	f := newFixture(t)
	f.repo()
	f.capture()
	f.must(os.Chmod(filepath.Join(f.dir, "a.txt"), 0))
	f.must(os.Chmod(filepath.Join(f.dir, "dir"), 0))
	t.Cleanup(func() { os.Chmod(filepath.Join(f.dir, "dir"), 0o755) })
	snap := f.capture()
	if !snap.Partial || len(snap.Skipped) != 2 {
		t.Fatalf("%+v", snap)
	}
	f.must(os.Chmod(filepath.Join(f.dir, "a.txt"), 0o644))
	f.must(os.Chmod(filepath.Join(f.dir, "dir"), 0o755))
	f.check(f.capture())
}
