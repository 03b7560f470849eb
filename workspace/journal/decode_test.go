package journal

import (
	"bytes"
	"flag"
	"io"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update-vectors", false, "write testdata/v1; only before version 1 is released")

// The committed journal of version 1 reads as it always has.
func TestVectors(t *testing.T) {
	const dir = "testdata/v1"
	if *update {
		writeVectors(t, dir)
	}
	r := mustReader(t, dir)
	defer closing(t, r)
	if start, end := r.Bounds(); start != 0 || end != 160 {
		t.Fatalf("bounds %d, %d", start, end)
	}
	equal(t, "vectors", readAll(t, r, 0, 33), pattern(0, 160))
	i := uint64(0)
	err := r.Chunks(0, func(off uint64, at time.Time, data []byte) error {
		if off != i*40 || len(data) != 40 || !at.Equal(noon.Add(time.Duration(i)*time.Second)) {
			t.Errorf("chunk %d: %d+%d at %v", i, off, len(data), at)
		}
		i++
		return nil
	})
	if err != nil || i != 4 {
		t.Fatalf("%d chunks, %v", i, err)
	}
}

func writeVectors(t *testing.T, dir string) {
	t.Helper()
	j := mustOpen(t, dir, Options{SegmentBytes: 100, MaxBytes: 1000})
	for i := range uint64(5) {
		mustAppend(t, j, pattern(i*40, i*40+40), noon.Add(time.Duration(i)*time.Second))
	}
	closing(t, j)
	// The fifth chunk, alone in its segment, is torn.
	if err := os.Truncate(segmentPath(dir, 160), headerSize+30); err != nil {
		t.Fatal(err)
	}
}

// FuzzDecode: whatever a segment holds, the chunks read are exactly what a
// writer would have written, up to the first byte that isn't, and a writer that
// opens it keeps those and goes on.
func FuzzDecode(f *testing.F) {
	file, _, _ := small()
	f.Add(file)
	f.Add(file[:len(file)-3])
	f.Add(append(bytes.Clone(file), make([]byte, 64)...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		var stream []byte
		again := []byte{}
		body := file[min(headerSize, len(file)):]
		sc := scan(io.NewSectionReader(bytes.NewReader(body), 0, int64(len(body))), mark{})
		for {
			c, err := sc.next()
			if err != nil {
				break
			}
			again = appendChunk(again, c.off, c.at, c.data)
			stream = append(stream, c.data...)
		}
		sc.release()
		if !bytes.HasPrefix(body, again) {
			t.Fatal("what was read isn't what is there")
		}

		dir := t.TempDir()
		if err := os.WriteFile(segmentPath(dir, 0), file, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(dir, Options{})
		if err != nil {
			return // a header of something else
		}
		defer closing(t, j)
		if err := checkHeader(bytes.NewReader(file), "", 0); err != nil {
			stream = nil // torn: nothing follows
		}
		equal(t, "opened", readAll(t, j, 0, 4096), stream)
		mustAppend(t, j, []byte("more"), noon)
		equal(t, "after more", readAll(t, j, 0, 4096), append(stream, "more"...))
	})
}
