package journal

import (
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
	"time"
)

const (
	magic       = "PRDJ"
	version     = 1
	headerSize  = 20
	chunkHeader = 16
	maxChunk    = 32 << 10 // bounds what a reader must hold and what one bad bit can take
	suffix      = ".seg"
)

var (
	be         = binary.BigEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// errTorn marks bytes that are no whole chunk, or no whole header.
var errTorn = errors.New("torn")

func segmentName(start uint64) string { return fmt.Sprintf("%016x%s", start, suffix) }

// parseName is strict, so that a name has one start and a start one name.
func parseName(name string) (start uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	start, err := strconv.ParseUint(digits, 16, 64)
	return start, err == nil && segmentName(start) == name
}

// starts lists the segments of a folder by their start offsets, oldest first.
func starts(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []uint64
	for _, e := range entries {
		if start, ok := parseName(e.Name()); ok && e.Type().IsRegular() {
			found = append(found, start)
		}
	}
	slices.Sort(found)
	return found, nil
}

func appendHeader(b []byte, start uint64) []byte {
	at := len(b)
	b = append(b, magic...)
	b = be.AppendUint32(b, version)
	b = be.AppendUint64(b, start)
	return be.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
}

// checkHeader returns errTorn for a header that was never wholly written, and
// else says what is wrong with it.
func checkHeader(r io.ReaderAt, path string, start uint64) error {
	var h [headerSize]byte
	n, err := r.ReadAt(h[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read segment header: %w", err)
	}
	if n < headerSize || h == [headerSize]byte{} {
		return errTorn
	}
	if string(h[:4]) == magic {
		if v := be.Uint32(h[4:]); v != version {
			return &VersionError{Path: path, Ours: version, Theirs: v}
		}
	}
	if string(appendHeader(nil, start)) != string(h[:]) {
		return &CorruptError{Path: path, Offset: start}
	}
	return nil
}

// appendChunk appends data, of 1 to maxChunk bytes, as the chunk at off.
func appendChunk(b []byte, off uint64, at time.Time, data []byte) []byte {
	h := len(b)
	b = be.AppendUint32(b, uint32(len(data)))
	b = be.AppendUint64(b, uint64(at.UnixNano()))
	b = be.AppendUint32(b, checksum(off, b[h:h+12], data))
	return append(b, data...)
}

func checksum(off uint64, lengthAndTime, data []byte) uint32 {
	// The offset's eight big-endian bytes, by the table: a slice of them would be
	// allocated for each chunk.
	sum := ^uint32(0)
	for shift := 56; shift >= 0; shift -= 8 {
		sum = castagnoli[byte(sum)^byte(off>>shift)] ^ sum>>8
	}
	sum = crc32.Update(^sum, castagnoli, lengthAndTime)
	return crc32.Update(sum, castagnoli, data)
}

func segmentPath(dir string, start uint64) string { return filepath.Join(dir, segmentName(start)) }
