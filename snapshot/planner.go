package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// planner compares a snapshot with what is on disk.
type planner struct {
	plan    *Plan
	root    *os.Root
	present map[string]*entry // what the trees of the present hold, nested ones too
	empty   map[string]uint32 // folders with nothing in them, and their modes
	wanted  map[string]bool   // paths of the snapshot
	size    int
}

// selectedOrGone is selected, but a path that the snapshot doesn't have may be
// meant to be deleted; then nothing of the snapshot is wanted for it.
func selectedOrGone(parts []*part, only []string, snap Snapshot) error {
	err := selected(parts, only)
	if errors.Is(err, ErrNotFound) && len(only) > 0 {
		return fmt.Errorf("snapshot %s: %w", snap.ID, err)
	}
	return err
}

// gather lists what the present trees hold, of the repositories that the
// snapshot knows too: another's files are none of its business.
func (p *planner) gather(t *measured, at string, parts []*part) {
	known := false
	for _, part := range parts {
		known = known || part.at == at
	}
	if !known {
		return
	}
	t.scan.top.each(func(f *folder) {
		if f.path != "" && f.names == 0 && !f.ignored {
			p.empty[path.Join(at, f.path)] = f.perm
		}
		for i := range f.entries {
			e := &f.entries[i]
			if e.folder == nil && !e.id.zero() && !e.absent && e.out == "" && (e.kind == kindFile || e.kind == kindLink) && (!e.ignored || e.forced || e.opted) {
				p.present[path.Join(at, f.path, e.name)] = e
			}
		}
	})
	for _, n := range t.nested {
		inner := strings.TrimPrefix(strings.TrimPrefix(n.place.dir, t.place.dir), "/")
		p.gather(n, path.Join(at, inner), parts)
	}
}

func (p *planner) add(s Step) { p.plan.Steps = append(p.plan.Steps, s) }

// clockTick is by how much a file's times may lag behind the clock: file systems take them from the kernel's last tick,
// and the longest is that of 100 a second.
const clockTick = 10 * time.Millisecond

// newer tells whether a file was written, or put there, after the snapshot. It is asked of files that differ from the
// snapshot: one whose time is that of the snapshot's own tick was written after it was read.
func (p *planner) newer(st fileStat) bool {
	at := p.plan.Snapshot.At.Add(-clockTick).UnixNano()
	return st.Mtime > at || st.Ctime > at
}

// want plans one file of the snapshot.
func (p *planner) want(part *part, f tracked) error {
	if f.mode == "160000" {
		return nil
	}
	name := path.Join(part.at, f.path)
	p.wanted[name] = true
	inTheWay, err := p.inTheWay(name)
	if err != nil {
		return err
	}
	st, err := rootStat(p.root, name)
	if inTheWay || errors.Is(err, fs.ErrNotExist) {
		p.add(Step{Path: name, Action: StepAdd})
		return nil
	}
	if err != nil {
		return err
	}
	step := Step{Path: name, Action: StepReplace, Newer: p.newer(st), was: st}
	e := p.present[name]
	switch {
	case kindOf(st.Mode) == kindFolder:
		// What is in it is planned by itself; only an empty one gives way.
		step.Newer = false
	case e == nil:
		step.Unkept = true
	case e.id.text(p.size) == f.oid && (e.kind == kindLink) == (f.mode == "120000"):
		if e.kind == kindLink || st.Mode&0o777 == part.perm(f) {
			return nil
		}
		step.Action = StepMode
	}
	p.add(step)
	return nil
}

// inTheWay tells whether something that is no folder, a link above all, stands
// where a folder of the path belongs. It gives way, which is a step of its own.
func (p *planner) inTheWay(name string) (bool, error) {
	for _, dir := range parents(name) {
		st, err := rootStat(p.root, dir)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if kindOf(st.Mode) == kindFolder {
			continue
		}
		if !p.wanted[dir] {
			p.wanted[dir] = true
			p.add(Step{Path: dir, Action: StepReplace, Newer: p.newer(st), Unkept: p.present[dir] == nil, was: st})
		}
		return true, nil
	}
	return false, nil
}

// wantFolders plans the modes of the folders that are there already.
func (p *planner) wantFolders(part *part) {
	seen := map[string]bool{}
	want := func(dir string) {
		name := path.Join(part.at, dir)
		if seen[name] || !p.selects(name) {
			return
		}
		seen[name] = true
		st, err := rootStat(p.root, name)
		if err == nil && kindOf(st.Mode) == kindFolder && st.Mode&0o7777 != part.folderPerm(dir) {
			p.add(Step{Path: name, Action: StepMode, was: st})
		}
	}
	for _, f := range part.files {
		for _, dir := range parents(f.path) {
			want(dir)
		}
	}
	for dir := range part.dirs {
		want(dir)
	}
}

// parents lists the folders above a path, the outermost first.
func parents(name string) []string {
	var out []string
	for i := range len(name) {
		if name[i] == '/' {
			out = append(out, name[:i])
		}
	}
	return out
}

func (p *planner) wantEmpty(part *part) {
	for dir := range part.empty {
		name := path.Join(part.at, dir)
		if st, err := rootStat(p.root, name); err != nil || kindOf(st.Mode) != kindFolder {
			if err == nil && p.present[name] == nil {
				continue // something unknown is in its place
			}
			p.add(Step{Path: name, Action: StepAdd})
		}
		p.wanted[name] = true
	}
}

// rootStat is lstat within a root that no link leads out of.
func rootStat(root *os.Root, name string) (fileStat, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return fileStat{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileStat{}, fmt.Errorf("%q: %w", name, errors.ErrUnsupported)
	}
	return fileStat{Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano(), Ino: st.Ino, Mode: st.Mode}, nil
}

// planDeletions plans what the snapshot doesn't have.
func (s *Store) planDeletions(ctx context.Context, p *planner, earlier []Snapshot) error {
	candidates := map[string]bool{}
	for name, e := range p.present {
		if p.wanted[name] || !p.selects(name) || p.untold(name) || e.ignored && !e.forced {
			continue
		}
		candidates[name] = false
	}
	above := map[string]bool{}
	for name := range p.wanted {
		for _, dir := range parents(name) {
			above[dir] = true
		}
	}
	for name := range p.empty {
		if !p.wanted[name] && p.selects(name) && !p.untold(name) && !above[name] {
			candidates[name] = false
		}
	}
	if err := s.recorded(ctx, candidates, earlier, len(p.empty) == 0); err != nil {
		return err
	}
	for name, known := range candidates {
		if perm, ok := p.empty[name]; ok {
			if known {
				p.add(Step{Path: name, Action: StepDelete, was: fileStat{Mode: unix.S_IFDIR | perm}})
			}
			continue
		}
		st := p.present[name].st
		step := Step{Path: name, Action: StepKeep, Newer: p.newer(st), was: st}
		if known {
			step.Action = StepDelete
		}
		p.add(step)
	}
	return nil
}

func (p *planner) selects(name string) bool {
	if len(p.plan.only) == 0 {
		return true
	}
	for _, o := range p.plan.only {
		if c := path.Clean(o); c == "." || within(c, name) {
			return true
		}
	}
	return false
}

// untold tells whether the snapshot itself says that it doesn't know the path.
func (p *planner) untold(name string) bool {
	for _, s := range p.plan.Snapshot.Skipped {
		if within(s.Path, shown(name)) {
			return true
		}
	}
	return false
}

// recorded marks those of the names that a snapshot has. Where only files are
// asked for, snapshots of one tree are looked at once.
func (s *Store) recorded(ctx context.Context, names map[string]bool, snaps []Snapshot, files bool) error {
	missing := len(names)
	seen := map[string]bool{}
	for _, snap := range snaps {
		if missing == 0 {
			return nil
		}
		key := snap.Repo + snap.Tree + snap.Nested
		if files && seen[key] {
			continue
		}
		seen[key] = true
		parts, err := s.parts(ctx, snap)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			continue // pruned meanwhile: what it had counts as unknown
		}
		mark := func(name string) {
			if known, asked := names[name]; asked && !known {
				names[name] = true
				missing--
			}
		}
		for _, part := range parts {
			for _, f := range part.files {
				mark(path.Join(part.at, f.path))
			}
			for dir := range part.empty {
				mark(path.Join(part.at, dir))
			}
		}
	}
	return nil
}
