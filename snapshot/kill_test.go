package snapshot

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Each step of writing at which a process may die.
var captureSteps = []string{"measured", "pack-sealed", "pack-named", "pack-indexed", "before-ref", "before-rename"}

func TestKilledCaptures(t *testing.T) {
	for _, step := range captureSteps {
		t.Run(step, func(t *testing.T) {
			f := newFixture(t)
			f.repo()
			first := f.capture()
			want := list(f.dir)
			f.write("a.txt", "edited")
			f.git("add", "a.txt")
			f.write("new", "file")
			if _, killed := f.start(child{Do: "capture", Step: step}, 0); !killed {
				t.Fatal("the step was never reached")
			}
			if got := list(f.restore(first)); got != want {
				t.Fatal("an earlier snapshot was hurt")
			}
			next := f.capture()
			f.check(next)
			f.same(f.restore(next))
			snaps, err := f.s.List(context.Background(), "w")
			f.must(err)
			for _, snap := range snaps {
				f.restore(snap)
			}
			_, err = f.s.Prune(context.Background(), nil, nil)
			f.must(err)
			f.same(f.restore(next))
		})
	}
}

func TestKilledFirstCapture(t *testing.T) {
	for _, step := range []string{"pack-named", "before-rename"} {
		f := newFixture(t)
		f.repo()
		if _, killed := f.start(child{Do: "capture", Step: step}, 0); !killed {
			t.Fatal("the step was never reached")
		}
		snap := f.capture()
		f.check(snap)
		f.same(f.restore(snap))
	}
}

func TestKilledRestore(t *testing.T) {
	for _, c := range []child{{Step: "restore-written"}, {Step: "restore-written", Skip: 3}, {Step: "restore-deleted"}} {
		f := newFixture(t)
		f.repo()
		for i := range 8 {
			f.write(fmt.Sprintf("f%d", i), "then")
		}
		snap := f.capture()
		want := list(f.dir)
		for i := range 8 {
			f.write(fmt.Sprintf("f%d", i), "now")
		}
		f.write("extra", "recorded")
		f.capture()
		c.Do, c.Snapshot = "restore", snap
		if _, killed := f.start(c, 0); !killed {
			t.Fatal("the step was never reached")
		}
		// Each file is whole, old or new; the next restore finishes.
		for i := range 8 {
			text, err := os.ReadFile(filepath.Join(f.dir, fmt.Sprintf("f%d", i)))
			if err != nil || string(text) != "then" && string(text) != "now" {
				t.Fatalf("%q %v", text, err)
			}
		}
		f.back(snap)
		left, _ := filepath.Glob(filepath.Join(f.dir, ".perdure-*"))
		for _, name := range left {
			f.must(os.Remove(name)) // named for what it is, and never counted as the user's
		}
		if got := list(f.dir); got != want {
			t.Fatalf("had\n%s\ngot\n%s", want, got)
		}
	}
}

func TestKilledPrune(t *testing.T) {
	for _, step := range []string{"prune-marked", "prune-refs", "prune-packed"} {
		f := newFixture(t)
		f.repo()
		first := f.capture()
		want := list(f.dir)
		f.write("only-second", "x")
		second := f.capture()
		f.must(os.Remove(filepath.Join(f.dir, "only-second")))
		third := f.capture()
		if _, killed := f.start(child{Do: "prune", Step: step, Snapshot: second}, 0); !killed {
			t.Fatal("the step was never reached")
		}
		for _, snap := range []Snapshot{first, third} {
			if list(f.restore(snap)) != want {
				t.Fatal("a survivor was hurt")
			}
		}
		f.write("only-second", "x")
		f.check(f.capture())
		_, err := f.s.Prune(context.Background(), []Snapshot{second}, nil)
		f.must(err)
		if exists(filepath.Join(f.s.RepoPath(first.Repo), "perdure", "garbage")) {
			t.Fatal("the pruning was not finished")
		}
		if list(f.restore(first)) != want {
			t.Fatal("a survivor was hurt")
		}
	}
}

func TestProcessesAtOnce(t *testing.T) {
	f := newFixture(t)
	f.repo()
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() { f.start(child{Do: "capture"}, 0) })
	}
	group.Wait()
	snaps, err := f.s.List(context.Background(), "w")
	f.must(err)
	if len(snaps) != 3 {
		t.Fatalf("%d snapshots", len(snaps))
	}
	for _, snap := range snaps {
		f.same(f.restore(snap))
	}
}

func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system takes root")
	}
	f := newFixture(t)
	mount := filepath.Join(f.base, "small")
	f.must(os.Mkdir(mount, 0o700))
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=3m"); err != nil {
		t.Skipf("no small file system can be mounted: %v", err)
	}
	defer func() { _ = unix.Unmount(mount, unix.MNT_DETACH) }()
	s, err := Open(filepath.Join(mount, "state", "snapshots"))
	f.must(err)
	s.Limits.Free = 0
	f.s = s
	f.repo()
	first := f.capture()
	want := list(f.dir)
	noise := make([]byte, 2<<20)
	fill(noise)
	f.must(os.WriteFile(filepath.Join(f.dir, "big1"), noise, 0o644))
	fill(noise)
	f.must(os.WriteFile(filepath.Join(f.dir, "big2"), noise, 0o644))
	snap, err := s.Capture(context.Background(), CaptureRequest{Workspace: "w", Dir: f.dir})
	if err == nil && (!snap.Partial || len(snap.Skipped) == 0) {
		t.Fatal("more was kept than there is room for")
	}
	// The same with the budget out of the way: the disk itself refuses.
	s.Limits.Free = -1 << 30
	if _, err = s.Capture(context.Background(), CaptureRequest{Workspace: "w", Dir: f.dir}); err == nil {
		t.Fatal("a full disk was not noticed")
	}
	s.Limits.Free = 0
	if got := list(f.restore(first)); got != want {
		t.Fatal("an earlier snapshot was hurt")
	}
	f.must(os.Remove(filepath.Join(f.dir, "big1")))
	f.must(os.Remove(filepath.Join(f.dir, "big2")))
	f.write("a.txt", "after")
	next := f.capture()
	f.check(next)
	f.same(f.restore(next))
	out, err := exec.Command("git", "--git-dir", s.RepoPath(next.Repo), "fsck", "--strict", "--full").CombinedOutput()
	if err != nil || strings.Contains(string(out), "error") {
		t.Fatalf("%v %s", err, out)
	}
	f.s, err = Open(filepath.Join(f.base, "other"))
	f.must(err)
}

// fill writes bytes that no compression makes smaller.
func fill(b []byte) {
	x := uint64(len(b)) + 88172645463325252 + uint64(b[0])
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
}
