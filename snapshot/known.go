package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

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

// userIndex lists the user's index, all stages. Git reads it: an index may be
// split, sparse, or of a version to come.
func userIndex(ctx context.Context, p place) ([]tracked, error) {
	defer keepTimes(filepath.Join(p.gitDir, "sharedindex.*"))()
	// Without --sparse git would expand a sparse index, and write trees for it.
	out, err := p.user("").run(ctx, nil, "ls-files", "--sparse", "-s", "-v", "-z", "--debug")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 129 { // of before sparse indexes
		out, err = p.user("").run(ctx, nil, "ls-files", "-s", "-v", "-z", "--debug")
	}
	if err != nil {
		return nil, fmt.Errorf("user's index: %w", err)
	}
	var list []tracked
	rest := string(out)
	for rest != "" {
		line, more, ok := strings.Cut(rest, "\x00")
		meta, name, named := strings.Cut(line, "\t")
		part := strings.Fields(meta)
		if !ok || !named || len(part) != 4 {
			return nil, fmt.Errorf("user's index: unexpected line %q", line)
		}
		flags, after, err := debugFlags(more)
		if err != nil {
			return nil, err
		}
		rest = after
		if part[1] == "040000" {
			if list, err = appendSparse(ctx, p, list, part[2], name); err != nil {
				return nil, err
			}
			continue
		}
		list = append(list, tracked{mode: part[1], oid: part[2], stage: part[3], path: name,
			sparse: strings.EqualFold(part[0], "s"), assumed: part[0] == "h" || part[0] == "s", intent: flags&(1<<29) != 0})
	}
	return list, nil
}

// appendSparse adds the files of a folder that a sparse index has as one entry.
func appendSparse(ctx context.Context, p place, list []tracked, tree, dir string) ([]tracked, error) {
	out, err := p.user("").run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", tree)
	if err != nil {
		return nil, fmt.Errorf("user's index: %w", err)
	}
	for _, line := range fields(out) {
		if t, ok := parseTree(line); ok {
			t.path, t.stage, t.sparse = dir+t.path, "0", true
			list = append(list, t)
		}
	}
	return list, nil
}

// keepTimes gives files their times back when the returned function is called:
// git touches the shared part of a split index whenever it reads it.
func keepTimes(pattern string) func() {
	names, _ := filepath.Glob(pattern)
	times := map[string]fs.FileInfo{}
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil {
			times[name] = info
		}
	}
	return func() {
		for name, info := range times {
			_ = os.Chtimes(name, time.Time{}, info.ModTime()) // a zero time is left as it is
		}
	}
}

// debugFlags reads the five lines that --debug adds; the last ends in the
// entry's flags.
func debugFlags(text string) (flags uint64, rest string, err error) {
	lines := strings.SplitN(text, "\n", 6)
	if len(lines) != 6 {
		return 0, "", fmt.Errorf("user's index: unexpected end")
	}
	_, hex, ok := strings.Cut(lines[4], "flags: ")
	if ok {
		flags, err = strconv.ParseUint(hex, 16, 64)
	}
	if !ok || err != nil {
		return 0, "", fmt.Errorf("user's index: unexpected flags %q", lines[4])
	}
	return flags, lines[5], nil
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
