package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Reader reads a journal that another process writes, or that nobody writes any more. It disturbs neither.
type Reader struct {
	segments []*segment
	file     *os.File
	path     string
}

// OpenReader opens the journal of a folder for reading, as far as it goes now.
func OpenReader(dir string) (*Reader, error) {
	names, err := list(dir)
	if err != nil {
		return nil, fmt.Errorf("list the journal: %w", err)
	}
	if len(names) == 0 {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("open the journal: %w", err)
		}
	}
	r := &Reader{}
	for i, name := range names {
		s, err := load(name)
		switch {
		case err == nil:
			r.segments = append(r.segments, s)
		case errors.Is(err, os.ErrNotExist): // trimmed meanwhile
		case i == len(names)-1: // its header is being written
		default:
			return nil, fmt.Errorf("open the journal: %w", err)
		}
	}
	return r, nil
}

// Bounds are the oldest offset and the end, as they were when the reader was opened.
func (r *Reader) Bounds() (start, end uint64) { return bounds(r.segments) }

// ReadAt is Journal.ReadAt.
func (r *Reader) ReadAt(p []byte, off uint64) (int, error) { return readAt(r.segments, r.open, p, off) }

func (r *Reader) open(s *segment) (*os.File, error) {
	if r.path == s.path {
		return r.file, nil
	}
	f, err := os.Open(s.path)
	if err != nil {
		return nil, err
	}
	r.Close()
	r.file, r.path = f, s.path
	return f, nil
}

// Close closes the files.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file, r.path = nil, ""
	return f.Close()
}

// Chunks calls fn for each chunk from an offset on, with the time at which it was printed. data is fn's only for
// the call.
func (r *Reader) Chunks(from uint64, fn func(off uint64, at time.Time, data []byte) error) error {
	start, _ := r.Bounds()
	if from < start {
		return &TrimmedError{Start: start}
	}
	var buf []byte
	for _, s := range r.segments {
		if s.end <= from {
			continue
		}
		f, err := r.open(s)
		if err != nil {
			return fmt.Errorf("read the journal: %w", err)
		}
		for m := s.find(from); m.off < s.end; {
			c, err := readChunk(f, m.pos)
			if err != nil {
				return fmt.Errorf("read the journal at %d: %w", m.off, err)
			}
			if cap(buf) < int(c.n) {
				buf = make([]byte, c.n)
			}
			data := buf[:c.n]
			if _, err := f.ReadAt(data, m.pos+chunkHeader); err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read the journal at %d: %w", m.off, err)
			}
			next := m.off + uint64(c.n)
			if next > from {
				skip := uint64(0)
				if from > m.off {
					skip = from - m.off
				}
				if err := fn(m.off+skip, c.at, data[skip:]); err != nil {
					return err
				}
			}
			m = mark{next, m.pos + chunkHeader + int64(c.n)}
		}
	}
	return nil
}
