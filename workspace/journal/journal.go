package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Options bound a journal. Zero or less means the default.
type Options struct {
	SegmentBytes int64 // a segment is full at so many bytes of output; 1 MiB, and at most a quarter of MaxBytes
	MaxBytes     int64 // the oldest segments go once there is more output than this; 64 MiB
}

func (o Options) orDefaults() Options {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 1 << 20
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	// Whole segments go, so several must fit, or little would be left.
	o.SegmentBytes = max(1, min(o.SegmentBytes, o.MaxBytes/4))
	return o
}

// A Journal is the writer of a folder, and reads it too. All methods are safe
// for concurrent use; a reader never waits for the disk on account of the
// writer or of another reader.
type Journal struct {
	dir     string
	options Options
	lock    *os.File // the folder, flocked; nil where that can't be had

	// appending orders writers and is held while they write. It is taken before mu.
	appending sync.Mutex
	scratch   []byte // one encoded chunk

	mu       sync.Mutex // guards what follows; never held over disk access
	segments []*segment
	active   *os.File      // the last segment; nil once closed
	grown    chan struct{} // closed at the next append or Close; nil while nobody waits
	closed   bool
}

// Open opens the journal of a folder for writing, and makes both if they aren't
// there. Anything after the last whole chunk, which a writer left that was
// killed, is cut off. The error wraps [ErrLocked] if another writer is at work
// and may be a [*VersionError] or a [*CorruptError].
func Open(dir string, o Options) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make journal: %w", err)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("lock journal %s: %w", dir, err)
	}
	j := &Journal{dir: dir, options: o.orDefaults(), lock: lock}
	if err := j.load(); err != nil {
		j.unlock()
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return j, nil
}

// lockFolder keeps a second writer out. A file system that can't lock a folder
// gives no lock and no error: the session matters more.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	closeErr := f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrLocked
	}
	return nil, closeErr
}

func (j *Journal) unlock() {
	if j.lock != nil {
		_ = j.lock.Close() // nothing was written through it
	}
}

// load finds the segments and takes in the last; earlier ones are looked into
// when they are read.
func (j *Journal) load() error {
	found, err := starts(j.dir)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		found = []uint64{0}
	}
	for i, start := range found {
		s := newSegment(start)
		if i+1 < len(found) {
			if err := s.measure(j.dir, found[i+1]); err != nil {
				return err
			}
		}
		j.segments = append(j.segments, s)
	}
	return j.repair(j.segments[len(j.segments)-1])
}

// measure sets the tail of a segment that another follows, without reading it.
func (s *segment) measure(dir string, next uint64) error {
	info, err := os.Stat(segmentPath(dir, s.start))
	if err != nil {
		return err
	}
	s.tail = mark{next, info.Size()}
	return nil
}

// repair opens the last segment for writing, cut back to whole chunks.
func (j *Journal) repair(s *segment) error {
	path := segmentPath(j.dir, s.start)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := cutBack(f, path, s); err != nil {
		_ = f.Close() // the error that counts is err
		return err
	}
	j.active = f
	return nil
}

func cutBack(f *os.File, path string, s *segment) error {
	err := checkHeader(f, path, s.start)
	if errors.Is(err, errTorn) {
		// Chunks come after a header, so there are none to lose.
		if err := f.Truncate(0); err != nil {
			return fmt.Errorf("cut torn segment: %w", err)
		}
		_, err := f.WriteAt(appendHeader(nil, s.start), 0)
		return err
	}
	if err != nil {
		return err
	}
	if err := s.extend(f); err != nil {
		return err
	}
	if err := f.Truncate(s.tail.pos); err != nil {
		return fmt.Errorf("cut torn tail: %w", err)
	}
	return nil
}

// Bounds returns the offset of the oldest byte and the one after the newest.
func (j *Journal) Bounds() (start, end uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return bounds(j.segments)
}

func bounds(segments []*segment) (start, end uint64) {
	if len(segments) == 0 {
		return 0, 0
	}
	return segments[0].start, segments[len(segments)-1].tail.off
}

// Grown is closed once the journal has a byte at off, or has none and never will, which over tells. Whoever waits for
// more than the journal selects on it.
func (j *Journal) Grown(off uint64) (grown <-chan struct{}, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, end := bounds(j.segments); end > off {
		return closed, false
	}
	if j.closed {
		return closed, true
	}
	if j.grown == nil {
		j.grown = make(chan struct{})
	}
	return j.grown, false
}

// closed is a channel that never lets anybody wait.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Wait returns nil once the journal has a byte at off, or ErrClosed once it is
// closed without one.
func (j *Journal) Wait(ctx context.Context, off uint64) error {
	for {
		grown, over := j.Grown(off)
		if over {
			return ErrClosed
		}
		if grown == closed {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-grown:
		}
	}
}

// wake lets go whoever waits; mu is held.
func (j *Journal) wake() {
	if j.grown != nil {
		close(j.grown)
		j.grown = nil
	}
}

// Close ends the journal after syncing it to the disk. What was appended can
// still be read. A second Close does nothing.
func (j *Journal) Close() error {
	j.appending.Lock()
	defer j.appending.Unlock()
	j.mu.Lock()
	f, closed := j.active, j.closed
	j.active, j.closed = nil, true
	j.wake()
	j.mu.Unlock()
	if closed {
		return nil
	}
	defer j.unlock()
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}
