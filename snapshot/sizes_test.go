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

func TestCapsLeaveOutAndList(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.s.Limits.File = 1000
	f.write("large", strings.Repeat("x", 1001))
	f.write("small", strings.Repeat("y", 900))
	snap := f.capture()
	if !snap.Partial || len(snap.Skipped) != 1 || snap.Skipped[0].Path != "large" {
		t.Fatalf("%+v", snap.Skipped)
	}
	steps, _ := f.back(snap)
	if steps != "" || !exists(filepath.Join(f.dir, "large")) {
		t.Fatalf("%q", steps)
	}
	f.s.Limits.File = 1 << 20
	f.s.Limits.Snapshot = 1500
	f.write("another", strings.Repeat("z", 700))
	if snap = f.capture(); len(snap.Skipped) != 1 || snap.Skipped[0].Path != "large" {
		t.Fatalf("%+v", snap.Skipped)
	}
	f.s.Limits.Snapshot, f.s.Limits.Store = 1<<20, 1
	f.write("more", "1")
	if snap = f.capture(); !snap.Partial || len(snap.Skipped) != 2 {
		t.Fatalf("%+v", snap.Skipped)
	}
	f.s.Limits = DefaultLimits
	snap = f.capture()
	f.check(snap)
	f.same(f.restore(snap))
}

func TestHugeSparseFileIsLeftOut(t *testing.T) {
	f := newFixture(t)
	f.repo()
	huge, err := os.Create(filepath.Join(f.dir, "huge"))
	f.must(err)
	f.must(huge.Truncate(3 << 30))
	huge.Close()
	snap := f.capture()
	if len(snap.Skipped) != 1 || !strings.Contains(snap.Skipped[0].Why, "512 MiB") {
		t.Fatalf("%+v", snap.Skipped)
	}
}

func TestFilesLargerThanMemory(t *testing.T) {
	f := newFixture(t)
	f.repo()
	for i, size := range []int{inMemory - 1, inMemory, inMemory + 1, 3*inMemory + 7} {
		data := make([]byte, size)
		data[0] = byte(i)
		fill(data)
		f.must(os.WriteFile(filepath.Join(f.dir, fmt.Sprint("f", i)), data, 0o644))
		f.must(os.WriteFile(filepath.Join(f.dir, fmt.Sprint("again", i)), data, 0o644))
	}
	snap := f.capture()
	f.check(snap)
	f.same(f.restore(snap))
}

// restless keeps changing a file until the returned function is called.
func restless(t *testing.T, path string, change func(f *os.File, i int) error) func() {
	stop, done := make(chan struct{}), make(chan struct{})
	started := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
			if err == nil {
				err = change(f, i)
				f.Close()
			}
			if err != nil {
				t.Error(err)
				return
			}
			if i == 0 {
				close(started)
			}
		}
	}()
	<-started
	return func() { close(stop); <-done }
}

func TestFilesThatNeverRest(t *testing.T) {
	f := newFixture(t)
	f.repo()
	grow := filepath.Join(f.dir, "grows")
	stop := []func(){
		restless(t, grow, func(w *os.File, i int) error {
			if i > 2000 {
				return nil
			}
			_, err := w.WriteAt([]byte("line\n"), int64(5*i))
			return err
		}),
		restless(t, filepath.Join(f.dir, "shrinks"), func(w *os.File, i int) error { return w.Truncate(int64(i%7) << 16) }),
		restless(t, filepath.Join(f.dir, "vanishes"), func(w *os.File, _ int) error { return os.Remove(w.Name()) }),
	}
	for range 5 {
		snap, err := f.s.Capture(context.Background(), CaptureRequest{Workspace: "w", Dir: f.dir})
		f.must(err)
		for _, s := range snap.Skipped {
			if s.Path != "grows" && s.Path != "shrinks" && s.Path != "vanishes" {
				t.Fatalf("%+v", snap.Skipped)
			}
		}
		var text bytes.Buffer
		if err := f.s.Cat(context.Background(), snap, "grows", &text); err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		if strings.Trim(text.String(), "line\n\x00") != "" {
			t.Fatal("bytes that never were")
		}
	}
	for _, s := range stop {
		s()
	}
	snap := f.capture()
	f.check(snap)
	f.same(f.restore(snap))
}
