package snapshot

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// back restores snap in place and returns what the plan said, one step a line.
func (f *fixture) back(snap Snapshot, only ...string) (steps string, done Applied) {
	f.Helper()
	ctx := context.Background()
	earlier, err := f.s.List(ctx, "w")
	f.must(err)
	plan, err := f.s.PlanRestore(ctx, snap, PlanRequest{Dir: f.dir, Only: only, Earlier: earlier})
	f.must(err)
	for _, s := range plan.Steps {
		steps += fmt.Sprintf("%s %s newer=%v unkept=%v\n", s.Action, s.Path, s.Newer, s.Unkept)
	}
	done, err = f.s.Apply(ctx, plan, nil)
	f.must(err)
	if len(only) == 0 {
		notes, err := f.s.RestoreGit(ctx, snap, f.dir)
		f.must(err)
		done.Notes = append(done.Notes, notes...)
	}
	return steps, done
}

func TestRestoreInPlace(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.write(".gitignore", "*.log\n")
	f.must(os.Mkdir(filepath.Join(f.dir, "empty"), 0o700))
	snap := f.capture()
	want := list(f.dir)
	f.write("a.txt", "edited")
	f.must(os.Remove(filepath.Join(f.dir, "gone")))
	f.must(os.Remove(filepath.Join(f.dir, "empty")))
	f.must(os.Chmod(filepath.Join(f.dir, "dir/b.txt"), 0o755))
	f.write("later/seen", "recorded by the next snapshot")
	f.capture()
	f.write("later/unseen", "no snapshot has it")
	f.write("x.log", "ignored")
	steps, done := f.back(snap)
	for _, line := range []string{"replace a.txt newer=true", "add gone newer=false", "add empty ", "mode dir/b.txt newer=true", "delete later/seen", "keep later/unseen"} {
		if !strings.Contains(steps, line) {
			t.Errorf("the plan lacks %q:\n%s", line, steps)
		}
	}
	if strings.Contains(steps, "x.log") || done.Deleted != 1 || len(done.Notes) != 0 {
		t.Errorf("%s %+v", steps, done)
	}
	for _, name := range []string{"later/unseen", "x.log"} {
		f.must(os.Remove(filepath.Join(f.dir, name)))
	}
	f.must(os.Remove(filepath.Join(f.dir, "later")))
	if got := list(f.dir); got != want {
		t.Fatalf("had\n%s\ngot\n%s", want, got)
	}
}

func TestRestoreInPlaceNeverFollowsLinks(t *testing.T) {
	f := newFixture(t)
	f.repo()
	snap := f.capture()
	outside := filepath.Join(f.base, "outside")
	f.must(os.MkdirAll(outside, 0o755))
	f.must(os.WriteFile(filepath.Join(outside, "b.txt"), []byte("mine"), 0o644))
	f.must(os.RemoveAll(filepath.Join(f.dir, "dir")))
	f.must(os.Symlink(outside, filepath.Join(f.dir, "dir")))
	f.back(snap)
	if got, _ := os.ReadFile(filepath.Join(outside, "b.txt")); string(got) != "mine" {
		t.Fatal("written through a link")
	}
	if got, _ := os.ReadFile(filepath.Join(f.dir, "dir/b.txt")); string(got) != "two\n" {
		t.Fatalf("not restored: %q", got)
	}
}

func TestIgnoredFileInTheWayIsUnkept(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.write("conf", "then")
	snap := f.capture()
	f.write(".gitignore", "conf\n")
	f.write("conf", "now, ignored")
	ctx := context.Background()
	plan, err := f.s.PlanRestore(ctx, snap, PlanRequest{Dir: f.dir})
	f.must(err)
	if globs := plan.Unkept(); len(globs) != 1 || globs[0] != "conf" {
		t.Fatalf("%v %+v", globs, plan.Steps)
	}
	before, err := f.s.Capture(ctx, CaptureRequest{Workspace: "w", Dir: f.dir, Include: plan.Unkept()})
	f.must(err)
	_, err = f.s.Apply(ctx, plan, nil)
	f.must(err)
	var text strings.Builder
	f.must(f.s.Cat(ctx, before, "conf", &text))
	if text.String() != "now, ignored" || before.Included != 1 {
		t.Fatalf("%q", text.String())
	}
}

func TestChangedSinceThePlanIsLeft(t *testing.T) {
	f := newFixture(t)
	f.repo()
	snap := f.capture()
	f.write("a.txt", "edited")
	f.must(os.Remove(filepath.Join(f.dir, "gone")))
	ctx := context.Background()
	plan, err := f.s.PlanRestore(ctx, snap, PlanRequest{Dir: f.dir})
	f.must(err)
	f.write("a.txt", "edited once more")
	f.write("gone", "made anew")
	done, err := f.s.Apply(ctx, plan, nil)
	f.must(err)
	if len(done.Notes) != 2 || done.Written != 0 {
		t.Fatalf("%+v", done)
	}
}

func TestRestoreOnly(t *testing.T) {
	f := newFixture(t)
	f.repo()
	snap := f.capture()
	f.write("a.txt", "edited")
	f.write("dir/b.txt", "edited")
	f.write("dir/c.txt", "new")
	f.capture()
	steps, _ := f.back(snap, "dir")
	if strings.Contains(steps, "a.txt") || !strings.Contains(steps, "delete dir/c.txt") {
		t.Fatal(steps)
	}
	if got, _ := os.ReadFile(filepath.Join(f.dir, "a.txt")); string(got) != "edited" {
		t.Fatal("more than asked for was restored")
	}
}

// state is what plain git says of the repository.
func (f *fixture) state() string {
	f.Helper()
	out := ""
	for _, args := range [][]string{{"status", "--porcelain=v2", "--branch"}, {"ls-files", "-s", "-v"}, {"stash", "list", "--format=%H %gs"}, {"diff", "--cached"}, {"diff"}} {
		text, _ := f.try(f.dir, args...)
		out += text + "--\n"
	}
	for _, name := range stateFiles {
		if name == "ORIG_HEAD" || name == "COMMIT_EDITMSG" {
			continue // no operation's; git writes them by the way
		}
		filepath.WalkDir(filepath.Join(f.dir, ".git", name), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				text, _ := os.ReadFile(path)
				out += path + ": " + string(text) + "\n"
			}
			return nil
		})
	}
	return out
}

func TestGitStateComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		make, away func(f *fixture)
	}{
		"staged": {func(f *fixture) {
			f.write("a.txt", "staged\n")
			f.write("n", "new\n")
			f.git("add", "a.txt", "n")
			f.write("a.txt", "worktree\n")
			f.write("later", "intent")
			f.git("add", "-N", "later")
			f.git("rm", "-q", "--cached", "gone")
			f.git("update-index", "--assume-unchanged", "dir/b.txt")
		}, func(f *fixture) { f.git("reset", "-q", "--hard"); f.try(f.dir, "clean", "-fdq") }},
		"merge":       {func(f *fixture) { f.try(f.dir, "merge", "side") }, func(f *fixture) { f.git("merge", "--abort") }},
		"rebase":      {func(f *fixture) { f.try(f.dir, "rebase", "side") }, func(f *fixture) { f.git("rebase", "--abort") }},
		"cherry-pick": {func(f *fixture) { f.try(f.dir, "cherry-pick", "side") }, func(f *fixture) { f.git("cherry-pick", "--abort") }},
		"revert":      {func(f *fixture) { f.try(f.dir, "revert", "--no-edit", "HEAD~1") }, func(f *fixture) { f.try(f.dir, "revert", "--abort") }},
		"bisect": {func(f *fixture) { f.git("bisect", "start"); f.git("bisect", "bad"); f.git("bisect", "good", "HEAD~2") },
			func(f *fixture) { f.git("bisect", "reset") }},
		"stash": {func(f *fixture) {
			f.write("a.txt", "one\n")
			f.git("stash", "-q")
			f.write("a.txt", "two\n")
			f.write("u", "untracked\n")
			f.git("stash", "-q", "-u", "-m", "second")
		}, func(f *fixture) { f.git("stash", "clear") }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.repo()
			f.git("checkout", "-qb", "side")
			f.write("a.txt", "side\n")
			f.git("commit", "-qam", "side")
			f.git("checkout", "-q", "main")
			f.write("a.txt", "main\n")
			f.git("commit", "-qam", "main")
			f.write("a.txt", "more\n")
			f.git("commit", "-qam", "more")
			c.make(f)
			want := f.state()
			snap := f.capture()
			c.away(f)
			f.git("reflog", "expire", "--expire=now", "--all")
			f.git("gc", "-q", "--prune=now")
			f.capture()
			if steps, done := f.back(snap); len(done.Notes) != 0 {
				t.Fatalf("%s %v", steps, done.Notes)
			}
			if got := f.state(); got != want {
				t.Fatalf("had\n%s\ngot\n%s", want, got)
			}
			f.git("fsck", "--strict")
		})
	}
}

func TestStateOfALostRepositoryIsSaid(t *testing.T) {
	f := newFixture(t)
	f.repo()
	snap := f.capture()
	f.must(os.RemoveAll(filepath.Join(f.dir, ".git")))
	_, done := f.back(snap)
	if len(done.Notes) != 1 || !strings.Contains(done.Notes[0], snap.Commit) {
		t.Fatalf("%v", done.Notes)
	}
	f.git("init", "-q")
	f.git("fetch", "-q", f.s.RepoPath(snap.Repo), snap.Commit)
	f.git("reset", "-q", snap.Head)
	if out := f.git("status", "--porcelain"); out != "" {
		t.Fatalf("%q", out)
	}
}
