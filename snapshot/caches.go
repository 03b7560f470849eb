package snapshot

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// caches keeps the stat caches that were used last in memory, so that looking
// at an unchanged directory again needs no decoding. The files are the truth:
// one that another process wrote is read anew.
type caches struct {
	mu      sync.Mutex
	list    map[string]*cachedFile
	entries int
}

type cachedFile struct {
	cache   *cache
	entries int
	info    os.FileInfo // of the file that it is the content of
	used    time.Time
}

// maxCached bounds the entries of all caches in memory; one takes about 200 bytes.
const maxCached = 120_000

// load gives the cache at path, nil where there is none that can be read.
func (c *caches) load(path string, size int) *cache {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	f := c.list[path]
	if f != nil && os.SameFile(f.info, info) && f.info.ModTime().Equal(info.ModTime()) && f.info.Size() == info.Size() {
		f.used = time.Now()
		c.mu.Unlock()
		return f.cache
	}
	c.mu.Unlock()
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	got, err := decodeCache(data, size)
	if err != nil {
		return nil
	}
	c.put(path, got, info)
	return got
}

// save writes a cache, and keeps it.
func (c *caches) save(path string, now *cache, size int) error {
	if err := replaceFile(path, now.encode(size)); err != nil {
		return fmt.Errorf("stat cache: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil // removed at once: it can be made again
	}
	now.fold()
	c.put(path, now, info)
	return nil
}

// fold makes of the scan's folders what decoding would have given.
func (c *cache) fold() {
	c.folders = map[string]*folder{}
	c.top.each(func(f *folder) {
		c.folders[f.path] = f
		kept := f.entries[:0]
		for _, e := range f.entries {
			if !e.absent {
				kept = append(kept, e)
			}
		}
		f.entries = kept
	})
}

func (c *caches) put(path string, now *cache, info os.FileInfo) {
	n := 0
	for _, f := range now.folders {
		n += len(f.entries)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.list[path]; old != nil {
		c.entries -= old.entries
		delete(c.list, path)
	}
	if n > maxCached {
		return
	}
	if c.list == nil {
		c.list = map[string]*cachedFile{}
	}
	c.list[path] = &cachedFile{now, n, info, time.Now()}
	c.entries += n
	for c.entries > maxCached {
		c.dropOldest()
	}
}

func (c *caches) dropOldest() {
	oldest := ""
	for path, f := range c.list {
		if oldest == "" || f.used.Before(c.list[oldest].used) {
			oldest = path
		}
	}
	c.entries -= c.list[oldest].entries
	delete(c.list, oldest)
}
