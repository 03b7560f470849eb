package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"perdure/snapshot"
)

// snapshotBench is one run: a repository of many files, a store, and the rows measured.
type snapshotBench struct {
	ctx   context.Context
	repo  string
	base  string
	store *snapshot.Store
	err   error
}

func runSnapshot(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("snapshot", flag.ContinueOnError)
	files := set.Int("files", 50000, "tracked files")
	extra := set.Int("untracked", 20000, "new files")
	rounds := set.Int("rounds", 5, "how often each is measured; the median counts")
	if err := set.Parse(args); err != nil {
		return err
	}
	base, err := os.MkdirTemp("", "perdure-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	b := &snapshotBench{ctx: ctx, base: base, repo: filepath.Join(base, "repo")}
	if b.store, err = snapshot.Open(filepath.Join(base, "state", "snapshots")); err != nil {
		return err
	}
	fmt.Printf("%d tracked files, %d new ones, %d cores\n", *files, *extra, runtime.NumCPU())
	b.must(fill(b.repo, *files, 1))
	b.git("init", "-q")
	b.git("add", "-A")
	b.git("-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "base")
	b.firstCapture()
	b.unchanged(*rounds)
	b.changed(*rounds, *files)
	b.newFiles(*extra)
	b.unchanged(*rounds)
	b.restore()
	b.memory()
	return b.err
}

// fill writes n files of Go-like text, 5.5 KB each on average, in folders of 50.
func fill(dir string, n int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 7))
	words := make([][]byte, 4000)
	for i := range words {
		w := make([]byte, 4+r.IntN(16))
		for j := range w {
			w[j] = "abcdefghijklmnopqrst (){}\n\t=.,"[r.IntN(30)]
		}
		words[i] = w
	}
	var text bytes.Buffer
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprintf("p%02d", i/2500), fmt.Sprintf("s%02d", i/50%50))
		if i%50 == 0 {
			if err := os.MkdirAll(sub, 0o755); err != nil {
				return err
			}
		}
		text.Reset()
		fmt.Fprintf(&text, "%d %d\n", seed, i)
		for size := 200 + r.IntN(10700); text.Len() < size; {
			text.Write(words[r.IntN(len(words))])
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%05d.go", i)), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (b *snapshotBench) must(err error) {
	if err != nil && b.err == nil {
		b.err = err
	}
}

func (b *snapshotBench) git(args ...string) {
	b.gitWith(nil, args...)
}

func (b *snapshotBench) gitWith(env []string, args ...string) {
	cmd := exec.CommandContext(b.ctx, "git", args...)
	cmd.Dir = b.repo
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.must(fmt.Errorf("git %v: %w: %s", args, err, out))
	}
}

// took measures fn once.
func took(fn func()) time.Duration {
	start := time.Now()
	fn()
	return time.Since(start)
}

// median measures each of fns in turn, n times, and gives the median of each.
func median(n int, fns ...func()) []time.Duration {
	all := make([][]time.Duration, len(fns))
	for range n {
		for i, fn := range fns {
			all[i] = append(all[i], took(fn))
		}
	}
	out := make([]time.Duration, len(fns))
	for i, list := range all {
		out[i] = middle(list)
	}
	return out
}

func row(what string, d time.Duration, against string, of time.Duration) {
	fmt.Printf("%-44s %9.0f ms   %5.2f x %s\n", what, float64(d.Microseconds())/1000, float64(d)/float64(of), against)
}

func (b *snapshotBench) read() {
	_, err := b.store.Read(b.ctx, "bench", b.repo)
	b.must(err)
}

// bound is the least that finding no change can cost: an lstat of every file, on all cores.
func (b *snapshotBench) bound() func() {
	var paths []string
	b.must(filepath.WalkDir(b.repo, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			paths = append(paths, path)
		}
		return err
	}))
	return func() {
		var next atomic.Int64
		var group sync.WaitGroup
		for range 2 * runtime.GOMAXPROCS(0) {
			group.Go(func() {
				var st unix.Stat_t
				for i := int(next.Add(1)) - 1; i < len(paths); i = int(next.Add(1)) - 1 {
					b.must(unix.Lstat(paths[i], &st))
				}
			})
		}
		group.Wait()
	}
}

func (b *snapshotBench) firstCapture() {
	index := "GIT_INDEX_FILE=" + filepath.Join(b.base, "cold.index")
	g := took(func() {
		b.gitWith([]string{index}, "add", "-A")
		b.gitWith([]string{index}, "write-tree")
	})
	row("git add -A && git write-tree, cold index", g, "itself", g)
	d := took(func() {
		_, err := b.store.Capture(b.ctx, snapshot.CaptureRequest{Workspace: "bench", Dir: b.repo, Reason: "manual"})
		b.must(err)
	})
	row("first capture over the repository", d, "git", g)
}

func (b *snapshotBench) unchanged(rounds int) {
	bound := b.bound()
	time.Sleep(50 * time.Millisecond) // past the racy time: what was just written is read once more
	b.read()
	b.git("status", "--porcelain")
	m := median(rounds, bound, b.read, func() { b.git("status", "--porcelain") })
	row("bound: lstat of every file", m[0], "itself", m[0])
	row("nothing changed", m[1], "bound", m[0])
	row("git status", m[2], "bound", m[0])
}

func (b *snapshotBench) changed(rounds, files int) {
	bound := b.bound()
	edit := 0
	touch := func() {
		for i := range 100 {
			n := i * files / 100
			name := filepath.Join(b.repo, fmt.Sprintf("p%02d/s%02d/file%05d.go", n/2500, n/50%50, n))
			edit++
			b.must(os.WriteFile(name, fmt.Appendf(nil, "edit %d\n", edit), 0o644))
		}
	}
	var bounds, reads []time.Duration
	for range rounds {
		touch()
		bounds = append(bounds, took(bound))
		reads = append(reads, took(b.read))
	}
	row("100 files changed", middle(reads), "bound", middle(bounds))
}

func middle(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

func (b *snapshotBench) newFiles(n int) {
	b.must(fill(filepath.Join(b.repo, "new"), n, 2))
	d := took(b.read)
	copyIndex := filepath.Join(b.base, "new.index")
	data, err := os.ReadFile(filepath.Join(b.repo, ".git", "index"))
	b.must(err)
	b.must(os.WriteFile(copyIndex, data, 0o600))
	g := took(func() { b.gitWith([]string{"GIT_INDEX_FILE=" + copyIndex}, "add", "new") })
	row("git add of the new files", g, "itself", g)
	row("first capture of the new files", d, "git add", g)
}

func (b *snapshotBench) restore() {
	b.git("add", "-A")
	out := filepath.Join(b.base, "checkout") + "/"
	g := took(func() { b.git("checkout-index", "-a", "--prefix="+out) })
	row("git checkout-index -a", g, "itself", g)
	snap, err := b.store.Capture(b.ctx, snapshot.CaptureRequest{Workspace: "bench", Dir: b.repo, Reason: "manual"})
	b.must(err)
	d := took(func() {
		_, err := b.store.Restore(b.ctx, snap, filepath.Join(b.base, "restored"), nil, false)
		b.must(err)
	})
	row("restore into a new directory", d, "git", g)
}

// memory is the most that this process ever took; the lists of the bound are in it too.
func (b *snapshotBench) memory() {
	var u unix.Rusage
	b.must(unix.Getrusage(unix.RUSAGE_SELF, &u))
	fmt.Printf("%-44s %9.0f MB\n", "peak memory of this process", float64(u.Maxrss)/1024)
}
