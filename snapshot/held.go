package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// held answers which objects a repository has, out of the indexes of its packs
// and its loose objects.
type held struct {
	dir   string
	size  int
	packs []packIDs
	loose map[byte]bool // first bytes of loose objects' ids
}

// packIDs are the sorted ids of one pack.
type packIDs struct {
	fan [256]uint32
	ids []byte
}

// readHeld reads the indexes of all packs: ids only, 20 or 32 bytes for each
// object.
func readHeld(objects string, size int) (*held, error) {
	h := &held{dir: objects, size: size, loose: map[byte]bool{}}
	entries, err := os.ReadDir(filepath.Join(objects, "pack"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("packs: %w", err)
	}
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".idx")
		if !ok {
			continue
		}
		// An index without its pack is a leftover.
		if _, err := os.Stat(filepath.Join(objects, "pack", base+".pack")); err != nil {
			continue
		}
		p, err := readPackIDs(filepath.Join(objects, "pack", e.Name()), size)
		if err != nil {
			return nil, err
		}
		h.packs = append(h.packs, p)
	}
	dirs, err := os.ReadDir(objects)
	if err != nil {
		return nil, fmt.Errorf("objects: %w", err)
	}
	for _, d := range dirs {
		var b [1]byte
		if n, _ := fmt.Sscanf(d.Name(), "%02x", &b[0]); n == 1 && len(d.Name()) == 2 {
			h.loose[b[0]] = true
		}
	}
	return h, nil
}

func readPackIDs(path string, size int) (p packIDs, err error) {
	f, err := os.Open(path)
	if err != nil {
		return p, fmt.Errorf("pack index: %w", err)
	}
	defer f.Close()
	var head [8 + 256*4]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || !bytes.HasPrefix(head[:], []byte("\xfftOc\x00\x00\x00\x02")) {
		return p, fmt.Errorf("pack index %s: not version 2 (%v)", filepath.Base(path), err)
	}
	last := uint32(0)
	for i := range p.fan {
		p.fan[i] = binary.BigEndian.Uint32(head[8+4*i:])
		if p.fan[i] < last {
			return p, fmt.Errorf("pack index %s: fan-out goes back", filepath.Base(path))
		}
		last = p.fan[i]
	}
	info, err := f.Stat()
	if err != nil {
		return p, fmt.Errorf("pack index: %w", err)
	}
	if int64(last)*int64(size) > info.Size() {
		return p, fmt.Errorf("pack index %s: too short", filepath.Base(path))
	}
	p.ids = make([]byte, int(last)*size)
	if _, err := f.ReadAt(p.ids, int64(len(head))); err != nil {
		return p, fmt.Errorf("pack index %s: %w", filepath.Base(path), err)
	}
	return p, nil
}

func (h *held) has(id objectID) bool {
	for i := range h.packs {
		if h.packs[i].has(id, h.size) {
			return true
		}
	}
	if !h.loose[id[0]] {
		return false
	}
	name := id.text(h.size)
	_, err := os.Stat(filepath.Join(h.dir, name[:2], name[2:]))
	return err == nil
}

func (p *packIDs) has(id objectID, size int) bool {
	lo, hi := 0, int(p.fan[id[0]])
	if id[0] > 0 {
		lo = int(p.fan[id[0]-1])
	}
	for lo < hi {
		mid := (lo + hi) / 2
		switch c := bytes.Compare(p.ids[mid*size:(mid+1)*size], id[:size]); {
		case c == 0:
			return true
		case c < 0:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return false
}
