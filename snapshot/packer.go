package snapshot

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sort"
	"sync"

	"github.com/klauspost/compress/zlib"
)

// The types of objects in a pack (gitformat-pack).
const (
	typeCommit = 1
	typeTree   = 2
	typeBlob   = 3
)

var typeNames = map[int]string{typeCommit: "commit", typeTree: "tree", typeBlob: "blob"}

// idSize is the length of object ids in bytes, by the repository's format.
func idSize(format string) int {
	if format == "sha256" {
		return 32
	}
	return 20
}

func newHash(size int) hash.Hash {
	if size == 32 {
		return sha256.New()
	}
	return sha1.New()
}

// objectHash hashes an object of that type and length; its content follows.
func objectHash(size, typ int, length int64) hash.Hash {
	h := newHash(size)
	fmt.Fprintf(h, "%s %d\x00", typeNames[typ], length)
	return h
}

func sumID(h hash.Hash) (id objectID) {
	h.Sum(id[:0])
	return id
}

// packer writes the new objects of one snapshot as one pack. Its methods may
// be called concurrently. Nothing is in the store before finish returns.
type packer struct {
	objects string // the store's objects folder
	size    int    // of an object id

	mu     sync.Mutex
	held   *held
	file   *os.File
	out    *bufio.Writer
	offset int64
	list   []packed
	have   map[objectID]bool
	plain  int64 // bytes of the objects before compression
}

type packed struct {
	id     objectID
	crc    uint32
	offset int64
}

func newPacker(dir string, size int) *packer {
	return &packer{objects: filepath.Join(dir, "objects"), size: size, have: map[objectID]bool{}}
}

// has tells whether the store, or this pack, holds the object.
func (p *packer) has(id objectID) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds(id)
}

func (p *packer) holds(id objectID) (bool, error) {
	if p.have[id] {
		return true, nil
	}
	if p.held == nil {
		var err error
		if p.held, err = readHeld(p.objects, p.size); err != nil {
			return false, err
		}
	}
	return p.held.has(id), nil
}

// forget makes the packer look anew at what the store holds.
func (p *packer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = nil
}

// put adds an object where the store lacks it, and returns its id.
func (p *packer) put(c *compressor, typ int, data []byte) (objectID, error) {
	return p.putWithin(c, typ, data, nil)
}

// putWithin is put within a budget, which may be nil: errOver where the object
// is new and there is no room for it.
func (p *packer) putWithin(c *compressor, typ int, data []byte, b *budget) (objectID, error) {
	h := objectHash(p.size, typ, int64(len(data)))
	h.Write(data)
	id := sumID(h)
	held, err := p.has(id)
	if err != nil || held {
		return id, err
	}
	if b != nil && !b.take(int64(len(data))) {
		return id, errOver
	}
	body, err := c.deflate(data)
	if err != nil {
		return id, err
	}
	return id, p.add(id, typ, int64(len(data)), body)
}

// add writes a deflated object, unless another goroutine was first.
func (p *packer) add(id objectID, typ int, length int64, body []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.have[id] {
		return nil
	}
	if err := p.open(); err != nil {
		return err
	}
	head := packHeader(typ, length)
	if _, err := p.out.Write(head); err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	if _, err := p.out.Write(body); err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	p.enter(id, crc32.Update(crc32.ChecksumIEEE(head), crc32.IEEETable, body), int64(len(head)+len(body)), length)
	return nil
}

func (p *packer) enter(id objectID, crc uint32, size, length int64) {
	p.list = append(p.list, packed{id, crc, p.offset})
	p.offset += size
	p.plain += length
	p.have[id] = true
}

// packHeader is an object's type and length: four bits of the length, then
// seven at a time, low ones first.
func packHeader(typ int, length int64) []byte {
	b := []byte{byte(typ<<4) | byte(length&15)}
	for length >>= 4; length > 0; length >>= 7 {
		b[len(b)-1] |= 0x80
		b = append(b, byte(length&0x7f))
	}
	return b
}

func (p *packer) open() error {
	if p.file != nil {
		return nil
	}
	dir := filepath.Join(p.objects, "pack")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	f, err := os.CreateTemp(dir, tempPack+"*")
	if err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	p.file, p.out, p.offset = f, bufio.NewWriterSize(f, 256<<10), 12
	_, err = p.out.Write([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00"))
	return err
}

// tempPack begins the names of packs that are being written, as git's own do:
// git and prune know them for leftovers.
const tempPack = "tmp_pack_"

// countingWriter passes bytes on, with their number and CRC.
type countingWriter struct {
	w   io.Writer
	n   int64
	crc uint32
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.crc = crc32.Update(c.crc, crc32.IEEETable, b[:n])
	return n, err
}

// errChanged: what was read the second time was not what had been hashed.
var errChanged = fmt.Errorf("changed while it was read")

// stream adds a blob that is too large for memory: its id is known, and src is
// read once more. It keeps others from writing meanwhile.
func (p *packer) stream(id objectID, length int64, src io.Reader) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.have[id] {
		return nil
	}
	if err := p.open(); err != nil {
		return err
	}
	c := &countingWriter{w: p.out}
	if _, err := c.Write(packHeader(typeBlob, length)); err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	z, err := zlib.NewWriterLevel(c, zlib.BestSpeed)
	if err != nil {
		return err
	}
	h := objectHash(p.size, typeBlob, length)
	n, err := io.Copy(io.MultiWriter(h, z), io.LimitReader(src, length))
	if e := z.Close(); err == nil {
		err = e
	}
	if err != nil {
		return errors2(err, p.rewind())
	}
	if n != length || sumID(h) != id {
		return errors2(errChanged, p.rewind())
	}
	p.enter(id, c.crc, c.n, length)
	return nil
}

// rewind drops what was written since the last whole object.
func (p *packer) rewind() error {
	if err := p.out.Flush(); err != nil {
		return err
	}
	if err := p.file.Truncate(p.offset); err != nil {
		return err
	}
	_, err := p.file.Seek(p.offset, io.SeekStart)
	return err
}

func errors2(err, more error) error {
	if more != nil {
		return fmt.Errorf("%w (and then: %w)", err, more)
	}
	return err
}

// abort drops the pack. It does nothing after finish.
func (p *packer) abort() {
	if p.file != nil {
		p.file.Close()
		os.Remove(p.file.Name())
		p.file = nil
	}
}

// finish puts the pack and its index into the store, on disk. It returns the
// bytes that both take.
func (p *packer) finish() (int64, error) {
	if p.file == nil {
		return 0, nil
	}
	defer p.abort()
	sum, err := p.seal()
	if err != nil {
		return 0, fmt.Errorf("write pack: %w", err)
	}
	index := p.index(sum)
	temp := p.file.Name()
	base := filepath.Join(p.objects, "pack", "pack-"+hex.EncodeToString(sum))
	hook("pack-sealed")
	if err := writeSynced(base+".idx.tmp", index); err != nil {
		return 0, fmt.Errorf("write pack: %w", err)
	}
	// The pack first: git takes a pack to be there once its index is.
	if err := os.Rename(temp, base+".pack"); err != nil {
		return 0, fmt.Errorf("write pack: %w", err)
	}
	hook("pack-named")
	if err := os.Rename(base+".idx.tmp", base+".idx"); err != nil {
		return 0, fmt.Errorf("write pack: %w", err)
	}
	p.file.Close()
	p.file = nil
	hook("pack-indexed")
	return p.offset + int64(len(index)), syncDir(filepath.Dir(base))
}

// seal writes the number of objects and the checksum, which covers it.
func (p *packer) seal() ([]byte, error) {
	if err := p.out.Flush(); err != nil {
		return nil, err
	}
	var count [4]byte
	binary.BigEndian.PutUint32(count[:], uint32(len(p.list)))
	if _, err := p.file.WriteAt(count[:], 8); err != nil {
		return nil, err
	}
	h := newHash(p.size)
	if _, err := io.Copy(h, io.NewSectionReader(p.file, 0, p.offset)); err != nil {
		return nil, err
	}
	sum := h.Sum(nil)
	if _, err := p.file.WriteAt(sum, p.offset); err != nil {
		return nil, err
	}
	p.offset += int64(len(sum))
	if err := p.file.Chmod(0o400); err != nil {
		return nil, err
	}
	return sum, p.file.Sync()
}

// index is the pack's index, version 2: magic, fan-out, ids, CRCs, offsets,
// the offsets beyond 2 GiB, and the checksums of the pack and of all before.
func (p *packer) index(sum []byte) []byte {
	sort.Slice(p.list, func(a, b int) bool { return bytes.Compare(p.list[a].id[:], p.list[b].id[:]) < 0 })
	b := []byte("\xfftOc\x00\x00\x00\x02")
	n := 0
	for first := range 256 {
		for n < len(p.list) && int(p.list[n].id[0]) <= first {
			n++
		}
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	for _, o := range p.list {
		b = append(b, o.id[:p.size]...)
	}
	for _, o := range p.list {
		b = binary.BigEndian.AppendUint32(b, o.crc)
	}
	var large []byte
	for _, o := range p.list {
		if o.offset < 1<<31 {
			b = binary.BigEndian.AppendUint32(b, uint32(o.offset))
			continue
		}
		b = binary.BigEndian.AppendUint32(b, 1<<31|uint32(len(large)/8))
		large = binary.BigEndian.AppendUint64(large, uint64(o.offset))
	}
	b = append(append(b, large...), sum...)
	h := newHash(p.size)
	h.Write(b)
	return h.Sum(b)
}

// writeSynced writes a read-only file that is on disk when it returns.
func writeSynced(path string, data []byte) error {
	os.Remove(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}
