package snapshot

import (
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// part is one tree of a snapshot and where it belongs: the main one at "", the
// opted-in files beside it, and the same for each nested repository.
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
	return partsBelow(ctx, s.git(snap.Repo), snap.Commit+":", "")
}

func partsBelow(ctx context.Context, g git, root, at string) ([]*part, error) {
	out, err := g.run(ctx, nil, "ls-tree", "-z", "--name-only", "--full-tree", root)
	if err != nil {
		return nil, err
	}
	has := map[string]bool{}
	for _, name := range fields(out) {
		has[name] = true
	}
	p, err := readPart(ctx, g, root, at, "tree", "modes")
	if err != nil {
		return nil, err
	}
	list := []*part{p}
	if has["included"] {
		if p, err = readPart(ctx, g, root, at, "included", "included-modes"); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	if !has["nested"] {
		return list, nil
	}
	names, err := g.run(ctx, nil, "ls-tree", "-z", "--name-only", "--full-tree", root+"nested")
	if err != nil {
		return nil, err
	}
	for _, name := range fields(names) {
		inner := root + "nested/" + name + "/"
		where, err := g.run(ctx, nil, "cat-file", "blob", inner+"path")
		if err != nil {
			return nil, err
		}
		more, err := partsBelow(ctx, g, inner, path.Join(at, string(where)))
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

func readPart(ctx context.Context, g git, root, at, tree, modes string) (*part, error) {
	p := &part{at: at, root: root, modes: map[string]uint32{}, dirs: map[string]uint32{}, empty: map[string]bool{}}
	out, err := g.run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", root+tree)
	if err != nil {
		return nil, err
	}
	for _, line := range fields(out) {
		if t, ok := parseTree(line); ok {
			p.files = append(p.files, t)
		}
	}
	data, err := g.run(ctx, nil, "cat-file", "blob", root+modes)
	if err != nil {
		return nil, err
	}
	p.readModes(data)
	return p, nil
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

// perm is the mode bits that a file has.
func (p *part) perm(f tracked) uint32 {
	if perm, ok := p.modes[f.path]; ok {
		return perm
	}
	if f.mode == "100755" {
		return 0o755
	}
	return 0o644
}

// folderPerm is the mode bits that a folder has.
func (p *part) folderPerm(dir string) uint32 {
	if perm, ok := p.dirs[dir]; ok {
		return perm
	}
	return 0o755
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
				delete(p.dirs, dir)
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
