package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// place is what a read without mu needs to know of a segment.
type place struct {
	segment *segment
	file    *os.File // the last segment's, nil for any other
	from    mark
	end     uint64
	last    bool
}

// ReadAt reads what was appended from off on. It fills p unless the journal ends
// first; at the end it returns io.EOF, before the beginning a [*TrimmedError].
// It never returns both bytes and an error.
func (j *Journal) ReadAt(p []byte, off uint64) (int, error) {
	n := 0
	var before place
	for n < len(p) {
		at, err := j.place(off + uint64(n))
		if err != nil {
			return result(n, err)
		}
		m, err := j.readPlace(at, p[n:], off+uint64(n))
		n += m
		// The file went from under the read. If the journal has moved on since,
		// it knows better now; if not, somebody else took the file.
		moved := at.segment != before.segment || at.file != before.file
		if gone(err) && moved {
			before = at
			continue
		}
		if err != nil {
			return result(n, fmt.Errorf("read journal at %d: %w", off+uint64(n), err))
		}
	}
	return n, nil
}

// result keeps an error for the next read where this one has bytes.
func result(n int, err error) (int, error) {
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// gone says whether an error comes of a file closed by rotation or removed by trimming.
func gone(err error) bool { return errors.Is(err, fs.ErrClosed) || errors.Is(err, fs.ErrNotExist) }

func (j *Journal) place(off uint64) (place, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	start, end := bounds(j.segments)
	switch {
	case off < start:
		return place{}, &TrimmedError{Start: start}
	case off >= end:
		return place{}, io.EOF
	}
	i := locate(j.segments, off)
	s := j.segments[i]
	at := place{segment: s, from: s.find(off), end: s.tail.off}
	if i == len(j.segments)-1 {
		at.file, at.last = j.active, true
	}
	return at, nil
}

func (j *Journal) readPlace(at place, p []byte, off uint64) (int, error) {
	path := segmentPath(j.dir, at.segment.start)
	f := at.file
	if f == nil {
		opened, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		defer opened.Close()
		f = opened
	}
	n, err := copyChunks(f, at.from, off, at.end, p, func(m mark) {
		j.mu.Lock()
		at.segment.note(m)
		j.mu.Unlock()
	})
	if errors.Is(err, errTorn) {
		damaged := &CorruptError{Path: path, Offset: off + uint64(n)}
		if !at.last {
			damaged.Next = at.end
		}
		return n, damaged
	}
	return n, err
}
