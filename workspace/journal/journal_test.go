package journal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func readAll(t interface{ Fatalf(string, ...any) }, at func([]byte, uint64) (int, error), from uint64) []byte {
	var out []byte
	buf := make([]byte, 777)
	for {
		n, err := at(buf, from)
		out = append(out, buf[:n]...)
		from += uint64(n)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("read at %d: %v", from, err)
		}
	}
}

func TestAppendsComeBackFromAnyOffset(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		folder, err := os.MkdirTemp(dir, "j")
		if err != nil {
			rt.Fatal(err)
		}
		var want []byte
		for range rapid.IntRange(1, 3).Draw(rt, "writers") {
			j, err := Open(folder, Options{SegmentBytes: 100})
			if err != nil {
				rt.Fatal(err)
			}
			for _, p := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 1, 250)).Draw(rt, "chunks") {
				want = append(want, p...)
				if end, err := j.Append(p, time.Now()); err != nil || end != uint64(len(want)) {
					rt.Fatalf("append: %d, %v", end, err)
				}
			}
			from := rapid.Uint64Range(0, uint64(len(want))).Draw(rt, "from")
			if got := readAll(rt, j.ReadAt, from); !bytes.Equal(got, want[from:]) {
				rt.Fatalf("from %d: %q, want %q", from, got, want[from:])
			}
			j.Close()
		}
		r, err := OpenReader(folder)
		if err != nil {
			rt.Fatal(err)
		}
		defer r.Close()
		var got []byte
		err = r.Chunks(0, func(off uint64, _ time.Time, p []byte) error {
			if off != uint64(len(got)) {
				rt.Fatalf("chunk at %d, want %d", off, len(got))
			}
			got = append(got, p...)
			return nil
		})
		if err != nil || !bytes.Equal(got, want) {
			rt.Fatalf("chunks: %v", err)
		}
	})
}

func TestTornAtEveryByte(t *testing.T) {
	src := t.TempDir()
	j, err := Open(src, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"one", "two", "three"} {
		if _, err := j.Append([]byte(p), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	whole, err := os.ReadFile(filepath.Join(src, segmentName(0)))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) + 1 {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, segmentName(0)), whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(dir, Options{})
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		_, before := j.Bounds()
		if !bytes.HasPrefix([]byte("onetwothree"), readAll(t, j.ReadAt, 0)) {
			t.Errorf("cut at %d: wrong bytes", n)
		}
		if end, err := j.Append([]byte("more"), time.Now()); err != nil || end != before+4 {
			t.Errorf("cut at %d: append: %d, %v", n, end, err)
		}
		j.Close()
	}
}

func TestTrimmedFromTheOldEndAndSaid(t *testing.T) {
	j, err := Open(t.TempDir(), Options{SegmentBytes: 10, MaxBytes: 30})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for range 20 {
		if _, err := j.Append([]byte("0123456789"), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	start, end := j.Bounds()
	if end != 200 || start == 0 || end-start > 40 {
		t.Errorf("bounds %d to %d", start, end)
	}
	var trimmed *TrimmedError
	if _, err := j.ReadAt(make([]byte, 1), 0); !errors.As(err, &trimmed) || trimmed.Start != start {
		t.Errorf("read at 0: %v", err)
	}
}

func TestWait(t *testing.T) {
	j, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan error, 1)
	go func() { woken <- j.Wait(context.Background(), 0) }()
	if _, err := j.Append([]byte("x"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := <-woken; err != nil {
		t.Error(err)
	}
	go func() { woken <- j.Wait(context.Background(), 1) }()
	j.Close()
	if err := <-woken; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("PRDJ\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, segment []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, segmentName(0)), segment, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := OpenReader(dir)
		if err != nil {
			return
		}
		defer r.Close()
		start, end := r.Bounds()
		if got := readAll(t, r.ReadAt, start); uint64(len(got)) != end-start {
			t.Errorf("%d bytes between %d and %d", len(got), start, end)
		}
	})
}
