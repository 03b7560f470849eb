package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"
)

// granularity bounds how coarse a file system's clock may be: what was written
// this shortly before a scan may be written again with equal times.
const granularity = 20 * time.Millisecond

// cache says for which stats which object ids are right, and what is ignored.
// It can be thrown away at any time: then every file is read again.
type cache struct {
	Start int64 // of the scan, ns since the epoch
	// Rules and Known are hashes of what decides what is ignored, and what is
	// tracked; "" where it was changed too shortly before to be relied on.
	Rules, Known string
	// Generation counts the prunings of the store: objects that nothing
	// refers to are gone after one.
	Generation string
	// Forced are tracked though ignored; Absent are in the tree though not on
	// disk, with their modes and ids: sparse files and submodules.
	Forced []string
	Absent []tracked
	Notes  []Skip // what was wrong with the user's index or HEAD

	top     *folder
	folders map[string]*folder
}

func (c *cache) folder(path string) *folder {
	if c == nil {
		return nil
	}
	return c.folders[path]
}

// cacheMagic begins a cache file, and changes with its format.
const cacheMagic = "perdure stat cache 1\n"

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// encoder writes the cache's fields: numbers as varints, texts after their
// length.
type encoder struct{ b []byte }

func (e *encoder) number(n int64) { e.b = binary.AppendVarint(e.b, n) }
func (e *encoder) text(s string) {
	e.b = binary.AppendUvarint(e.b, uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) texts(list []string) {
	e.number(int64(len(list)))
	for _, s := range list {
		e.text(s)
	}
}

func (e *encoder) entry(n *entry, size int) {
	flags := byte(n.kind) << 2
	if n.ignored {
		flags |= 1
	}
	if !n.id.zero() {
		flags |= 2
	}
	e.b = append(e.b, flags)
	e.text(n.name)
	if n.id.zero() {
		return
	}
	e.number(n.st.Size)
	e.number(n.st.Mtime)
	e.number(n.st.Ctime - n.st.Mtime)
	e.number(int64(n.st.Ino))
	e.number(int64(n.st.Mode))
	e.b = append(e.b, n.id[:size]...)
}

// encode gives the cache as a file: magic, fields, and a CRC-32C of all before.
func (c *cache) encode(size int) []byte {
	e := encoder{b: make([]byte, 0, 1<<20)}
	e.b = append(e.b, cacheMagic...)
	e.number(int64(size))
	e.number(c.Start)
	e.texts([]string{c.Rules, c.Known, c.Generation})
	e.texts(c.Forced)
	e.number(int64(len(c.Absent)))
	for _, t := range c.Absent {
		e.texts([]string{t.path, t.mode, t.oid})
	}
	e.number(int64(len(c.Notes)))
	for _, n := range c.Notes {
		e.texts([]string{n.Path, n.Why})
	}
	c.top.each(func(f *folder) {
		e.b = append(e.b, 1)
		e.text(f.path)
		e.b = append(e.b, f.tree[:size]...)
		there := 0
		for i := range f.entries {
			if !f.entries[i].absent {
				there++
			}
		}
		e.number(int64(there))
		for i := range f.entries {
			if !f.entries[i].absent {
				e.entry(&f.entries[i], size)
			}
		}
	})
	e.b = append(e.b, 0)
	return binary.BigEndian.AppendUint32(e.b, crc32.Checksum(e.b, crcTable))
}

// decoder reads them. bad sticks: what is read after an error is zero.
type decoder struct {
	s   string
	bad bool
}

func (d *decoder) take(n int) string {
	if d.bad || n < 0 || n > len(d.s) {
		d.bad = true
		return ""
	}
	out := d.s[:n]
	d.s = d.s[n:]
	return out
}

func (d *decoder) unsigned() (n uint64) {
	for shift := 0; shift < 64; shift += 7 {
		b := d.take(1)
		if d.bad {
			return 0
		}
		n |= uint64(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			return n
		}
	}
	d.bad = true
	return 0
}

func (d *decoder) number() int64 {
	n := d.unsigned()
	return int64(n>>1) ^ -int64(n&1)
}

func (d *decoder) text() string { return d.take(int(min(d.unsigned(), 1<<31))) }

// count is a number of things that take at least a byte each.
func (d *decoder) count() int {
	n := d.number()
	if n < 0 || n > int64(len(d.s)) {
		d.bad = true
		return 0
	}
	return int(n)
}

func (d *decoder) texts(n int) []string {
	if d.count() != n && n >= 0 {
		d.bad = true
	}
	out := make([]string, max(n, 0))
	for i := range out {
		out[i] = d.text()
	}
	return out
}

func (d *decoder) list() []string {
	out := make([]string, d.count())
	for i := range out {
		out[i] = d.text()
	}
	return out
}

func (d *decoder) id(size int) (id objectID) {
	copy(id[:], d.take(size))
	return id
}

func (d *decoder) entry(size int) (n entry) {
	flags := d.take(1)
	if d.bad {
		return n
	}
	n.kind, n.ignored = kind(flags[0]>>2), flags[0]&1 != 0
	n.name = d.text()
	if flags[0]&2 == 0 {
		return n
	}
	n.st.Size, n.st.Mtime = d.number(), d.number()
	n.st.Ctime = n.st.Mtime + d.number()
	n.st.Ino, n.st.Mode = uint64(d.number()), uint32(d.number())
	n.id = d.id(size)
	return n
}

var errCache = errors.New("stat cache is torn")

func decodeCache(data []byte, size int) (*cache, error) {
	n := len(data) - 4
	if n < 0 || !bytes.HasPrefix(data, []byte(cacheMagic)) || binary.BigEndian.Uint32(data[n:]) != crc32.Checksum(data[:n], crcTable) {
		return nil, errCache
	}
	d := &decoder{s: string(data[len(cacheMagic):n])}
	if d.number() != int64(size) {
		return nil, errCache
	}
	c := &cache{Start: d.number(), folders: map[string]*folder{}}
	head := d.texts(3)
	c.Rules, c.Known, c.Generation = head[0], head[1], head[2]
	c.Forced = d.list()
	for range d.count() {
		t := d.texts(3)
		c.Absent = append(c.Absent, tracked{path: t[0], mode: t[1], oid: t[2]})
	}
	for range d.count() {
		t := d.texts(2)
		c.Notes = append(c.Notes, Skip{Path: t[0], Why: t[1]})
	}
	for !d.bad && d.take(1) == "\x01" {
		f := &folder{path: d.text(), tree: d.id(size)}
		f.entries = make([]entry, d.count())
		for i := range f.entries {
			f.entries[i] = d.entry(size)
		}
		c.folders[f.path] = f
		if c.top == nil {
			c.top = f
		}
	}
	if d.bad || d.s != "" || c.top == nil {
		return nil, errCache
	}
	return c, nil
}

// replaceFile writes a file that can be made again: whole, but not fsynced.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "tmp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
