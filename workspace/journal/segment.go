package journal

import (
	"errors"
	"fmt"
	"io"
	"sort"
)

// indexStride is how many bytes of a file one index entry covers: what a read
// at any offset may have to pass over, against the memory of the entries.
const indexStride = 32 << 10

// A segment is one file, as far as it is known.
type segment struct {
	start uint64
	tail  mark   // after the last chunk known to be whole
	last  mark   // the last chunk itself: where who follows the stream reads next
	next  uint64 // start of the segment after it, 0 if there is none; only a Reader's
	marks []mark // sparse, rising; begins with the first chunk
}

func newSegment(start uint64) *segment {
	first := mark{start, headerSize}
	return &segment{start: start, tail: first, last: first, marks: []mark{first}}
}

// grow takes in the chunk at the tail, of n data bytes.
func (s *segment) grow(n int) {
	s.last = s.tail
	s.note(s.tail)
	s.tail = mark{s.tail.off + uint64(n), s.tail.pos + chunkHeader + int64(n)}
}

// note adds a chunk's mark to the index if the index has none near it.
func (s *segment) note(m mark) {
	if m.pos >= s.marks[len(s.marks)-1].pos+indexStride {
		s.marks = append(s.marks, m)
	}
}

// find returns the nearest mark known at or before off.
func (s *segment) find(off uint64) mark {
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].off > off })
	m := s.marks[max(i-1, 0)]
	if s.last.off <= off && s.last.off > m.off {
		return s.last
	}
	return m
}

// end is where a Reader's segment ends. One that isn't the last reaches to the
// next by its name, whether or not it was looked into yet.
func (s *segment) end() uint64 {
	if s.next > 0 {
		return s.next
	}
	return s.tail.off
}

// cost is what a segment counts against SegmentBytes and MaxBytes: its output,
// or half its file where chunks are tiny.
func (s *segment) cost() int64 { return cost(s.tail.off-s.start, s.tail.pos) }

func cost(output uint64, file int64) int64 { return max(int64(output), file/2) }

// extend takes in the whole chunks after the tail, and returns nil where they
// end, whether cleanly or torn.
func (s *segment) extend(r io.ReaderAt) error {
	sc := scan(r, s.tail)
	defer sc.release()
	for {
		c, err := sc.next()
		if errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read segment: %w", err)
		}
		s.grow(len(c.data))
	}
}

// locate returns the index of the segment that has off, or would have it if it
// were longer; starts rise and off isn't before the first.
func locate(segments []*segment, off uint64) int {
	return sort.Search(len(segments), func(i int) bool { return segments[i].start > off }) - 1
}

// copyChunks fills p with the bytes from off on, up to end, and tells note of each
// chunk's mark it passes. It returns errTorn where chunks end before both.
func copyChunks(r io.ReaderAt, from mark, off, end uint64, p []byte, note func(mark)) (n int, err error) {
	sc := scan(r, from)
	defer sc.release()
	for n < len(p) && off < end {
		c, err := sc.next()
		if errors.Is(err, io.EOF) {
			err = errTorn
		}
		if err != nil {
			return n, err
		}
		note(c.mark)
		if c.end() <= off {
			continue
		}
		m := copy(p[n:], c.data[off-c.off:])
		n += m
		off += uint64(m)
	}
	return n, nil
}
