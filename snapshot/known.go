package snapshot

import (
	"context"
	"path"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// tracked is one path that the user's repository knows, in HEAD or the index.
type tracked struct {
	mode, oid, path string // octal; hexadecimal; relative to the root of the working tree
	stage           string
	// sparse: marked skip-worktree, so that its absence is no deletion.
	sparse bool
	// assumed and intent are git's assume-unchanged and intent-to-add.
	assumed, intent bool
}

func parseTree(line string) (tracked, bool) {
	meta, path, ok := strings.Cut(line, "\t")
	part := strings.Fields(meta)
	if !ok || len(part) != 3 {
		return tracked{}, false
	}
	return tracked{mode: part[0], oid: part[2], path: path}, true
}

// run lists the paths of the user's index and HEAD, the index first, by their
// paths below the workspace's directory.
func (r *indexRead) run(ctx context.Context, p place) error {
	r.known = map[string]tracked{}
	if !p.isRepo() {
		return nil
	}
	staged, err := userIndex(ctx, p)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		r.note(".git/index", "can't be read: tracked files that are ignored may be missing")
	} else {
		r.staged = staged
	}
	for _, t := range staged {
		if rel, ok := strings.CutPrefix(t.path, p.prefix); ok {
			t.path = rel
			r.known[rel] = t
		}
	}
	if p.head == "" {
		return nil
	}
	out, err := p.user("").run(ctx, nil, inPrefix(p, "ls-tree", "-r", "-z", "--full-tree", p.head)...)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		r.note(".git", "the tree of HEAD can't be read: tracked files that are ignored may be missing")
	}
	for _, line := range fields(out) {
		t, ok := parseTree(line)
		if !ok {
			continue
		}
		t.path = strings.TrimPrefix(t.path, p.prefix)
		if _, staged := r.known[t.path]; !staged {
			r.known[t.path] = t
		}
	}
	return nil
}

func (r *indexRead) note(path, why string) {
	r.notes = append(r.notes, Skip{Path: path, Why: why})
}

// inPrefix limits a listing to the workspace's part of the working tree.
func inPrefix(p place, args ...string) []string {
	if p.prefix == "" {
		return args
	}
	return append(args, "--", strings.TrimSuffix(p.prefix, "/"))
}

// settleKnown finds what of the tracked paths the scan left out: those that
// are ignored, and those that may be absent without being deleted.
func (j *making) settleKnown(ctx context.Context) error {
	if j.index == nil { // only a rule changed
		j.index = &indexRead{done: make(chan struct{})}
		j.index.err = j.index.run(ctx, j.place)
		close(j.index.done)
	}
	<-j.index.done
	if j.index.err != nil {
		return j.index.err
	}
	known := j.index.known
	j.staged, j.now.Notes = j.index.staged, j.index.notes
	defer func() { sort.Strings(j.now.Forced) }()
	var paths, asked []string
	for name, t := range known {
		if t.mode == "160000" || t.sparse && t.stage == "0" {
			j.now.Absent = append(j.now.Absent, t)
		}
		e, stop := j.scan.top.lookup(name)
		switch {
		case t.mode == "160000":
		case e != nil && e.folder == nil && e.kind != kindFolder && e.ignored:
			j.now.Forced = append(j.now.Forced, name)
		case e == nil && (stop == nil || stop.kind == kindFolder):
			// Below an ignored folder, or deleted.
			paths, asked = append(paths, name), append(asked, j.place.prefix+name)
		}
	}
	paths, asked = j.dropLinked(paths, asked)
	if len(asked) == 0 {
		return nil
	}
	ignored, err := j.ask(ctx, asked)
	if err != nil {
		return err
	}
	for i, name := range paths {
		if ignored[i] {
			j.now.Forced = append(j.now.Forced, name)
		}
	}
	return nil
}

// dropLinked leaves out paths that lead through a link by now: git refuses to
// be asked about them, and they are deleted anyway.
func (j *making) dropLinked(paths, asked []string) (kept, keptAsked []string) {
	through := map[string]bool{}
	for i, name := range paths {
		if !j.throughLink(path.Dir(name), through) {
			kept, keptAsked = append(kept, name), append(keptAsked, asked[i])
		}
	}
	return kept, keptAsked
}

func (j *making) throughLink(dir string, seen map[string]bool) bool {
	if dir == "." {
		return false
	}
	if linked, ok := seen[dir]; ok {
		return linked
	}
	linked := j.throughLink(path.Dir(dir), seen)
	if !linked {
		fd, err := openBeneath(j.scan.root, dir, unix.O_PATH)
		if err == nil {
			var st unix.Stat_t
			linked = unix.Fstat(fd, &st) == nil && kindOf(st.Mode) == kindLink
			unix.Close(fd)
		}
	}
	seen[dir] = linked
	return linked
}

// addForced puts the tracked files that are ignored into the scan.
func (j *making) addForced() {
	for _, name := range j.now.Forced {
		e, stop := j.scan.top.lookup(name)
		if e == nil && stop != nil && stop.kind != kindFolder {
			continue // below a link, a file, or another repository
		}
		st, ok := j.statBeneath(name)
		if !ok {
			continue
		}
		k := kindOf(st.Mode)
		if k == kindFolder {
			continue
		}
		if e == nil {
			e = j.scan.place1(name, k)
		}
		e.kind, e.st, e.ignored, e.forced = k, statOf(&st), true, true
		then := j.old.folder(dirOf(name))
		if then != nil {
			if o := then.find(e.name); o != nil && o.kind == k && o.st == e.st && !o.id.zero() && e.st.before(j.old.Start) {
				e.id, e.known = o.id, true
			}
		}
		if why := k.special(); why != "" {
			e.out = why
			j.scan.skip(name, why, true)
		}
	}
}

func dirOf(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}

// statBeneath is lstat by a path whose folders must not be links.
func (j *making) statBeneath(name string) (st unix.Stat_t, ok bool) {
	fd, err := openBeneath(j.scan.root, name, unix.O_PATH)
	if err != nil {
		return st, false
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st) == nil
}

// place1 makes an entry at a path, with the folders above it.
func (s *scan) place1(name string, k kind) *entry {
	at := s.top
	parts := strings.Split(name, "/")
	for i, part := range parts[:len(parts)-1] {
		e := at.find(part)
		if e == nil {
			e = at.insert(entry{name: part, kind: kindFolder, ignored: true})
		}
		if e.folder == nil {
			e.folder = &folder{path: strings.Join(parts[:i+1], "/"), ignored: true, names: 1, perm: e.st.Mode & 0o7777}
		}
		at = e.folder
	}
	if e := at.find(parts[len(parts)-1]); e != nil {
		return e
	}
	return at.insert(entry{name: parts[len(parts)-1], kind: k})
}

// addAbsent puts what is in the tree though not on disk into the scan: sparse
// files, and submodules that aren't checked out.
func (j *making) addAbsent(ctx context.Context) error {
	var want []tracked
	for _, t := range j.now.Absent {
		e, stop := j.scan.top.lookup(t.path)
		_, onDisk := j.statBeneath(t.path)
		switch {
		case stop != nil && stop.kind != kindFolder:
		case t.mode == "160000":
			if onDisk && e != nil && e.kind == kindFolder && (e.folder == nil || len(e.folder.entries) == 0) {
				want = append(want, t)
			}
		case !onDisk && e == nil:
			want = append(want, t)
		}
	}
	if err := j.fetchAbsent(ctx, want); err != nil {
		return err
	}
	for _, t := range want {
		id, ok := parseID(t.oid)
		if !ok {
			continue
		}
		k, mode := kindFile, uint32(unix.S_IFREG|0o644)
		switch t.mode {
		case "100755":
			mode |= 0o111
		case "120000":
			k = kindLink
		case "160000":
			k = kindCommit
		}
		e := j.scan.place1(t.path, k)
		e.kind, e.id, e.folder, e.absent = k, id, nil, true
		e.ignored = false
		e.st.Mode = mode
	}
	return nil
}

// fetchAbsent copies what absent paths hold; where the user's repository lacks
// it too, the path is emptied of its id and listed.
func (j *making) fetchAbsent(ctx context.Context, absent []tracked) error {
	var ids []string
	for _, t := range absent {
		if t.mode != "160000" {
			ids = append(ids, t.oid)
		}
	}
	missing, err := j.copyObjects(ctx, j.place.user(""), ids)
	if err != nil {
		return err
	}
	for i, t := range absent {
		if missing[t.oid] != "" {
			j.scan.skip(t.path, "sparse, and its content is not in the clone", true)
			absent[i].oid = ""
		}
	}
	return nil
}
