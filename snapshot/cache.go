package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"time"
)

// granularity bounds how coarse a file system's clock may be: what was written
// this shortly before a scan may be written again with equal times.
const granularity = 20 * time.Millisecond

// cache says for which stats the private index is right. Without it, the index
// is thrown away: git alone would miss an edit within one second.
type cache struct {
	Start int64 // of the scan, ns since the epoch
	Files map[string]fileStat
	// Nested are the repositories in the tree and their commits; Links are
	// the submodules that are kept though they aren't checked out.
	Nested, Links map[string]string
	Rules         string // hash of everything else that decides what is in the tree
	Tree          string
	// Problems of adding, which a quick look wouldn't find again.
	Skipped []Skip
	Partial bool
}

func loadCache(path string) *cache {
	data, err := os.ReadFile(path)
	if err != nil || len(data) < sha256.Size {
		return nil
	}
	// A torn write must not pass for knowledge.
	sum := sha256.Sum256(data[sha256.Size:])
	if !bytes.Equal(sum[:], data[:sha256.Size]) {
		return nil
	}
	var c cache
	if gob.NewDecoder(bytes.NewReader(data[sha256.Size:])).Decode(&c) != nil {
		return nil
	}
	return &c
}

func (c *cache) save(path string) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(c); err != nil {
		return fmt.Errorf("stat cache: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	if err := replaceFile(path, append(sum[:], b.Bytes()...)); err != nil {
		return fmt.Errorf("stat cache: %w", err)
	}
	return nil
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

// fresh tells whether a file is surely as it was at the cache's scan.
func (c *cache) fresh(path string, now fileStat) bool {
	then, ok := c.Files[path]
	limit := c.Start - int64(granularity)
	return ok && then == now && now.Ctime < limit && now.Mtime < limit
}

// same tells whether the whole directory is as it was.
func (c *cache) same(w *walk, nested map[string]string, rules string) bool {
	if c.Rules != rules || len(c.Files) != len(w.files) || !maps.Equal(c.Nested, nested) {
		return false
	}
	for path, st := range w.files {
		if !c.fresh(path, st) {
			return false
		}
	}
	return true
}

// rulesKey hashes what decides on the content of a tree beside its files: the
// rules for ignoring, and what the user's repository tracks.
func rulesKey(p place, rules []byte, w *walk) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q\n", p.dir, p.prefix, p.head)
	h.Write(rules)
	if p.isRepo() {
		st, _ := lstat(filepath.Join(p.gitDir, "index"))
		fmt.Fprintf(h, "index %v\n", st)
	}
	for dir := filepath.Dir(p.dir); p.prefix != "" && within(p.top, dir); dir = filepath.Dir(dir) {
		text, _ := os.ReadFile(filepath.Join(dir, ".gitignore"))
		fmt.Fprintf(h, "%q %q\n", dir, text)
	}
	paths := make([]string, 0, len(w.rules))
	for path := range w.rules {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	for _, path := range paths {
		fmt.Fprintf(h, "%q %v\n", path, w.rules[path])
	}
	for _, path := range w.blocked {
		fmt.Fprintf(h, "blocked %q\n", path)
	}
	return hex.EncodeToString(h.Sum(nil))
}
