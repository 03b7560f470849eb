package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// measurer turns directories into trees of one snapshot repository.
type measurer struct {
	store git
	area  string // folder for the private indexes and stat caches
	state string
}

// measured is one directory as a tree.
type measured struct {
	place  place
	tree   string
	walk   *walk
	links  map[string]string
	nested []*measured

	files   int
	bytes   int64
	skipped []Skip
	partial bool
}

// job is the making of one tree.
type job struct {
	*measurer
	g         git
	place     place
	rules     []byte
	indexPath string
	statPath  string
	excludes  string
	// problems of adding, beyond those that the walk sees.
	skipped []Skip
	partial bool
	dropped map[string]bool // taken out of the index to be hashed again
}

// measure makes the tree of p's directory, and those of the repositories in it.
func (m *measurer) measure(ctx context.Context, p place) (*measured, error) {
	rules := p.excludeRules(ctx)
	base := filepath.Join(m.area, hashID(p.top+"\x00"+p.prefix))
	j := &job{measurer: m, place: p, rules: rules,
		indexPath: base + ".index", statPath: base + ".stat", excludes: base + ".exclude"}
	if err := replaceFile(j.excludes, rules); err != nil {
		return nil, fmt.Errorf("ignore rules: %w", err)
	}
	j.g = git{dir: m.store.dir, work: p.top, index: j.indexPath, cwd: p.top, excludes: j.excludes, batch: true}
	var err error
	for range 3 {
		// The workspace's lock is held: a lock file here is a dead capture's.
		os.Remove(j.indexPath + ".lock")
		var out *measured
		if out, err = j.try(ctx); err == nil {
			return out, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// A torn index, or a file that shrank under git: from nothing again.
		os.Remove(j.indexPath)
		os.Remove(j.statPath)
	}
	return nil, err
}

func (j *job) try(ctx context.Context) (*measured, error) {
	j.skipped, j.partial, j.dropped = nil, false, map[string]bool{}
	old := loadCache(j.statPath)
	if _, err := os.Stat(j.indexPath); err != nil || old == nil {
		os.Remove(j.indexPath)
		old = nil
	}
	start := time.Now().UnixNano()
	w, err := scan(ctx, j.g, j.place, j.state)
	if err != nil {
		return nil, err
	}
	nested, heads, err := j.nestedTrees(ctx, w)
	if err != nil {
		return nil, err
	}
	key := rulesKey(j.place, j.rules, w)
	now := &cache{Start: start, Nested: heads, Rules: key}
	if old != nil && old.same(w, heads, key) {
		now.Tree, now.Links, now.Skipped, now.Partial = old.Tree, old.Links, old.Skipped, old.Partial
		return j.result(w, now, nested), nil
	}
	// Until the new one is written, the old cache must not vouch for the index.
	os.Remove(j.statPath)
	if w, err = j.update(ctx, old, now, w); err != nil {
		return nil, err
	}
	if now.Tree, err = j.writeTree(ctx, w, now); err != nil {
		return nil, err
	}
	now.Files, now.Skipped, now.Partial = w.files, j.skipped, j.partial
	now.Rules = rulesKey(j.place, j.rules, w)
	if err := now.save(j.statPath); err != nil {
		return nil, err
	}
	return j.result(w, now, nested), nil
}

func (j *job) result(w *walk, c *cache, nested []*measured) *measured {
	out := &measured{place: j.place, tree: c.Tree, walk: w, links: c.Links, nested: nested,
		files: len(w.files), partial: w.partial || c.Partial}
	for _, st := range w.files {
		out.bytes += st.Size
	}
	out.skipped = append(w.skips(), c.Skipped...)
	for _, n := range nested {
		at := strings.TrimPrefix(strings.TrimPrefix(n.place.dir, j.place.dir), "/")
		for _, s := range n.skipped {
			out.skipped = append(out.skipped, Skip{Path: joinPath(at, s.Path), Why: s.Why})
		}
		out.files += n.files
		out.bytes += n.bytes
		out.partial = out.partial || n.partial
	}
	if j.place.broken != "" {
		out.skipped = append(out.skipped, Skip{Path: ".git", Why: j.place.broken})
		out.partial = true
	}
	return out
}

// nestedTrees measures the repositories within, each by its own rules.
func (j *job) nestedTrees(ctx context.Context, w *walk) ([]*measured, map[string]string, error) {
	var trees []*measured
	heads := map[string]string{}
	for _, path := range w.nested {
		p, err := locate(ctx, w.abs(path))
		if err != nil {
			return nil, nil, err
		}
		if p.prefix != "" {
			// Its .git is broken, and git found the outer one.
			p = place{dir: p.dir, top: p.dir, format: j.place.format, broken: "repository can't be used"}
		}
		heads[path] = ""
		if p.format == j.place.format {
			heads[path] = p.head
		}
		t, err := j.measure(ctx, p)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("nested repository %q: %w", path, err)
		}
		trees = append(trees, t)
	}
	return trees, heads, nil
}

// writeTree writes the index as a tree; of a subdirectory, that part of it.
func (j *job) writeTree(ctx context.Context, w *walk, c *cache) (string, error) {
	if j.place.prefix == "" {
		return j.g.line(ctx, nil, "write-tree")
	}
	out, err := j.g.run(ctx, nil, inPrefix(j.place, "ls-files", "-z")...)
	if err != nil {
		return "", err
	}
	if len(out) == 0 {
		return j.g.line(ctx, nil, "mktree")
	}
	return j.g.line(ctx, nil, "write-tree", "--prefix="+j.place.prefix)
}
