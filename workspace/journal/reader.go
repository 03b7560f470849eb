package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// A Reader reads a journal that another process may be writing, or that nobody
// writes any more, and disturbs neither. It follows a live writer: what it
// says of the end is as new as the call. It isn't safe for concurrent use.
type Reader struct {
	dir      string
	segments []*segment
	file     *os.File // the segment last read, at fileStart
	at       uint64
	damage   error // why the last segment can't be read at all
}

// OpenReader opens the journal of a folder, which must be there but may be
// empty.
func OpenReader(dir string) (*Reader, error) {
	r := &Reader{dir: dir}
	if err := r.refresh(); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return r, nil
}

// refresh takes in what the writer did since: new segments, trimmed ones, and
// growth of the last.
func (r *Reader) refresh() error {
	found, err := starts(r.dir)
	if err != nil {
		return err
	}
	known := map[uint64]*segment{}
	for _, s := range r.segments {
		known[s.start] = s
	}
	segments := make([]*segment, 0, len(found))
	for i, start := range found {
		s := known[start]
		if s == nil {
			s = newSegment(start)
		}
		s.next = 0
		if i+1 < len(found) {
			s.next = found[i+1]
		}
		segments = append(segments, s)
	}
	r.segments = segments
	if len(segments) == 0 {
		return nil
	}
	return r.follow(segments[len(segments)-1])
}

// follow takes in the last segment's new chunks. If the segment is none, what
// comes before it can be read all the same, and the end tells.
func (r *Reader) follow(s *segment) error {
	f, err := r.open(s)
	var damaged *CorruptError
	var foreign *VersionError
	r.damage = nil
	switch {
	case errors.Is(err, errTorn) || errors.Is(err, fs.ErrNotExist):
		return nil // the writer is just making it, or has just trimmed it
	case errors.As(err, &damaged) || errors.As(err, &foreign):
		r.damage = err
		return nil
	case err != nil:
		return err
	}
	return s.extend(f)
}

// open returns the segment's file, its header checked. One file stays open.
func (r *Reader) open(s *segment) (*os.File, error) {
	if r.file != nil && r.at == s.start {
		return r.file, nil
	}
	path := segmentPath(r.dir, s.start)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := checkHeader(f, path, s.start); err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	if r.file != nil {
		_ = r.file.Close() // it was only read
	}
	r.file, r.at = f, s.start
	return f, nil
}

// Bounds returns the offset of the oldest byte and the one after the newest, as
// they are now. Where the folder can't be read any more, they are the last known.
func (r *Reader) Bounds() (start, end uint64) {
	_ = r.refresh() // ReadAt and Chunks report it
	return bounds(r.segments)
}

// ReadAt reads from off on, as [Journal.ReadAt] does. The error may also be a
// [*CorruptError].
func (r *Reader) ReadAt(p []byte, off uint64) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	if _, end := bounds(r.segments); off+uint64(len(p)) > end {
		if err := r.refresh(); err != nil {
			return 0, fmt.Errorf("read journal: %w", err)
		}
	}
	for n < len(p) {
		m, err := r.readSome(p[n:], off+uint64(n))
		n += m
		if err != nil {
			return result(n, err)
		}
	}
	return n, nil
}

// readSome reads from one segment.
func (r *Reader) readSome(p []byte, off uint64) (int, error) {
	i, err := r.locate(off)
	if err != nil {
		return 0, err
	}
	s := r.segments[i]
	f, err := r.open(s)
	if err != nil {
		return 0, r.explain(err, i, off)
	}
	n, err := copyChunks(f, s.find(off), off, s.end(), p, s.note)
	if err != nil {
		return n, r.explain(err, i, off+uint64(n))
	}
	return n, nil
}

// locate returns the index of the segment that has off.
func (r *Reader) locate(off uint64) (int, error) {
	start, end := bounds(r.segments)
	switch {
	case off < start:
		return 0, &TrimmedError{Start: start}
	case off >= end && r.damage != nil:
		return 0, r.damage
	case off >= end:
		return 0, io.EOF
	}
	return locate(r.segments, off), nil
}

// explain makes a caller's error of one met in segment i at off.
func (r *Reader) explain(err error, i int, off uint64) error {
	s := r.segments[i]
	var damaged *CorruptError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Most likely trimmed since the last look.
		if refreshErr := r.refresh(); refreshErr != nil {
			return fmt.Errorf("read journal: %w", refreshErr)
		}
		if start, _ := bounds(r.segments); off < start {
			return &TrimmedError{Start: start}
		}
	case errors.Is(err, errTorn):
		damaged = &CorruptError{Path: segmentPath(r.dir, s.start), Offset: off}
	case !errors.As(err, &damaged):
		return fmt.Errorf("read journal at %d: %w", off, err)
	}
	if damaged == nil {
		return fmt.Errorf("read journal at %d: %w", off, err)
	}
	if i+1 < len(r.segments) {
		damaged.Next = r.segments[i+1].start
	}
	return damaged
}

// Chunks calls fn for each chunk from the offset on, up to the end as it was at
// the call, with the time at which it was appended. A chunk that begins before
// from is given from there. data is fn's only until it returns; an error of fn
// ends the call and is returned as it is. fn must not use the Reader.
func (r *Reader) Chunks(from uint64, fn func(off uint64, at time.Time, data []byte) error) error {
	if err := r.refresh(); err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	_, end := bounds(r.segments)
	for from < end {
		i, err := r.locate(from)
		if err != nil {
			return err
		}
		s := r.segments[i]
		f, err := r.open(s)
		if err != nil {
			return r.explain(err, i, from)
		}
		if from, err = r.segmentChunks(f, i, from, fn); err != nil {
			return err
		}
	}
	if start, _ := bounds(r.segments); from < start {
		return &TrimmedError{Start: start}
	}
	return r.damage
}

// segmentChunks calls fn for one segment's chunks and returns where it ends.
func (r *Reader) segmentChunks(f *os.File, i int, from uint64, fn func(uint64, time.Time, []byte) error) (uint64, error) {
	s := r.segments[i]
	sc := scan(f, s.find(from))
	defer sc.release()
	for from < s.end() {
		c, err := sc.next()
		if errors.Is(err, io.EOF) {
			err = errTorn
		}
		if err != nil {
			return from, r.explain(err, i, from)
		}
		s.note(c.mark)
		if c.end() <= from {
			continue
		}
		if err := fn(from, c.at, c.data[from-c.off:]); err != nil {
			return from, err
		}
		from = c.end()
	}
	return from, nil
}

// Close closes the file that is open.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}
