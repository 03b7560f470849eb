package snapshot

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// world is a directory that random things happen to.
type world struct {
	*fixture
	r *rand.Rand
}

// somePath is a path of a small set, so that kinds meet in one place.
func (w *world) somePath() string {
	var parts []string
	for range 1 + w.r.IntN(3) {
		parts = append(parts, pick(w.r, []string{"a", "b", "c.log", "-x", "new\nline", "\xff", "Ü"}))
	}
	return strings.Join(parts, "/")
}

// clear makes way for something at a path: what is no folder above it goes.
func (w *world) clear(path string) string {
	full := filepath.Join(w.dir, path)
	for _, dir := range parents(path) {
		if info, err := os.Lstat(filepath.Join(w.dir, dir)); err == nil && !info.IsDir() {
			w.must(os.Remove(filepath.Join(w.dir, dir)))
		}
	}
	w.must(os.MkdirAll(filepath.Dir(full), 0o755))
	w.must(os.RemoveAll(full))
	return full
}

// happens lets one thing happen.
func (w *world) happens() {
	git := func(args ...string) { w.try(w.dir, args...) } // it may have nothing to do
	switch w.r.IntN(20) {
	case 0, 1, 2, 3, 4:
		data := make([]byte, w.r.IntN(200))
		for i := range data {
			data[i] = byte(w.r.IntN(256))
		}
		mode := pick(w.r, []os.FileMode{0o644, 0o755, 0o600, 0o400, 0o777})
		full := w.clear(w.somePath())
		w.must(os.WriteFile(full, data, 0o600))
		w.must(os.Chmod(full, mode))
	case 5:
		_ = os.RemoveAll(filepath.Join(w.dir, w.somePath())) // it may lead through a file
	case 6:
		target := pick(w.r, []string{"a", "nowhere", "..", "/etc/passwd", "b/c.log"})
		w.must(os.Symlink(target, w.clear(w.somePath())))
	case 7:
		full := w.clear(w.somePath())
		w.must(os.Mkdir(full, 0o755))
		w.must(os.Chmod(full, pick(w.r, []os.FileMode{0o755, 0o700, 0o775})))
	case 8:
		w.must(os.WriteFile(w.clear(".gitignore"), []byte(pick(w.r, []string{"", "*.log\n", "a/\n", "b\n!b/a\n"})), 0o644))
	case 9, 10:
		git("add", "-A")
	case 11, 12:
		git("commit", "-qm", "x", "--allow-empty")
	case 13:
		git("stash", "-q", "-u")
	case 14:
		git("stash", "pop", "-q")
	case 15:
		git("reset", "-q", "--hard", pick(w.r, []string{"HEAD", "HEAD~1"}))
	case 16:
		git("checkout", "-q", "-B", pick(w.r, []string{"main", "side"}))
	case 17:
		git("gc", "-q", "--prune=now")
	case 18:
		git("merge", "-q", "-m", "m", pick(w.r, []string{"main", "side"}))
	case 19:
		w.must(unix.Mkfifo(w.clear(w.somePath()), 0o644))
	}
}

// seen is what a snapshot has to bring back: the files of the oracle's tree
// with their modes, and their folders.
func (w *world) seen(snap Snapshot) string {
	tree := map[string]bool{}
	for _, p := range fields([]byte(w.gitIn(w.s.RepoPath(snap.Repo), "ls-tree", "-r", "-t", "-z", "--name-only", snap.Tree))) {
		tree[p] = true
	}
	var kept []string
	for _, line := range strings.Split(list(w.dir), "\n") {
		var name string
		if _, err := fmt.Sscanf(line, "%q", &name); err == nil && tree[name] {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func TestEverySnapshotRestoresExactly(t *testing.T) {
	// A world takes a second; -rapid.checks asks for more of them.
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		if err := f.Value.Set("3"); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[uint64]bool{}
	rapid.Check(t, func(r *rapid.T) {
		seed := rapid.Uint64().Draw(r, "seed")
		if seen[seed] || t.Failed() {
			return // a smaller seed is no simpler world
		}
		seen[seed] = true
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { history(t, rand.New(rand.NewPCG(seed, 1))) }) {
			r.Fatalf("seed %d", seed)
		}
	})
}

// history is one directory's: events, snapshots, and each of them restored.
func history(t *testing.T, r *rand.Rand) {
	f := newFixture(t)
	w := &world{f, r}
	f.git("init", "-q")
	f.git("commit", "-qm", "root", "--allow-empty")
	var snaps []Snapshot
	var want []string
	for range 1 + r.IntN(4) {
		for range 1 + r.IntN(8) {
			w.happens()
		}
		snap := f.capture()
		w.withoutSpecial(func() { f.check(snap) })
		snaps, want = append(snaps, snap), append(want, w.seen(snap))
	}
	for i, snap := range snaps {
		if got := w.seenIn(f.restore(snap), snap); got != want[i] {
			t.Fatalf("snapshot %d: had\n%s\ngot\n%s", i, want[i], got)
		}
	}
	w.backTo(pick(r, snaps))
}

// withoutSpecial runs fn with the FIFOs out of the way: plain git would stop
// at them.
func (w *world) withoutSpecial(fn func()) {
	var made []string
	w.must(filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeNamedPipe != 0 {
			made = append(made, path)
		}
		return err
	}))
	for _, path := range made {
		w.must(os.Remove(path))
	}
	fn()
	for _, path := range made {
		w.must(unix.Mkfifo(path, 0o644))
	}
}

func (w *world) seenIn(dir string, snap Snapshot) string {
	inner := *w.fixture
	inner.dir = dir
	return (&world{&inner, w.r}).seen(snap)
}

// backTo restores in place: what the snapshot has is as it was, and nothing
// ignored was touched.
func (w *world) backTo(snap Snapshot) {
	ignored, _ := w.try(w.dir, "ls-files", "-o", "-i", "--exclude-standard", "-z")
	before := map[string]string{}
	for _, name := range fields([]byte(ignored)) {
		text, err := os.ReadFile(filepath.Join(w.dir, name))
		before[name] = fmt.Sprint(string(text), err)
	}
	want := w.seenIn(w.restore(snap), snap)
	steps, done := w.back(snap)
	for name, text := range before {
		now, err := os.ReadFile(filepath.Join(w.dir, name))
		if fmt.Sprint(string(now), err) != text && !strings.Contains(steps, " "+name+" ") {
			w.Fatalf("%q was ignored, and is touched: %s %v", name, steps, done.Notes)
		}
	}
	if got := w.seen(snap); got != want {
		w.Fatalf("in place: had\n%s\ngot\n%s", want, got)
	}
}
