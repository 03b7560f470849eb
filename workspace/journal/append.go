package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Append adds p to the end, as printed at the time given, and returns the new
// end. It writes to the operating system before it returns, so a crash of this
// process loses nothing that was appended; a power cut may.
//
// After an error (the disk is full) the end tells how much of p was taken: the
// journal is whole up to there, and a later Append tries again.
func (j *Journal) Append(p []byte, at time.Time) (end uint64, err error) {
	j.appending.Lock()
	defer j.appending.Unlock()
	for len(p) > 0 && err == nil {
		part := p[:min(len(p), maxChunk)]
		p = p[len(part):]
		err = j.appendChunk(part, at)
	}
	if err == nil {
		err = j.openError()
	}
	_, end = j.Bounds()
	return end, err
}

func (j *Journal) openError() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	return nil
}

// appendChunk writes one chunk and then shows it to readers. Only appending is
// held: the last segment is changed by nobody else, so it can be read without mu.
func (j *Journal) appendChunk(data []byte, at time.Time) error {
	if err := j.openError(); err != nil {
		return err
	}
	if err := j.makeRoom(len(data)); err != nil {
		return fmt.Errorf("start journal segment: %w", err)
	}
	s := j.segments[len(j.segments)-1]
	j.scratch = appendChunk(j.scratch[:0], s.tail.off, at, data)
	if _, err := j.active.WriteAt(j.scratch, s.tail.pos); err != nil {
		// The next chunk goes over what came of this one. Cutting it off only
		// gives the space back, so it may fail too.
		_ = j.active.Truncate(s.tail.pos)
		return fmt.Errorf("append to journal: %w", err)
	}
	j.mu.Lock()
	s.grow(len(data))
	j.wake()
	j.mu.Unlock()
	j.trim()
	return nil
}

// makeRoom starts a new segment if the last one is full. Where none can be
// made, since the folder is gone or the disk is full, the last one goes on up to
// MaxBytes: it is open, and the session's output matters more than its size.
func (j *Journal) makeRoom(n int) error {
	s := j.segments[len(j.segments)-1]
	after := cost(s.tail.off-s.start+uint64(n), s.tail.pos+chunkHeader+int64(n))
	if s.tail.off == s.start || after <= j.options.SegmentBytes {
		return nil
	}
	err := j.rotate(s.tail.off)
	if err != nil && after <= j.options.MaxBytes {
		return nil
	}
	return err
}

// rotate makes the segment at start the last one.
func (j *Journal) rotate(start uint64) error {
	path := segmentPath(j.dir, start)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(appendHeader(nil, start), 0); err != nil {
		// Left behind, it would end the segment before it where that goes on.
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	j.mu.Lock()
	old := j.active
	j.active = f
	j.segments = append(j.segments, newSegment(start))
	j.mu.Unlock()
	_ = old.Close() // write(2) has taken everything; what the disk says now helps nobody
	return nil
}

// trim removes the oldest segments while there is more than MaxBytes.
func (j *Journal) trim() {
	var total int64
	for _, s := range j.segments {
		total += s.cost()
	}
	for len(j.segments) > 1 && total > j.options.MaxBytes {
		oldest := j.segments[0]
		total -= oldest.cost()
		// Readers learn of it first, so that one who misses the file finds out why.
		j.mu.Lock()
		j.segments = slices.Delete(j.segments, 0, 1)
		j.mu.Unlock()
		err := os.Remove(segmentPath(j.dir, oldest.start))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			// It must come back: a hole between it and the rest would read as damage.
			j.mu.Lock()
			j.segments = slices.Insert(j.segments, 0, oldest)
			j.mu.Unlock()
			return
		}
	}
}
