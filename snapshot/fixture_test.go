package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
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
		if err != nil || d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if d.Name() == ".git" {
			return nil
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
