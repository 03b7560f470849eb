package journal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

var noon = time.Unix(1_700_000_000, 5)

// small is a journal of one segment with five chunks, as bytes.
func small() (file []byte, ends []uint64, positions []int) {
	file = appendHeader(nil, 0)
	var end uint64
	for _, n := range []uint64{1, 30, 2, 100, 7} {
		file = appendChunk(file, end, noon, pattern(end, end+n))
		end += n
		ends, positions = append(ends, end), append(positions, len(file))
	}
	return file, ends, positions
}

func TestCutAtEveryByte(t *testing.T) {
	file, ends, positions := small()
	for cut := range len(file) + 1 {
		dir := t.TempDir()
		path := segmentPath(dir, 0)
		if err := os.WriteFile(path, file[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		var want uint64
		size := int64(headerSize)
		for i, pos := range positions {
			if pos <= cut {
				want, size = ends[i], int64(pos)
			}
		}
		r := mustReader(t, dir)
		equal(t, "reader", readAll(t, r, 0, 50), pattern(0, want))
		closing(t, r)
		if info, err := os.Stat(path); err != nil || info.Size() != int64(cut) {
			t.Fatalf("cut at %d: the reader changed the file: %v", cut, err)
		}

		j := mustOpen(t, dir, Options{})
		equal(t, "journal", readAll(t, j, 0, 50), pattern(0, want))
		if info, err := os.Stat(path); err != nil || info.Size() != size {
			t.Fatalf("cut at %d: the torn tail stayed: %v", cut, err)
		}
		mustAppend(t, j, pattern(want, want+50), noon)
		closing(t, j)
		r = mustReader(t, dir)
		equal(t, "after more", readAll(t, r, 0, 50), pattern(0, want+50))
		closing(t, r)
	}
}

func TestNoFlippedBitIsEverRead(t *testing.T) {
	file, ends, _ := small()
	all := pattern(0, ends[len(ends)-1])
	for i := headerSize; i < len(file); i++ {
		bad := bytes.Clone(file)
		bad[i] ^= 0x10
		dir := t.TempDir()
		if err := os.WriteFile(segmentPath(dir, 0), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		r := mustReader(t, dir)
		got := readAll(t, r, 0, 64)
		if len(got) >= len(all) || !bytes.HasPrefix(all, got) || !slices.Contains(append(ends, 0), uint64(len(got))) {
			t.Fatalf("flip at %d: %d bytes", i, len(got))
		}
		err := r.Chunks(0, func(_ uint64, at time.Time, _ []byte) error {
			if !at.Equal(noon) {
				t.Errorf("flip at %d: time %v", i, at)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		closing(t, r)
	}
}

func TestDamageInTheMiddleIsTold(t *testing.T) {
	dir := t.TempDir()
	o := Options{SegmentBytes: 100, MaxBytes: 1000}
	j := mustOpen(t, dir, o)
	for end := uint64(0); end < 300; {
		end = mustAppend(t, j, pattern(end, end+50), noon)
	}
	closing(t, j)
	path := segmentPath(dir, 100)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	want := CorruptError{Path: path, Offset: 150, Next: 200}
	j = mustOpen(t, dir, o)
	defer closing(t, j)
	r := mustReader(t, dir)
	defer closing(t, r)
	buf := make([]byte, 300)
	for _, from := range []bytesAt{j, r} {
		n, err := from.ReadAt(buf, 0)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "before the damage", buf[:n], pattern(0, 150))
		var damaged *CorruptError
		if _, err := from.ReadAt(buf, 150); !errors.As(err, &damaged) || *damaged != want {
			t.Fatalf("%T: %v", from, err)
		}
		equal(t, "after the damage", readAll(t, from, damaged.Next, 300), pattern(200, 300))
	}
	var damaged *CorruptError
	if err := r.Chunks(0, func(uint64, time.Time, []byte) error { return nil }); !errors.As(err, &damaged) || *damaged != want {
		t.Fatal(err)
	}
}

func TestForeignAndTornHeaders(t *testing.T) {
	newer := appendHeader(nil, 0)
	newer[7] = 2
	var version *VersionError
	var damaged *CorruptError
	for name, c := range map[string]struct {
		file []byte
		as   any
	}{
		"newer version": {newer, &version},
		"not a segment": {bytes.Repeat([]byte("x"), 100), &damaged},
		"other start":   {appendHeader(nil, 9), &damaged},
		"zeros":         {make([]byte, 100), nil},
		"empty":         {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(segmentPath(dir, 0), c.file, 0o600); err != nil {
				t.Fatal(err)
			}
			r := mustReader(t, dir)
			_, readErr := r.ReadAt(make([]byte, 1), 0)
			closing(t, r)
			j, err := Open(dir, Options{})
			if c.as == nil {
				if readErr != io.EOF || err != nil {
					t.Fatal(readErr, err)
				}
				mustAppend(t, j, pattern(0, 5), noon)
				equal(t, "rewritten", readAll(t, j, 0, 9), pattern(0, 5))
				closing(t, j)
				return
			}
			if !errors.As(readErr, c.as) || !errors.As(err, c.as) {
				t.Fatal(readErr, err)
			}
		})
	}
}

// An empty chunk is none, even with the right checksum.
func TestEmptyChunkIsTorn(t *testing.T) {
	file := appendChunk(appendHeader(nil, 0), 0, noon, []byte("abc"))
	file = appendChunk(appendChunk(file, 3, noon, nil), 3, noon, []byte("def"))
	dir := t.TempDir()
	if err := os.WriteFile(segmentPath(dir, 0), file, 0o600); err != nil {
		t.Fatal(err)
	}
	r := mustReader(t, dir)
	equal(t, "reader", readAll(t, r, 0, 9), []byte("abc"))
	closing(t, r)
}

// A writer that can't finish a new segment takes it back and goes on with the
// last; a reader may have seen it.
func TestReaderSawASegmentThatWasTakenBack(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, Options{})
	defer closing(t, j)
	mustAppend(t, j, pattern(0, 10), noon)
	r := mustReader(t, dir)
	defer closing(t, r)
	mustAppend(t, j, pattern(10, 20), noon)
	phantom := segmentPath(dir, 20)
	if err := os.WriteFile(phantom, []byte(magic), 0o600); err != nil {
		t.Fatal(err)
	}
	equal(t, "with it", readAll(t, r, 0, 64), pattern(0, 20))
	if err := os.Remove(phantom); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, pattern(20, 30), noon)
	equal(t, "without it", readAll(t, r, 0, 64), pattern(0, 30))
}

func TestSecondWriterIsRefused(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, Options{})
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
	closing(t, j)
	closing(t, mustOpen(t, dir, Options{}))
}

func TestReaderNeedsAFolder(t *testing.T) {
	if _, err := OpenReader(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	r := mustReader(t, t.TempDir())
	if n, err := r.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF {
		t.Fatal(n, err)
	}
	closing(t, r)
}

func TestWait(t *testing.T) {
	j := mustOpen(t, t.TempDir(), Options{})
	ctx, cancel := context.WithCancel(context.Background())
	waiting := make(chan error)
	wait := func(off uint64) { waiting <- j.Wait(ctx, off) }

	go wait(0)
	mustAppend(t, j, []byte("abc"), noon)
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	go wait(3)
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	ctx = context.Background()
	go wait(3)
	closing(t, j)
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	// What is there can be drained after Close.
	if err := j.Wait(ctx, 2); err != nil {
		t.Fatal(err)
	}
	equal(t, "closed journal", readAll(t, j, 0, 2), []byte("abc"))
	if end, err := j.Append([]byte("d"), noon); end != 3 || !errors.Is(err, ErrClosed) {
		t.Fatal(end, err)
	}
	closing(t, j)
}

// The session goes on in a folder that was removed.
func TestFolderRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j := mustOpen(t, dir, Options{SegmentBytes: 100, MaxBytes: 1000})
	end := mustAppend(t, j, pattern(0, 50), noon)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for end < 1000 {
		end = mustAppend(t, j, pattern(end, end+50), noon)
	}
	equal(t, "removed", readAll(t, j, 0, 300), pattern(0, 1000))
	if at, err := j.Append(pattern(0, 50), noon); at != 1000 || !errors.Is(err, os.ErrNotExist) {
		t.Fatal(at, err)
	}
	closing(t, j)
}

// TestFollowingALiveWriter has readers of both kinds at the end of a journal
// that rotates and trims.
func TestFollowingALiveWriter(t *testing.T) {
	const total = 3 << 20
	dir := t.TempDir()
	j := mustOpen(t, dir, Options{SegmentBytes: 20_000, MaxBytes: 200_000})
	r := mustReader(t, dir)
	var wg sync.WaitGroup
	wg.Go(func() {
		for end, i := uint64(0), 0; end < total; i++ {
			var err error
			if end, err = j.Append(pattern(end, min(total, end+uint64(1+i*37%5000))), noon); err != nil {
				t.Error(err)
				break
			}
		}
		closing(t, j)
	})
	for range 2 {
		wg.Go(func() { follow(t, j, total, func(off uint64) { _ = j.Wait(context.Background(), off) }) })
	}
	wg.Go(func() { follow(t, r, total, func(uint64) { runtime.Gosched() }) })
	wg.Wait()
	closing(t, r)
}

func follow(t *testing.T, r bytesAt, total uint64, wait func(uint64)) {
	buf := make([]byte, 7000)
	for off := uint64(0); off < total; {
		n, err := r.ReadAt(buf, off)
		var trimmed *TrimmedError
		switch {
		case errors.As(err, &trimmed):
			off = trimmed.Start
		case err == io.EOF:
			wait(off)
		case err != nil:
			t.Errorf("%T at %d: %v", r, off, err)
			return
		case !bytes.Equal(buf[:n], pattern(off, off+uint64(n))):
			t.Errorf("%T at %d: wrong bytes", r, off)
			return
		}
		off += uint64(n)
	}
}

// A full default journal of lines is what a busy host holds.
func TestMemoryIsSmall(t *testing.T) {
	j := mustOpen(t, t.TempDir(), Options{})
	line := pattern(0, 2000)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // twice, as pools keep things for one
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range (66 << 20) / len(line) {
		mustAppend(t, j, line, noon)
	}
	if after := heap(); after > before+256<<10 {
		t.Errorf("a full journal takes %d KiB", (after-before)>>10)
	}
	start, end := j.Bounds()
	if start == 0 || end-start > 64<<20 || end-start < 63<<20-64<<10 {
		t.Errorf("bounds %d, %d", start, end)
	}
	closing(t, j)
}

func BenchmarkAppend(b *testing.B) {
	j := mustOpen(b, b.TempDir(), Options{})
	p := pattern(0, 4096)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		mustAppend(b, j, p, noon)
	}
	closing(b, j)
}

func BenchmarkReadAtTail(b *testing.B) {
	j := mustOpen(b, b.TempDir(), Options{})
	end := uint64(0)
	for range 10_000 {
		end = mustAppend(b, j, pattern(0, 80), noon)
	}
	p := make([]byte, 80)
	for b.Loop() {
		if n, err := j.ReadAt(p, end-80); n != 80 || err != nil {
			b.Fatal(n, err)
		}
	}
	closing(b, j)
}

func BenchmarkReadThrough(b *testing.B) {
	j := mustOpen(b, b.TempDir(), Options{})
	end := uint64(0)
	for range 8 << 20 / 512 {
		end = mustAppend(b, j, pattern(0, 512), noon)
	}
	p := make([]byte, 32<<10)
	b.SetBytes(int64(end))
	for b.Loop() {
		for off := uint64(0); off < end; {
			n, err := j.ReadAt(p, off)
			if err != nil {
				b.Fatal(err)
			}
			off += uint64(n)
		}
	}
	closing(b, j)
}
