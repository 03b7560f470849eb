package journal

import (
	"errors"
	"io"
	"sync"
	"time"
)

// A mark is where a chunk begins.
type mark struct {
	off uint64 // in the stream
	pos int64  // in the segment's file
}

// chunk is one whole chunk, as checked.
type chunk struct {
	mark
	at   time.Time
	data []byte // good until the scanner's next call
}

func (c chunk) end() uint64 { return c.off + uint64(len(c.data)) }

// scanBuffer must hold the largest chunk; more saves reads where chunks are small.
const scanBuffer = 2*maxChunk + chunkHeader

var buffers = sync.Pool{New: func() any { return new([scanBuffer]byte) }}

// A scanner reads a segment's chunks one after the other.
type scanner struct {
	r    io.ReaderAt
	at   mark // of the next chunk
	buf  *[scanBuffer]byte
	have []byte // what of buf is read and not yet used; begins at at.pos
}

// scan begins at a chunk's mark. The scanner has to be released.
func scan(r io.ReaderAt, from mark) *scanner {
	return &scanner{r: r, at: from, buf: buffers.Get().(*[scanBuffer]byte)}
}

func (s *scanner) release() {
	buffers.Put(s.buf)
	s.buf, s.have = nil, nil
}

// next returns the next chunk. The error is io.EOF where the file ends after a
// whole chunk and errTorn before anything that isn't one; at stays there.
func (s *scanner) next() (chunk, error) {
	if err := s.fill(chunkHeader); err != nil {
		return chunk{}, err
	}
	n := be.Uint32(s.have)
	if n == 0 || n > maxChunk {
		return chunk{}, errTorn
	}
	size := chunkHeader + int(n)
	if err := s.fill(size); err != nil {
		return chunk{}, err
	}
	data := s.have[chunkHeader:size:size]
	if checksum(s.at.off, s.have[:12], data) != be.Uint32(s.have[12:]) {
		return chunk{}, errTorn
	}
	c := chunk{mark: s.at, at: time.Unix(0, int64(be.Uint64(s.have[4:]))), data: data}
	s.at = mark{c.end(), s.at.pos + int64(size)}
	s.have = s.have[size:]
	return c, nil
}

// fill makes have at least n bytes long.
func (s *scanner) fill(n int) error {
	if len(s.have) >= n {
		return nil
	}
	kept := copy(s.buf[:], s.have)
	got, err := s.r.ReadAt(s.buf[kept:], s.at.pos+int64(kept))
	s.have = s.buf[:kept+got]
	switch {
	case len(s.have) >= n:
		return nil
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case len(s.have) == 0:
		return io.EOF
	}
	return errTorn
}
