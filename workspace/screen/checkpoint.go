package screen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/s2"
)

// A checkpoint is a screen on disk: FORMAT.md. What it holds is a redraw, so that any version reads any other's.
const (
	checkpointMagic   = "PDSC\x01"
	maxCheckpoint     = 32 << 20 // bytes of its redraw
	checkpointHistory = 500      // lines: enough to look back on a lost session; the journal has the rest
)

// ErrCheckpoint says that data is no checkpoint, or was damaged: the journal is to be replayed instead.
var ErrCheckpoint = errors.New("malformed checkpoint")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendCheckpoint writes the screen's state out, with its newest history. offset is that of the journal up to which
// the screen has taken output in.
func (s *Screen) AppendCheckpoint(b []byte, offset uint64) []byte {
	lines := checkpointHistory
	redraw := s.Redraw(lines)
	for len(redraw) > maxCheckpoint && lines > 0 {
		lines /= 2
		redraw = s.Redraw(lines)
	}
	b = append(b, checkpointMagic...)
	sum := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.AppendUvarint(b, offset)
	b = binary.AppendUvarint(b, uint64(s.cols))
	b = binary.AppendUvarint(b, uint64(s.rows))
	b = append(b, s2.Encode(nil, redraw)...)
	binary.LittleEndian.PutUint32(b[sum:], crc32.Checksum(b[sum+4:], castagnoli))
	return b
}

// ReadCheckpoint makes the screen of a checkpoint, and gives the offset of the journal from which it is to be brought
// up to date. It fails with ErrCheckpoint.
func ReadCheckpoint(data []byte) (s *Screen, offset uint64, err error) {
	n := len(checkpointMagic)
	if len(data) < n+4 || string(data[:n]) != checkpointMagic {
		return nil, 0, fmt.Errorf("%w: no version of it begins so", ErrCheckpoint)
	}
	if crc32.Checksum(data[n+4:], castagnoli) != binary.LittleEndian.Uint32(data[n:]) {
		return nil, 0, fmt.Errorf("%w: checksum", ErrCheckpoint)
	}
	rest := data[n+4:]
	offset, w := binary.Uvarint(rest)
	if w <= 0 {
		return nil, 0, fmt.Errorf("%w: offset", ErrCheckpoint)
	}
	r := reader{b: rest[w:]}
	cols, rows := r.number(maxSize), r.number(maxSize)
	if r.bad || cols == 0 || rows == 0 {
		return nil, 0, fmt.Errorf("%w: size", ErrCheckpoint)
	}
	if size, err := s2.DecodedLen(r.b); err != nil || size > maxCheckpoint {
		return nil, 0, fmt.Errorf("%w: length", ErrCheckpoint)
	}
	redraw, err := s2.Decode(nil, r.b)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	s = New(cols, rows, Options{})
	_, _ = s.Write(redraw) // it never fails
	s.bell, s.replies = false, nil
	return s, offset, nil
}
