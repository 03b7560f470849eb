package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options bound a journal; zero means the default.
type Options struct {
	SegmentBytes int64 // a new segment begins after so many bytes of output (1 MiB)
	MaxBytes     int64 // old segments are removed so that at most so many bytes of output stay (64 MiB)
}

// ErrClosed is what Wait returns once the journal has no more to come.
var ErrClosed = errors.New("journal closed")

// TrimmedError says that the bytes asked for were trimmed; Start is the oldest offset there is.
type TrimmedError struct{ Start uint64 }

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("trimmed: the journal begins at %d", e.Start)
}

const (
	headerSize   = 16 // magic, version, start offset
	chunkHeader  = 16 // length, CRC-32C, time
	maxChunk     = 1 << 20
	version      = 1
	indexSpacing = 64 << 10 // one index entry each so many bytes
)

var (
	magic      = [4]byte{'P', 'R', 'D', 'J'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// mark is where a chunk begins: the output offset, and the position in the file.
type mark struct {
	off uint64
	pos int64
}

// segment is one file. marks are sparse, so that memory stays small.
type segment struct {
	path       string
	start, end uint64
	size       int64 // bytes of whole chunks and the header
	marks      []mark
}

func segmentName(start uint64) string { return fmt.Sprintf("%016x.seg", start) }

// chunk is one header as read.
type chunk struct {
	n   uint32
	sum uint32
	at  time.Time
}

func readHeader(f io.ReaderAt, start uint64) error {
	var h [headerSize]byte
	if _, err := f.ReadAt(h[:], 0); err != nil {
		return fmt.Errorf("segment header: %w", err)
	}
	if [4]byte(h[:4]) != magic {
		return errors.New("segment header: not a journal segment")
	}
	if v := binary.BigEndian.Uint32(h[4:]); v != version {
		return fmt.Errorf("segment header: version %d, we read %d", v, version)
	}
	if s := binary.BigEndian.Uint64(h[8:]); s != start {
		return fmt.Errorf("segment header: starts at %d, the name says %d", s, start)
	}
	return nil
}

func readChunk(f io.ReaderAt, pos int64) (chunk, error) {
	var h [chunkHeader]byte
	if _, err := f.ReadAt(h[:], pos); err != nil {
		return chunk{}, err
	}
	c := chunk{n: binary.BigEndian.Uint32(h[:]), sum: binary.BigEndian.Uint32(h[4:]), at: time.Unix(0, int64(binary.BigEndian.Uint64(h[8:])))}
	if c.n == 0 || c.n > maxChunk {
		return c, errors.New("chunk length out of range")
	}
	return c, nil
}

// load scans a segment up to its last whole chunk; a torn tail is where a scan ends.
func load(path string) (*segment, error) {
	start, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), ".seg"), 16, 64)
	if err != nil {
		return nil, fmt.Errorf("segment name: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := readHeader(f, start); err != nil {
		return nil, err
	}
	s := &segment{path: path, start: start, end: start, size: headerSize}
	s.extend(f)
	return s, nil
}

// extend takes in the whole chunks that follow what is known.
func (s *segment) extend(f io.ReaderAt) {
	buf := make([]byte, 0, 64<<10)
	for {
		c, err := readChunk(f, s.size)
		if err != nil {
			return
		}
		if cap(buf) < int(c.n) {
			buf = make([]byte, 0, c.n)
		}
		p := buf[:c.n]
		if _, err := f.ReadAt(p, s.size+chunkHeader); err != nil || crc32.Checksum(p, castagnoli) != c.sum {
			return
		}
		s.add(int(c.n))
	}
}

func (s *segment) add(n int) {
	if k := len(s.marks); k == 0 || s.end-s.marks[k-1].off >= indexSpacing {
		s.marks = append(s.marks, mark{s.end, s.size})
	}
	s.end += uint64(n)
	s.size += chunkHeader + int64(n)
}

// find is the last mark at or before an offset.
func (s *segment) find(off uint64) mark {
	i, ok := slices.BinarySearchFunc(s.marks, off, func(m mark, off uint64) int {
		switch {
		case m.off < off:
			return -1
		case m.off > off:
			return 1
		}
		return 0
	})
	if !ok {
		i--
	}
	if i < 0 {
		return mark{s.start, headerSize}
	}
	return s.marks[i]
}

// list is the names of the segments, oldest first.
func list(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	slices.Sort(names)
	return names, err
}

// Journal is the writer of a folder; it also reads. All methods may be called from several goroutines.
type Journal struct {
	dir string
	o   Options

	mu       sync.RWMutex
	segments []*segment
	file     *os.File // the last segment, open for appending
	readers  map[string]*os.File
	wake     chan struct{}
	closed   bool
}

// Open makes or opens the journal of a folder for writing, and cuts a torn tail off.
func Open(dir string, o Options) (*Journal, error) {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 1 << 20
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the journal: %w", err)
	}
	j := &Journal{dir: dir, o: o, wake: make(chan struct{}), readers: map[string]*os.File{}}
	names, err := list(dir)
	if err != nil {
		return nil, fmt.Errorf("list the journal: %w", err)
	}
	for i, name := range names {
		s, err := load(name)
		if err != nil {
			if i == len(names)-1 { // a segment whose header was being written
				if err := os.Remove(name); err != nil {
					return nil, fmt.Errorf("remove a torn segment: %w", err)
				}
				continue
			}
			return nil, fmt.Errorf("open the journal: %w", err)
		}
		j.segments = append(j.segments, s)
	}
	return j, j.openLast()
}

// openLast opens the last segment for appending, after its last whole chunk.
func (j *Journal) openLast() error {
	if len(j.segments) == 0 {
		return j.begin(0)
	}
	s := j.segments[len(j.segments)-1]
	f, err := os.OpenFile(s.path, os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	if err := f.Truncate(s.size); err != nil {
		f.Close()
		return fmt.Errorf("cut the torn tail: %w", err)
	}
	j.file = f
	return nil
}

// begin starts a segment.
func (j *Journal) begin(start uint64) error {
	path := filepath.Join(j.dir, segmentName(start))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("begin a segment: %w", err)
	}
	h := binary.BigEndian.AppendUint32(append([]byte(nil), magic[:]...), version)
	h = binary.BigEndian.AppendUint64(h, start)
	if _, err := f.WriteAt(h, 0); err != nil {
		f.Close()
		os.Remove(path)
		return fmt.Errorf("begin a segment: %w", err)
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file = f
	j.segments = append(j.segments, &segment{path: path, start: start, end: start, size: headerSize})
	return nil
}

// Append adds output and returns the offset after it. A crash of the process loses nothing that Append returned
// for; a power cut may. After an error nothing of p counts.
func (j *Journal) Append(p []byte, at time.Time) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return 0, ErrClosed
	}
	for len(p) > 0 {
		s := j.segments[len(j.segments)-1]
		if int64(s.end-s.start) >= j.o.SegmentBytes {
			if err := j.begin(s.end); err != nil {
				return s.end, err
			}
			j.trim()
			s = j.segments[len(j.segments)-1]
		}
		n := min(len(p), maxChunk, int(j.o.SegmentBytes))
		if err := j.write(s, p[:n], at); err != nil {
			return s.end, err
		}
		p = p[n:]
	}
	close(j.wake)
	j.wake = make(chan struct{})
	return j.segments[len(j.segments)-1].end, nil
}

func (j *Journal) write(s *segment, p []byte, at time.Time) error {
	b := make([]byte, 0, chunkHeader+len(p))
	b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(p, castagnoli))
	b = binary.BigEndian.AppendUint64(b, uint64(at.UnixNano()))
	b = append(b, p...)
	if _, err := j.file.WriteAt(b, s.size); err != nil {
		return fmt.Errorf("append to the journal: %w", err) // the next write goes over what came of this one
	}
	s.add(len(p))
	return nil
}

// trim removes the oldest segments beyond MaxBytes.
func (j *Journal) trim() {
	end := j.segments[len(j.segments)-1].end
	for len(j.segments) > 1 && int64(end-j.segments[0].start) > j.o.MaxBytes {
		path := j.segments[0].path
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return // it stays, and is tried again with the next segment
		}
		if f := j.readers[path]; f != nil {
			f.Close()
			delete(j.readers, path)
		}
		j.segments = j.segments[1:]
	}
}

// Bounds are the oldest offset that can be read, and the end.
func (j *Journal) Bounds() (start, end uint64) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return bounds(j.segments)
}

func bounds(segments []*segment) (start, end uint64) {
	if len(segments) == 0 {
		return 0, 0
	}
	return segments[0].start, segments[len(segments)-1].end
}

// ReadAt reads output from an offset; it returns fewer bytes than asked for at a segment's end, io.EOF at the end
// of all, and a *TrimmedError before the beginning.
func (j *Journal) ReadAt(p []byte, off uint64) (int, error) {
	j.mu.Lock() // the file cache is written; reads are short
	defer j.mu.Unlock()
	return readAt(j.segments, j.open, p, off)
}

// open caches one file handle for reading: attachments mostly read the newest segment.
func (j *Journal) open(s *segment) (*os.File, error) {
	if f := j.readers[s.path]; f != nil {
		return f, nil
	}
	for path, f := range j.readers {
		f.Close()
		delete(j.readers, path)
	}
	f, err := os.Open(s.path)
	if err == nil {
		j.readers[s.path] = f
	}
	return f, err
}

func readAt(segments []*segment, open func(*segment) (*os.File, error), p []byte, off uint64) (int, error) {
	start, end := bounds(segments)
	if off < start {
		return 0, &TrimmedError{Start: start}
	}
	if off >= end {
		return 0, io.EOF
	}
	i, ok := slices.BinarySearchFunc(segments, off, func(s *segment, off uint64) int {
		if s.end <= off {
			return -1
		}
		if s.start > off {
			return 1
		}
		return 0
	})
	if !ok {
		return 0, fmt.Errorf("a gap in the journal at %d", off)
	}
	f, err := open(segments[i])
	if err != nil {
		return 0, fmt.Errorf("read the journal: %w", err)
	}
	return segments[i].read(f, p, off)
}

// read copies from the chunks that hold off and what follows.
func (s *segment) read(f *os.File, p []byte, off uint64) (int, error) {
	m := s.find(off)
	n := 0
	for n < len(p) && m.off < s.end {
		c, err := readChunk(f, m.pos)
		if err != nil {
			return n, fmt.Errorf("read the journal at %d: %w", m.off, err)
		}
		if next := m.off + uint64(c.n); next > off {
			skip := off - m.off
			want := min(len(p)-n, int(uint64(c.n)-skip))
			if _, err := f.ReadAt(p[n:n+want], m.pos+chunkHeader+int64(skip)); err != nil {
				return n, fmt.Errorf("read the journal at %d: %w", off, err)
			}
			n += want
			off += uint64(want)
		}
		m = mark{m.off + uint64(c.n), m.pos + chunkHeader + int64(c.n)}
	}
	return n, nil
}

// Wait blocks until there is output after off.
func (j *Journal) Wait(ctx context.Context, off uint64) error {
	for {
		j.mu.RLock()
		_, end := bounds(j.segments)
		wake, closed := j.wake, j.closed
		j.mu.RUnlock()
		if end > off {
			return nil
		}
		if closed {
			return ErrClosed
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

// Close ends the journal; what waits is told.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	close(j.wake)
	for _, f := range j.readers {
		f.Close()
	}
	return j.file.Close()
}
