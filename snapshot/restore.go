package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// Restore writes the snapshot's files below dest and returns how many. dest
// must be absent or empty unless overwrite, which replaces files but deletes
// none that the snapshot doesn't have. only limits it to files and folders.
// Nothing is written outside of dest, whatever links lie in it.
func (s *Store) Restore(ctx context.Context, snap Snapshot, dest string, only []string, overwrite bool) (int, error) {
	return s.RestoreTo(ctx, snap, RestoreOptions{Dest: dest, Only: only, Overwrite: overwrite})
}

// RestoreOptions say where and what to restore.
type RestoreOptions struct {
	Dest      string
	Only      []string // files and folders, relative to the workspace's directory
	Overwrite bool
	// Progress is told now and then how many of how many files are written.
	Progress func(done, total int)

	write map[string]bool // nil for all
}

// RestoreTo is Restore with more to say.
func (s *Store) RestoreTo(ctx context.Context, snap Snapshot, o RestoreOptions) (int, error) {
	parts, err := s.parts(ctx, snap)
	if err == nil {
		err = selected(parts, o.Only)
	}
	var fresh bool
	if err == nil {
		fresh, err = prepare(o.Dest, o.Overwrite)
	}
	if err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	root, err := os.OpenRoot(o.Dest)
	if err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	defer root.Close()
	r := &restorer{root: root, git: s.git(snap.Repo), fresh: fresh, dirs: map[string]bool{}, opened: map[string]fs.FileMode{}, progress: o.Progress}
	if err := r.run(ctx, parts, o); err != nil {
		return int(r.count.Load()), fmt.Errorf("restore: %w", err)
	}
	return int(r.count.Load()), nil
}

// prepare makes the destination where it is missing; fresh says that nothing
// is in it.
func prepare(dest string, overwrite bool) (fresh bool, err error) {
	entries, err := os.ReadDir(dest)
	if errors.Is(err, fs.ErrNotExist) {
		return true, os.MkdirAll(dest, 0o755)
	}
	if err != nil {
		return false, err
	}
	if len(entries) > 0 && !overwrite {
		return false, fmt.Errorf("%q: %w", dest, ErrNotEmpty)
	}
	return len(entries) == 0, nil
}

// restorer writes below one root. A path that can't be written is kept in
// failed, and the others are written all the same.
type restorer struct {
	root     *os.Root
	git      git
	fresh    bool                   // nothing was in the root: what is written replaces nothing
	dirs     map[string]bool        // folders known to be real folders
	opened   map[string]fs.FileMode // folders made writable meanwhile, and their mode before
	progress func(done, total int)

	mu     sync.Mutex
	failed []error
	count  atomic.Int64
	total  int
}

// target is one file to be written.
type target struct {
	name string // below the root
	oid  string
	link bool
	perm fs.FileMode
}

// batch is how many objects are asked for before the first answer is read; as
// many requests fit into a pipe.
const batch = 256

func (r *restorer) run(ctx context.Context, parts []*part, o RestoreOptions) error {
	var targets []target
	for _, p := range parts {
		targets = append(targets, r.folders(p, o)...)
	}
	r.total = len(targets)
	var stop atomic.Pointer[error]
	parallel((len(targets)+batch-1)/batch, func() func(int) {
		w := &restoreWorker{restorer: r, buf: make([]byte, 64<<10)}
		return func(i int) {
			if stop.Load() != nil {
				return
			}
			if err := w.write(ctx, targets[i*batch:min((i+1)*batch, len(targets))], i); err != nil {
				stop.Store(&err)
			}
		}
	})
	for _, p := range parts {
		r.finish(p)
	}
	if err := stop.Load(); err != nil {
		return *err
	}
	return errors.Join(r.failed...)
}

func (r *restorer) fail(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, fmt.Errorf("%q: %w", name, err))
}

// folders makes a part's folders, and gives the files to be written in them.
func (r *restorer) folders(p *part, o RestoreOptions) []target {
	var targets []target
	if p.at != "" && (len(o.Only) == 0 && o.write == nil || len(p.files) > 0 && o.write == nil) {
		if err := r.folder(p.at); err != nil {
			r.fail(p.at, err)
		}
	}
	for _, f := range p.files {
		name := path.Join(p.at, f.path)
		if o.write != nil && !o.write[name] {
			continue
		}
		dir := path.Dir(name)
		if f.mode == "160000" {
			dir = name
		}
		if err := r.folder(dir); err != nil {
			r.fail(name, err)
			continue
		}
		if f.mode != "160000" {
			targets = append(targets, target{name: name, oid: f.oid, link: f.mode == "120000", perm: fs.FileMode(p.perm(f))})
		}
	}
	for dir := range p.empty {
		name := path.Join(p.at, dir)
		if o.write != nil && !o.write[name] {
			continue
		}
		if err := r.folder(name); err != nil {
			r.fail(name, err)
		}
	}
	return targets
}

// folder makes a folder and those above it. What stands in its place and is
// no folder is replaced: a symlink there would lead the files elsewhere.
func (r *restorer) folder(name string) error {
	if name == "." || name == "" || r.dirs[name] {
		return nil
	}
	if err := r.folder(path.Dir(name)); err != nil {
		return err
	}
	info, err := r.root.Lstat(name)
	if err == nil && !info.IsDir() {
		if err = r.root.Remove(name); err == nil {
			err = fs.ErrNotExist
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = r.root.Mkdir(name, 0o755)
		if err == nil {
			err = r.root.Chmod(name, 0o755)
		}
	} else if err == nil && info.Mode().Perm()&0o300 != 0o300 {
		// It couldn't be written into; finish puts its mode back.
		r.opened[name] = info.Mode() & modeBits
		err = r.root.Chmod(name, info.Mode().Perm()|0o700)
	}
	if err == nil {
		r.dirs[name] = true
	}
	return err
}

// restoreWorker is one goroutine's process of git and open folder.
type restoreWorker struct {
	*restorer
	buf     []byte
	dir     *os.Root
	dirName string
}

func (w *restoreWorker) write(ctx context.Context, list []target, i int) error {
	objects, err := openObjects(ctx, w.git)
	if err != nil {
		return err
	}
	defer objects.close()
	var ask strings.Builder
	for _, t := range list {
		ask.WriteString(t.oid + "\n")
	}
	if _, err := io.WriteString(objects.in, ask.String()); err != nil {
		return err
	}
	defer func() {
		if w.dir != nil {
			w.dir.Close()
			w.dir = nil
		}
	}()
	for _, t := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, size, err := objects.head(t.oid)
		if err != nil {
			return err
		}
		content := &io.LimitedReader{R: objects.out, N: size}
		if err := w.file(t, content); err != nil {
			w.fail(t.name, err)
		} else {
			w.count.Add(1)
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return err
		}
		if err := objects.end(); err != nil {
			return err
		}
	}
	if w.progress != nil {
		w.progress(int(w.count.Load()), w.total)
	}
	return nil
}

// in gives the folder of a file, opened once for all that are in it.
func (w *restoreWorker) in(name string) (*os.Root, error) {
	dir := path.Dir(name)
	if w.dir != nil && w.dirName == dir {
		return w.dir, nil
	}
	if w.dir != nil {
		w.dir.Close()
		w.dir = nil
	}
	root, err := w.root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	w.dir, w.dirName = root, dir
	return root, nil
}

func (w *restoreWorker) file(t target, content io.Reader) error {
	root, err := w.in(t.name)
	if err != nil {
		return err
	}
	base := path.Base(t.name)
	if w.fresh {
		return w.create(root, base, t, content)
	}
	if info, err := root.Lstat(base); err == nil && info.IsDir() {
		// Only a folder without a file gives way: nothing of the user's is deleted.
		if err := giveWay(root, base); err != nil {
			return fmt.Errorf("a folder that isn't empty is in its place: %w", err)
		}
	}
	temp := ".perdure-" + rand.Text()
	if err := w.create(root, temp, t, content); err != nil {
		root.Remove(temp)
		return err
	}
	hook("restore-written")
	if err := root.Rename(temp, base); err != nil {
		root.Remove(temp)
		return err
	}
	return nil
}

// onlyWriter hides that a file can read by itself, which takes a buffer each time.
type onlyWriter struct{ io.Writer }

func (w *restoreWorker) create(root *os.Root, name string, t target, content io.Reader) error {
	if t.link {
		text, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		return root.Symlink(string(text), name)
	}
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(onlyWriter{out}, content, w.buf)
	if e := out.Chmod(t.perm); err == nil {
		err = e
	}
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}

const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// fileMode turns the mode bits of stat(2) into Go's.
func fileMode(perm uint32) fs.FileMode {
	m := fs.FileMode(perm & 0o777)
	for bit, mode := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if perm&bit != 0 {
			m |= mode
		}
	}
	return m
}

// finish gives folders their modes, the deepest first: one may forbid the
// change of what is in it.
func (r *restorer) finish(p *part) {
	modes := map[string]fs.FileMode{}
	for name, perm := range r.opened {
		modes[name] = perm
	}
	for name, perm := range p.dirs {
		if full := path.Join(p.at, name); r.dirs[full] {
			modes[full] = fileMode(perm)
		}
	}
	names := make([]string, 0, len(modes))
	for name := range modes {
		names = append(names, name)
	}
	sort.Slice(names, func(a, b int) bool { return len(names[a]) > len(names[b]) })
	for _, name := range names {
		if err := r.root.Chmod(name, modes[name]); err != nil {
			r.fail(name, err)
		}
	}
}
