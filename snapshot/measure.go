package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// measurer turns directories into trees of one snapshot repository.
type measurer struct {
	store   git
	area    string // folder for the stat caches
	caches  *caches
	state   string
	size    int // of an object id in the store
	pack    *packer
	include []string
	budget  *budget
	// saves are done once the pack is in the store: a stat cache must not
	// vouch for objects that aren't.
	saves []func() error
	// shallow are commits whose parents the store lacks, of what was linked.
	shallow []string
}

// measured is one directory as a tree.
type measured struct {
	place  place
	tree   string
	scan   *scan
	staged []tracked // the user's index, nil where it wasn't read
	known  string    // identifies the user's index; "" where it may change unseen
	keptAt string    // file that says what became of it in the last snapshot
	nested []*measured
	opted  *folder // files kept although ignored, nil without any

	files   int
	bytes   int64
	skipped []Skip
	partial bool
}

// making is the making of one tree.
type making struct {
	*measurer
	place place
	rules []byte
	// readRules fills rules and ignorer, once.
	readRules func() error
	ignorer   ignorer
	statPath  string
	old, now  *cache
	scan      *scan
	heads     map[string]objectID
	skipped   []omission
	index     *indexRead // under way where the user's index or HEAD changed
	staged    []tracked  // what it gave; nil where the cache served
}

// indexRead is the reading of what the user's repository knows, beside the scan.
type indexRead struct {
	done   chan struct{}
	known  map[string]tracked
	staged []tracked
	notes  []Skip
	err    error
}

// measure makes the tree of p's directory, and those of the repositories in it.
func (m *measurer) measure(ctx context.Context, p place) (*measured, error) {
	base := filepath.Join(m.area, hashID(p.top+"\x00"+p.prefix))
	j := &making{measurer: m, place: p, statPath: base + ".stat"}
	// Reading the person's configuration takes as long as half a scan: it
	// goes on beside it.
	j.readRules = sync.OnceValue(func() error { return j.loadRules(ctx, base) })
	rules := make(chan struct{})
	go func() { defer close(rules); _ = j.readRules() }()
	defer func() { <-rules; j.ignorer.close() }()
	root, err := unix.Open(p.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("directory %q: %w", p.dir, err)
	}
	defer unix.Close(root)
	for range attempts {
		var out *measured
		if out, err = j.try(ctx, root); err == nil {
			return out, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// Something was replaced under us, or the cache is of another
		// world: from nothing again.
		os.Remove(j.statPath)
	}
	return nil, err
}

// loadRules gathers the rules that are in no .gitignore, for git to go by.
func (j *making) loadRules(ctx context.Context, base string) error {
	j.rules = j.place.excludeRules(ctx)
	excludes := base + ".exclude"
	if old, err := os.ReadFile(excludes); err != nil || string(old) != string(j.rules) {
		if err := replaceFile(excludes, j.rules); err != nil {
			return fmt.Errorf("ignore rules: %w", err)
		}
	}
	j.ignorer.g = git{dir: j.store.dir, work: j.place.top, index: base + ".none", cwd: j.place.top, excludes: excludes}
	return nil
}

// ask is the ignorer's, once the rules are there.
func (j *making) ask(ctx context.Context, paths []string) ([]bool, error) {
	if err := j.readRules(); err != nil {
		return nil, err
	}
	return j.ignorer.ask(ctx, paths)
}

func (j *making) try(ctx context.Context, root int) (*measured, error) {
	j.skipped = nil
	j.old = j.caches.load(j.statPath, j.size)
	if j.old != nil && j.old.Generation != generation(j.store.dir) {
		j.old = nil
	}
	j.now = &cache{Start: time.Now().UnixNano(), Generation: generation(j.store.dir)}
	j.now.Known = j.knownKey()
	j.startIndex(ctx)
	defer j.endIndex()
	if err := j.walk(ctx, root); err != nil {
		return nil, err
	}
	if err := j.settle(ctx); err != nil {
		return nil, err
	}
	nested, err := j.nestedTrees(ctx)
	if err != nil {
		return nil, err
	}
	j.addForced()
	if err := j.addAbsent(ctx); err != nil {
		return nil, err
	}
	if j.old != nil && (len(j.old.Absent)+len(j.now.Absent) > 0 || !slices.Equal(j.old.Forced, j.now.Forced)) {
		j.scan.top.each(func(f *folder) { f.same = false })
	}
	jobs := j.jobs()
	j.adopt(ctx, jobs)
	r := &reader{ctx: ctx, root: root, pack: j.pack, budget: j.budget}
	if err := r.readAll(jobs); err != nil {
		return nil, err
	}
	j.skipped = r.skipped
	t := &trees{pack: j.pack, c: newCompressor(), old: j.old, heads: j.heads}
	if err := t.write(j.scan.top); err != nil {
		return nil, err
	}
	j.now.top = j.scan.top
	// A scan that read nothing has nothing new to say, but that the cache's
	// rules may be relied on by now.
	if len(jobs) > 0 || j.old == nil || j.old.Rules != j.now.Rules || j.old.Known != j.now.Known || !sameTree(j.old, j.now) {
		now := j.now
		j.saves = append(j.saves, func() error { return j.caches.save(j.statPath, now, j.size) })
	}
	return j.result(nested), nil
}

func sameTree(a, b *cache) bool {
	return a.top.tree == b.top.tree && len(a.top.entries) == len(b.top.entries)
}

// walk scans the directory. What is ignored is taken from the last scan unless
// a rule changed since, which only a scan can show.
func (j *making) walk(ctx context.Context, root int) error {
	trusted := j.old != nil && j.old.Rules != ""
	for {
		j.scan = &scan{place: j.place, state: j.state, include: j.include, root: root, old: j.old, trusted: trusted, ask: j.ask}
		if err := j.scan.run(ctx); err != nil {
			return err
		}
		if err := j.readRules(); err != nil {
			return err
		}
		j.now.Rules = j.rulesKey()
		if !trusted || j.now.Rules == j.old.Rules {
			return nil
		}
		trusted = false
		j.ignorer.close() // it keeps the rules that it read
	}
}

// rulesKey hashes what decides what is ignored; "" where that was written so
// shortly ago that it may be written again without a trace.
func (j *making) rulesKey() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q\n", j.place.dir, j.place.prefix, j.include)
	h.Write(j.rules)
	for dir := filepath.Dir(j.place.dir); j.place.prefix != "" && within(j.place.top, dir); dir = filepath.Dir(dir) {
		text, _ := os.ReadFile(filepath.Join(dir, ".gitignore"))
		fmt.Fprintf(h, "%q %q\n", dir, text)
	}
	sort.Slice(j.scan.rules, func(a, b int) bool { return j.scan.rules[a].path < j.scan.rules[b].path })
	for _, r := range j.scan.rules {
		if !r.st.before(j.now.Start) {
			return ""
		}
		fmt.Fprintf(h, "%q %v\n", r.path, r.st)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// settle finds the tracked paths that the scan doesn't show, anew where the
// user's index, HEAD or a rule changed.
func (j *making) settle(ctx context.Context) error {
	if j.index == nil && j.now.Rules != "" && j.old.Rules == j.now.Rules {
		j.now.Forced, j.now.Absent, j.now.Notes = j.old.Forced, j.old.Absent, j.old.Notes
		return nil
	}
	return j.settleKnown(ctx)
}

// startIndex begins to read what is tracked, where it changed since the cache.
func (j *making) startIndex(ctx context.Context) {
	j.index, j.staged = nil, nil
	if j.old != nil && j.now.Known != "" && j.old.Known == j.now.Known {
		return
	}
	read := &indexRead{done: make(chan struct{})}
	j.index = read
	go func() {
		defer close(read.done)
		read.err = read.run(ctx, j.place)
	}()
}

// endIndex waits for the reading: nothing of it outlives the try.
func (j *making) endIndex() {
	if j.index != nil {
		<-j.index.done
	}
}

func (j *making) knownKey() string {
	if !j.place.isRepo() {
		return "none"
	}
	var st unix.Stat_t
	// A missing index is a state like any other.
	_ = unix.Lstat(filepath.Join(j.place.gitDir, "index"), &st)
	if !statOf(&st).before(j.now.Start) {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %v\n", j.place.gitDir, j.place.head, statOf(&st))
	return hex.EncodeToString(h.Sum(nil))
}

// jobs lists what has to be read, and marks what is opted in.
func (j *making) jobs() []job {
	var jobs []job
	j.scan.top.each(func(f *folder) {
		for i := range f.entries {
			e := &f.entries[i]
			if e.known && !e.ignored {
				continue
			}
			path := joinPath(f.path, e.name)
			if e.ignored && !e.forced && len(j.include) > 0 && (e.kind == kindFile || e.kind == kindLink) {
				e.opted = included(j.include, path)
			}
			if e.absent || e.out != "" || e.ignored && !e.forced && !e.opted {
				continue
			}
			if why := e.kind.special(); why != "" {
				e.out = why
				j.scan.skip(path, why, true)
				continue
			}
			if (e.kind == kindFile || e.kind == kindLink) && !e.known {
				jobs = append(jobs, job{path, e})
			}
		}
	})
	return jobs
}

// keep puts the new objects into the store, and then what is known of them.
// It returns the bytes that they take.
func (m *measurer) keep() (int64, error) {
	n, err := m.pack.finish()
	if err != nil {
		return 0, err
	}
	for _, save := range m.saves {
		if err := save(); err != nil {
			return n, err
		}
	}
	m.saves = nil
	return n, nil
}

// nestedTrees measures the repositories within, each by its own rules.
func (j *making) nestedTrees(ctx context.Context) ([]*measured, error) {
	var trees []*measured
	j.heads = map[string]objectID{}
	sort.Strings(j.scan.nested)
	for _, path := range j.scan.nested {
		p, err := locate(ctx, filepath.Join(j.place.dir, path))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if p.prefix != "" {
			// Its .git is broken, and git found the outer one.
			p = place{dir: p.dir, top: p.dir, format: j.place.format, broken: "repository can't be used"}
		}
		if id, ok := parseID(p.head); ok && p.format == j.place.format {
			j.heads[path] = id
		}
		inner := *j.measurer
		inner.include = nil // globs are of the workspace's own files
		t, err := inner.measure(ctx, p)
		j.saves, j.shallow = inner.saves, inner.shallow
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("nested repository %q: %w", path, err)
		}
		trees = append(trees, t)
	}
	return trees, nil
}
