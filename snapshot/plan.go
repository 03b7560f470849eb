package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"syscall"
)

// What a step of a plan does to a path.
const (
	StepAdd     = "add"     // it isn't there
	StepReplace = "replace" // it has other content, or is of another kind
	StepMode    = "mode"    // only its mode differs
	StepDelete  = "delete"  // the snapshot doesn't have it, and an earlier one recorded it
	StepKeep    = "keep"    // the snapshot doesn't have it, nor does any: it stays
)

// Step is one path of a plan.
type Step struct {
	Path   string `json:"path"`
	Action string `json:"action"`
	// Newer: it was written after the snapshot, so that a restore takes
	// something away.
	Newer bool `json:"newer,omitempty"`
	// Unkept: what is there belongs to no tree (it is ignored, say), so that
	// the snapshot of the present has to be told to keep it.
	Unkept bool `json:"unkept,omitempty"`

	was fileStat // zero where there was nothing
}

// Plan is what a restore in place would do.
type Plan struct {
	Snapshot Snapshot
	Dir      string
	Steps    []Step // sorted by path

	parts []*part
	only  []string
}

// Conflicts are the steps that would take away what is newer than the
// snapshot, or what no snapshot holds.
func (p *Plan) Conflicts() []Step {
	var out []Step
	for _, s := range p.Steps {
		if s.Action != StepKeep && (s.Newer || s.Unkept) {
			out = append(out, s)
		}
	}
	return out
}

// Changes counts the steps that do something.
func (p *Plan) Changes() int {
	n := 0
	for _, s := range p.Steps {
		if s.Action != StepKeep {
			n++
		}
	}
	return n
}

// Unkept are globs that make a snapshot keep what it otherwise would not.
func (p *Plan) Unkept() []string {
	var out []string
	for _, s := range p.Steps {
		if s.Unkept {
			out = append(out, escapeGlob(s.Path))
		}
	}
	return out
}

func escapeGlob(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if strings.IndexByte(`*?[]{}\`, name[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

// planner compares a snapshot with what is on disk.
type planner struct {
	plan    *Plan
	root    *os.Root
	present map[string]*entry // what the trees of the present hold, nested ones too
	wanted  map[string]bool   // paths of the snapshot
	size    int
}

// PlanRequest says where a snapshot is to be brought back.
type PlanRequest struct {
	Dir     string
	Only    []string // files and folders, relative to Dir; empty for all
	Include []string // globs of ignored files that are snapshotted too
	// Earlier are the workspace's snapshots: only what one of them recorded is
	// ever deleted.
	Earlier []Snapshot
}

// PlanRestore says what bringing the snapshot back into its workspace's
// directory would do. Nothing is written.
func (s *Store) PlanRestore(ctx context.Context, snap Snapshot, r PlanRequest) (*Plan, error) {
	only := r.Only
	parts, err := s.parts(ctx, snap)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if err := selectedOrGone(parts, only, snap); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	place, m, done, err := s.open(ctx, snap.Workspace, r.Dir)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	defer done()
	m.include = r.Include
	t, err := m.measure(ctx, place)
	if err == nil {
		_, err = m.keep()
	}
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	root, err := os.OpenRoot(place.dir)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	defer root.Close()
	p := &planner{plan: &Plan{Snapshot: snap, Dir: place.dir, parts: parts, only: only}, root: root,
		present: map[string]*entry{}, wanted: map[string]bool{}, size: m.size}
	p.gather(t, "", parts)
	for _, part := range parts {
		for _, f := range part.files {
			if err := p.want(part, f); err != nil {
				return nil, fmt.Errorf("restore: %q: %w", f.path, err)
			}
		}
		p.wantEmpty(part)
	}
	if err := s.planDeletions(ctx, p, r.Earlier); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	sort.Slice(p.plan.Steps, func(a, b int) bool { return p.plan.Steps[a].Path < p.plan.Steps[b].Path })
	return p.plan, nil
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

// newer tells whether a file was written, or put there, after the snapshot.
func (p *planner) newer(st fileStat) bool {
	at := p.plan.Snapshot.At.UnixNano()
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
	if err := s.recorded(ctx, candidates, earlier); err != nil {
		return err
	}
	for name, known := range candidates {
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

// recorded marks those of the names that a snapshot has in its tree.
func (s *Store) recorded(ctx context.Context, names map[string]bool, snaps []Snapshot) error {
	missing := len(names)
	seen := map[string]bool{}
	for _, snap := range snaps {
		if missing == 0 {
			return nil
		}
		if key := snap.Repo + snap.Tree + snap.Nested; seen[key] {
			continue
		} else {
			seen[key] = true
		}
		parts, err := s.parts(ctx, snap)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			continue // pruned meanwhile: what it had counts as unknown
		}
		for _, part := range parts {
			for _, f := range part.files {
				name := path.Join(part.at, f.path)
				if known, asked := names[name]; asked && !known {
					names[name] = true
					missing--
				}
			}
		}
	}
	return nil
}

// Applied is what a restore in place did.
type Applied struct {
	Written, Deleted int
	// Notes say what was left as it is, and why.
	Notes []string
}

// Apply carries out a plan. A path that changed since it was made is left as
// it is, and said.
func (s *Store) Apply(ctx context.Context, p *Plan, progress func(done, total int)) (Applied, error) {
	var out Applied
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return out, fmt.Errorf("restore: %w", err)
	}
	defer root.Close()
	write := map[string]bool{}
	var modes, deletions []Step
	for _, step := range p.Steps {
		if step.Action == StepKeep {
			continue
		}
		if why := moved(root, step); why != "" {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: %s: left as it is", shown(step.Path), why))
			continue
		}
		switch step.Action {
		case StepDelete:
			deletions = append(deletions, step)
		case StepMode:
			modes = append(modes, step)
		default:
			write[step.Path] = true
		}
	}
	// Deletions first: a file may have to give way to a folder.
	for _, step := range deletions {
		if err := root.Remove(step.Path); err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: %v", shown(step.Path), err))
			continue
		}
		out.Deleted++
	}
	p.removeEmptied(root, deletions)
	hook("restore-deleted")
	r := &restorer{root: root, git: s.git(p.Snapshot.Repo), dirs: map[string]bool{}, opened: map[string]fs.FileMode{}, progress: progress}
	err = r.run(ctx, p.parts, RestoreOptions{Only: p.only, write: write})
	out.Written = int(r.count.Load())
	perms := p.perms()
	for _, step := range modes {
		if e := root.Chmod(step.Path, fileMode(perms[step.Path])); e != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: %v", shown(step.Path), e))
			continue
		}
		out.Written++
	}
	if err != nil {
		return out, fmt.Errorf("restore: %w", err)
	}
	return out, nil
}

func (p *Plan) perms() map[string]uint32 {
	out := map[string]uint32{}
	for _, part := range p.parts {
		for _, f := range part.files {
			out[path.Join(part.at, f.path)] = part.perm(f)
		}
	}
	return out
}

// moved says why a path is no longer as the plan saw it, "" if it is.
func moved(root *os.Root, step Step) string {
	st, err := rootStat(root, step.Path)
	switch {
	case step.was == fileStat{}:
		if err == nil && kindOf(st.Mode) != kindFolder {
			return "it was made meanwhile"
		}
	case err != nil:
		return "it went away meanwhile"
	case kindOf(st.Mode) == kindFolder && kindOf(step.was.Mode) == kindFolder:
	case st != step.was:
		return "it changed meanwhile"
	}
	return ""
}

// removeEmptied removes the folders that deletions left empty, unless the
// snapshot has them.
func (p *Plan) removeEmptied(root *os.Root, deletions []Step) {
	keep := map[string]bool{}
	for _, part := range p.parts {
		for dir := range part.dirs {
			keep[path.Join(part.at, dir)] = true
		}
		for dir := part.at; dir != "" && dir != "."; dir = path.Dir(dir) {
			keep[dir] = true
		}
	}
	for _, step := range deletions {
		for dir := path.Dir(step.Path); dir != "." && !keep[dir]; dir = path.Dir(dir) {
			if root.Remove(dir) != nil { // not empty
				break
			}
		}
	}
}
