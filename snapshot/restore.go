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
	"strconv"
	"strings"
)

// part is one tree of a snapshot and where it belongs: the main one at "", and
// one for each nested repository.
type part struct {
	at    string
	root  string // revision of its folder in the commit
	files []tracked
	modes map[string]uint32
	dirs  map[string]uint32 // folders with a mode of their own
	empty map[string]bool   // of dirs, those to be made although nothing is in them
}

// parts lists a snapshot's trees.
func (s *Store) parts(ctx context.Context, snap Snapshot) ([]*part, error) {
	if !repoID(snap.Repo) || !hexID(snap.Commit) {
		return nil, fmt.Errorf("snapshot %s: %w", snap.ID, ErrNotFound)
	}
	return s.partsBelow(ctx, s.git(snap.Repo), snap.Commit+":", "")
}

func (s *Store) partsBelow(ctx context.Context, g git, root, at string) ([]*part, error) {
	p := &part{at: at, root: root, modes: map[string]uint32{}, dirs: map[string]uint32{}, empty: map[string]bool{}}
	out, err := g.run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", root+"tree")
	if err != nil {
		return nil, err
	}
	for _, line := range fields(out) {
		if t, ok := parseTree(line); ok {
			p.files = append(p.files, t)
		}
	}
	modes, err := g.run(ctx, nil, "cat-file", "blob", root+"modes")
	if err != nil {
		return nil, err
	}
	p.readModes(modes)
	list := []*part{p}
	names, err := g.run(ctx, nil, "ls-tree", "-z", "--name-only", "--full-tree", root)
	if err != nil || !strings.Contains("\x00"+string(names), "\x00nested\x00") {
		return list, err
	}
	if names, err = g.run(ctx, nil, "ls-tree", "-z", "--name-only", "--full-tree", root+"nested"); err != nil {
		return nil, err
	}
	for _, name := range fields(names) {
		inner := root + "nested/" + name + "/"
		where, err := g.run(ctx, nil, "cat-file", "blob", inner+"path")
		if err != nil {
			return nil, err
		}
		more, err := s.partsBelow(ctx, g, inner, path.Join(at, string(where)))
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

func (p *part) readModes(data []byte) {
	for _, line := range fields(data) {
		head, name, ok := strings.Cut(line, " ")
		if !ok || len(head) < 2 {
			continue
		}
		perm, err := strconv.ParseUint(head[1:], 8, 32)
		if err != nil {
			continue
		}
		if head[0] == 'f' {
			p.modes[name] = uint32(perm)
			continue
		}
		p.dirs[name] = uint32(perm)
		if head[0] == 'e' {
			p.empty[name] = true
		}
	}
}

// Cat writes a file of the snapshot to w; of a symlink, its target.
func (s *Store) Cat(ctx context.Context, snap Snapshot, name string, w io.Writer) error {
	parts, err := s.parts(ctx, snap)
	if err != nil {
		return fmt.Errorf("cat: %w", err)
	}
	want := path.Clean(name)
	for _, p := range parts {
		for _, f := range p.files {
			if path.Join(p.at, f.path) == want && f.mode != "160000" {
				return s.git(snap.Repo).stream(ctx, strings.NewReader(""), w, "cat-file", "blob", f.oid)
			}
		}
	}
	return fmt.Errorf("snapshot %s: path %q: %w", snap.ID, name, ErrNotFound)
}

// Restore writes the snapshot's files below dest and returns how many. dest
// must be absent or empty unless overwrite, which replaces files but deletes
// none that the snapshot doesn't have. only limits it to files and folders.
// Nothing is written outside of dest, whatever links lie in it.
func (s *Store) Restore(ctx context.Context, snap Snapshot, dest string, only []string, overwrite bool) (int, error) {
	parts, err := s.parts(ctx, snap)
	if err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	if err := selected(parts, only); err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	if err := prepare(dest, overwrite); err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	root, err := os.OpenRoot(dest)
	if err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	defer root.Close()
	objects, err := openObjects(ctx, s.git(snap.Repo))
	if err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	defer objects.close()
	r := &restorer{root: root, objects: objects, dirs: map[string]bool{}, opened: map[string]fs.FileMode{}}
	for _, p := range parts {
		if err := r.part(ctx, p, len(only) == 0); err != nil {
			return r.count, fmt.Errorf("restore: %w", err)
		}
	}
	for _, p := range parts {
		r.finish(p)
	}
	if err := errors.Join(r.failed...); err != nil {
		return r.count, fmt.Errorf("restore: %w", err)
	}
	return r.count, nil
}

// selected keeps of the parts what only names; a name that fits nothing is an
// error.
func selected(parts []*part, only []string) error {
	if len(only) == 0 {
		return nil
	}
	used := map[string]bool{}
	wanted := func(name string) bool {
		hit := false
		for _, o := range only {
			if c := path.Clean(o); c == "." || within(c, name) {
				used[o], hit = true, true
			}
		}
		return hit
	}
	for _, p := range parts {
		kept := p.files[:0]
		for _, f := range p.files {
			if wanted(path.Join(p.at, f.path)) {
				kept = append(kept, f)
			}
		}
		p.files = kept
		for dir := range p.empty {
			if !wanted(path.Join(p.at, dir)) {
				delete(p.empty, dir)
			}
		}
	}
	for _, o := range only {
		if !used[o] {
			return fmt.Errorf("path %q: %w", o, ErrNotFound)
		}
	}
	return nil
}

func prepare(dest string, overwrite bool) error {
	entries, err := os.ReadDir(dest)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dest, 0o755)
	}
	if err != nil {
		return err
	}
	if len(entries) > 0 && !overwrite {
		return fmt.Errorf("%q: %w", dest, ErrNotEmpty)
	}
	return nil
}

// restorer writes below one root. A path that can't be written is kept in
// failed, and the others are written all the same.
type restorer struct {
	root    *os.Root
	objects *objects
	dirs    map[string]bool        // folders known to be real folders
	opened  map[string]fs.FileMode // folders made writable meanwhile, and their mode before
	failed  []error
	count   int
}

func (r *restorer) part(ctx context.Context, p *part, whole bool) error {
	if p.at != "" && (whole || len(p.files) > 0) {
		if err := r.folder(p.at); err != nil {
			r.failed = append(r.failed, err)
		}
	}
	for _, f := range p.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.file(p, f); err != nil {
			r.failed = append(r.failed, fmt.Errorf("%q: %w", path.Join(p.at, f.path), err))
			continue
		}
		if f.mode != "160000" {
			r.count++
		}
	}
	for dir := range p.empty {
		if err := r.folder(path.Join(p.at, dir)); err != nil {
			r.failed = append(r.failed, fmt.Errorf("%q: %w", path.Join(p.at, dir), err))
		}
	}
	return nil
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
		r.opened[name] = info.Mode().Perm()
		err = r.root.Chmod(name, info.Mode().Perm()|0o700)
	}
	if err == nil {
		r.dirs[name] = true
	}
	return err
}

func (r *restorer) file(p *part, f tracked) error {
	name := path.Join(p.at, f.path)
	if f.mode == "160000" {
		return r.folder(name)
	}
	if err := r.folder(path.Dir(name)); err != nil {
		return err
	}
	if info, err := r.root.Lstat(name); err == nil && info.IsDir() {
		// Only an empty folder gives way: nothing of the user's is deleted.
		if err := r.root.Remove(name); err != nil {
			return fmt.Errorf("a folder that isn't empty is in its place: %w", err)
		}
	}
	temp := path.Join(path.Dir(name), ".perdure-"+rand.Text())
	if err := r.write(temp, f, fileMode(p, f)); err != nil {
		r.root.Remove(temp)
		return err
	}
	if err := r.root.Rename(temp, name); err != nil {
		r.root.Remove(temp)
		return err
	}
	return nil
}

func fileMode(p *part, f tracked) fs.FileMode {
	if perm, ok := p.modes[f.path]; ok {
		return fs.FileMode(perm)
	}
	if f.mode == "100755" {
		return 0o755
	}
	return 0o644
}

func (r *restorer) write(temp string, f tracked, perm fs.FileMode) error {
	if f.mode == "120000" {
		var target strings.Builder
		if _, err := r.objects.copy(f.oid, &target); err != nil {
			return err
		}
		return r.root.Symlink(target.String(), temp)
	}
	out, err := r.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = r.objects.copy(f.oid, out)
	if e := out.Chmod(perm); err == nil {
		err = e
	}
	if e := out.Close(); err == nil {
		err = e
	}
	return err
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
			modes[full] = fs.FileMode(perm)
		}
	}
	names := make([]string, 0, len(modes))
	for name := range modes {
		names = append(names, name)
	}
	sort.Slice(names, func(a, b int) bool { return len(names[a]) > len(names[b]) })
	for _, name := range names {
		if err := r.root.Chmod(name, modes[name]); err != nil {
			r.failed = append(r.failed, fmt.Errorf("%q: %w", name, err))
		}
	}
}
