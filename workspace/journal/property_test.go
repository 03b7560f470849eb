package journal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// modelChunk is a chunk that the journal must have, with its time.
type modelChunk struct {
	off, end uint64
	at       time.Time
}

// model drives a journal and knows what it must hold.
type model struct {
	dir     string
	options Options
	j       *Journal
	r       *Reader // opened at some time, follows
	start   uint64
	end     uint64
	chunks  []modelChunk
	clock   int64
}

func (m *model) append(t *rapid.T) {
	size := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 2000), rapid.IntRange(maxChunk-1, 2*maxChunk+1)).Draw(t, "size")
	m.clock += rapid.Int64Range(-5, 1e9).Draw(t, "tick") // clocks also go back
	at := time.Unix(0, m.clock)
	end := mustAppend(t, m.j, pattern(m.end, m.end+uint64(size)), at)
	if end != m.end+uint64(size) {
		t.Fatalf("append %d bytes at %d: end %d", size, m.end, end)
	}
	for off := m.end; off < end; off += maxChunk {
		m.chunks = append(m.chunks, modelChunk{off, min(off+maxChunk, end), at})
	}
	m.end = end
	m.trimmed(t)
}

// trimmed checks that what went was old, and no more than it had to be.
func (m *model) trimmed(t *rapid.T) {
	start, end := m.j.Bounds()
	if start < m.start || end != m.end {
		t.Fatalf("bounds %d, %d after %d, %d", start, end, m.start, m.end)
	}
	slack := m.options.MaxBytes/4 + maxChunk
	if start > m.start && int64(end-start) < m.options.MaxBytes-slack && m.disk(t)/2 < m.options.MaxBytes-slack {
		t.Fatalf("trimmed to %d bytes though %d may stay", end-start, m.options.MaxBytes)
	}
	if int64(end-start) > max(m.options.MaxBytes, maxChunk) {
		t.Fatalf("%d bytes though only %d may stay", end-start, m.options.MaxBytes)
	}
	m.start = start
}

func (m *model) disk(t *rapid.T) (total int64) {
	found, err := starts(m.dir)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, s := range found {
		if info, err := os.Stat(segmentPath(m.dir, s)); err == nil {
			total += info.Size()
		}
	}
	return total
}

func (m *model) read(t *rapid.T) {
	off := rapid.Uint64Range(0, m.end+10).Draw(t, "off")
	p := make([]byte, rapid.IntRange(1, 3*maxChunk).Draw(t, "len"))
	for name, r := range map[string]bytesAt{"journal": m.j, "reader": m.r} {
		if name == "reader" {
			m.r.Bounds() // so that it knows of trimming
		}
		n, err := r.ReadAt(p, off)
		var trimmed *TrimmedError
		switch {
		case off < m.start:
			if !errors.As(err, &trimmed) || trimmed.Start != m.start || n != 0 {
				t.Fatalf("%s: read at %d before %d: %d, %v", name, off, m.start, n, err)
			}
		case off >= m.end:
			if err != io.EOF || n != 0 {
				t.Fatalf("%s: read at %d past %d: %d, %v", name, off, m.end, n, err)
			}
		default:
			want := pattern(off, min(m.end, off+uint64(len(p))))
			if err != nil {
				t.Fatalf("%s: read at %d: %v", name, off, err)
			}
			equal(t, name, p[:n], want)
		}
	}
}

func (m *model) readChunks(t *rapid.T) {
	from := rapid.Uint64Range(m.start, m.end).Draw(t, "from")
	next := from
	i := 0
	err := m.r.Chunks(from, func(off uint64, at time.Time, data []byte) error {
		for m.chunks[i].end <= off {
			i++
		}
		c := m.chunks[i]
		if off != next || off < c.off || off+uint64(len(data)) != c.end || !at.Equal(c.at) {
			t.Fatalf("chunk %d+%d at %v, want %d of %+v", off, len(data), at, next, c)
		}
		equal(t, "chunk", data, pattern(off, c.end))
		next = c.end
		return nil
	})
	if err != nil || next != m.end {
		t.Fatalf("chunks from %d stopped at %d of %d: %v", from, next, m.end, err)
	}
}

func (m *model) reopen(t *rapid.T) {
	if err := m.j.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	m.j = mustOpen(t, m.dir, m.options)
}

func (m *model) newReader(t *rapid.T) {
	if err := m.r.Close(); err != nil {
		t.Fatalf("close reader: %v", err)
	}
	m.r = mustReader(t, m.dir)
}

// crash ends the writer and cuts the last segment anywhere, its header too,
// or leaves garbage after the cut.
func (m *model) crash(t *rapid.T) {
	if err := m.j.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	found, err := starts(m.dir)
	if err != nil {
		t.Fatalf("%v", err)
	}
	last := found[len(found)-1]
	path := segmentPath(m.dir, last)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v", err)
	}
	cut := rapid.IntRange(0, len(b)).Draw(t, "cut")
	if cut >= headerSize { // nothing is written after a torn header
		garbage := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "garbage")
		if cut < len(b) && len(garbage) > 0 && garbage[0] == b[cut] {
			garbage[0]++ // or it might make the chunk that was cut whole again
		}
		b = append(b[:cut:cut], garbage...)
	} else {
		b = b[:cut]
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatalf("%v", err)
	}
	m.forget(last, cut)
	m.newReader(t) // one of the dead journal sees the same
	if start, end := m.r.Bounds(); start != m.start || end != m.end {
		t.Fatalf("reader of the torn journal: %d, %d, want %d, %d", start, end, m.start, m.end)
	}
	m.j = mustOpen(t, m.dir, m.options)
	if start, end := m.j.Bounds(); start != m.start || end != m.end {
		t.Fatalf("torn journal: %d, %d, want %d, %d", start, end, m.start, m.end)
	}
}

// forget drops the chunks that a cut of the last segment took.
func (m *model) forget(last uint64, cut int) {
	pos, keep := int64(headerSize), len(m.chunks)
	for i, c := range m.chunks {
		if c.off < last {
			continue
		}
		pos += chunkHeader + int64(c.end-c.off)
		if pos > int64(cut) {
			keep = i
			break
		}
	}
	m.chunks = m.chunks[:keep]
	m.end = last
	if keep > 0 {
		m.end = max(last, m.chunks[keep-1].end)
	}
}

func (m *model) whole(t *rapid.T) {
	size := rapid.SampledFrom([]int{777, 32 << 10, 100_000}).Draw(t, "read size")
	equal(t, "journal", readAll(t, m.j, m.start, size), pattern(m.start, m.end))
	m.r.Bounds()
	equal(t, "reader", readAll(t, m.r, m.start, size), pattern(m.start, m.end))
}

func TestModel(t *testing.T) {
	parent := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(parent, "")
		if err != nil {
			t.Fatalf("%v", err)
		}
		m := &model{dir: filepath.Join(dir, "journal"), options: Options{
			SegmentBytes: rapid.Int64Range(1, 50_000).Draw(t, "segment"),
			MaxBytes:     rapid.Int64Range(1000, 400_000).Draw(t, "max"),
		}}
		m.j = mustOpen(t, m.dir, m.options)
		m.r = mustReader(t, m.dir)
		defer func() { _, _ = m.j.Close(), m.r.Close(); _ = os.RemoveAll(dir) }()
		t.Repeat(map[string]func(*rapid.T){
			"append": m.append, "append more": m.append, "read": m.read, "chunks": m.readChunks,
			"reopen": m.reopen, "new reader": m.newReader, "crash": m.crash, "whole": m.whole,
		})
	})
}
