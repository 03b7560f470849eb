package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tracked is one path that the user's repository knows, in HEAD or the index.
type tracked struct {
	mode, oid, path string
	stage           string
	// sparse: marked skip-worktree, so that its absence is no deletion.
	sparse bool
}

// update brings the private index to what is on disk. It returns the walk it
// went by, completed by the files that are ignored but tracked.
func (j *job) update(ctx context.Context, old, now *cache, w *walk) (*walk, error) {
	known, err := j.known(ctx)
	if err != nil {
		return nil, err
	}
	if old != nil {
		if w, err = j.dropStale(ctx, old, now, w, known); err != nil {
			return nil, err
		}
	}
	j.feed(ctx, old, w)
	if err := j.add(ctx, w); err != nil {
		return nil, err
	}
	if err := j.addForced(ctx, w, known); err != nil {
		return nil, err
	}
	return w, j.addLinks(ctx, w, now, known)
}

// known lists the paths of the user's index and HEAD, the index first.
func (j *job) known(ctx context.Context) (map[string]tracked, error) {
	known := map[string]tracked{}
	if !j.place.isRepo() {
		return known, nil
	}
	staged, err := userIndex(ctx, j.place)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		j.note(".git/index", "can't be read: tracked files that are ignored may be missing")
	}
	for _, t := range staged {
		if strings.HasPrefix(t.path, j.place.prefix) {
			known[t.path] = t
		}
	}
	if j.place.head == "" {
		return known, nil
	}
	out, err := j.place.user("").run(ctx, nil, inPrefix(j.place, "ls-tree", "-r", "-z", "--full-tree", j.place.head)...)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		j.note(".git", "the tree of HEAD can't be read: tracked files that are ignored may be missing")
	}
	for _, line := range fields(out) {
		if t, ok := parseTree(line); ok {
			if _, staged := known[t.path]; !staged {
				known[t.path] = t
			}
		}
	}
	return known, nil
}

func (j *job) note(path, why string) {
	j.skipped = append(j.skipped, Skip{Path: path, Why: why})
	j.partial = true
}

// userIndex lists the user's index, all stages.
func userIndex(ctx context.Context, p place) ([]tracked, error) {
	out, err := p.user("").run(ctx, nil, "ls-files", "-s", "-v", "-z")
	if err != nil {
		return nil, fmt.Errorf("user's index: %w", err)
	}
	var list []tracked
	for _, line := range fields(out) {
		meta, path, ok := strings.Cut(line, "\t")
		part := strings.Fields(meta)
		if !ok || len(part) != 4 {
			continue
		}
		list = append(list, tracked{mode: part[1], oid: part[2], stage: part[3], path: path,
			sparse: strings.EqualFold(part[0], "s")})
	}
	return list, nil
}

func parseTree(line string) (tracked, bool) {
	meta, path, ok := strings.Cut(line, "\t")
	part := strings.Fields(meta)
	if !ok || len(part) != 3 {
		return tracked{}, false
	}
	return tracked{mode: part[0], oid: part[2], path: path}, true
}

// dropStale takes out of the private index what must not be taken as it is:
// files that changed (so that git hashes them again, whatever its own stat
// data says), what became ignored and isn't tracked, what can't be read.
func (j *job) dropStale(ctx context.Context, old, now *cache, w *walk, known map[string]tracked) (*walk, error) {
	out, err := j.g.run(ctx, nil, inPrefix(j.place, "ls-files", "-c", "-i", "--exclude-standard", "-z")...)
	if err != nil {
		return nil, err
	}
	var drop []string
	for _, path := range fields(out) {
		if _, ok := known[path]; !ok {
			drop = append(drop, path)
		}
	}
	again := len(drop) > 0
	for path := range old.Files {
		if st, ok := w.files[path]; !ok || !old.fresh(path, st) {
			drop = append(drop, path)
		}
	}
	for path := range old.Nested {
		if _, ok := now.Nested[path]; !ok {
			drop = append(drop, path)
		}
	}
	for path := range old.Links {
		drop = append(drop, path)
	}
	drop = append(drop, w.blocked...)
	if err := j.remove(ctx, drop); err != nil {
		return nil, err
	}
	for _, path := range drop {
		j.dropped[path] = true
	}
	if !again {
		return w, nil
	}
	return scan(ctx, j.g, j.place, j.state)
}

func (j *job) remove(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	_, err := j.g.run(ctx, joined(paths), "update-index", "--force-remove", "-z", "--stdin")
	return err
}

// add lets git take in what is new or changed. Nested repositories are kept
// from it: git would run their monitors and filters.
func (j *job) add(ctx context.Context, w *walk) error {
	specs := []string{":(top)"}
	if j.place.prefix != "" {
		specs[0] = ":(top,literal)" + strings.TrimSuffix(j.place.prefix, "/")
	}
	for _, list := range [][]string{w.nested, w.blocked} {
		for _, path := range list {
			if !w.hidden[path] {
				specs = append(specs, ":(top,exclude,literal)"+path)
			}
		}
	}
	g := j.g
	g.magic = true
	_, err := g.run(ctx, joined(specs), "add", "-A", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
	var exit *exec.ExitError
	if err == nil || !errors.As(err, &exit) || exit.ExitCode() != 1 {
		return err
	}
	return j.addFailed(ctx, w, err)
}

// addFailed finds which files git could not take, and leaves them out rather
// than with an older content.
func (j *job) addFailed(ctx context.Context, w *walk, failure error) error {
	out, err := j.g.run(ctx, nil, inPrefix(j.place, "ls-files", "-m", "-o", "--exclude-standard", "-z")...)
	if err != nil {
		return err
	}
	var bad []string
	for _, path := range fields(out) {
		if _, ok := w.files[path]; !ok {
			continue
		}
		if _, err := os.Lstat(filepath.Join(j.place.top, path)); err != nil {
			continue
		}
		bad = append(bad, path)
		delete(w.files, path)
		j.note(strings.ToValidUTF8(strings.TrimPrefix(path, j.place.prefix), "\ufffd"), "could not be read, or changed meanwhile")
	}
	if len(bad) == 0 {
		return failure
	}
	return j.remove(ctx, bad)
}

// addForced takes in what is tracked but ignored: git's add would pass it over.
func (j *job) addForced(ctx context.Context, w *walk, known map[string]tracked) error {
	blocked := map[string]bool{}
	for _, path := range append(append([]string{}, w.blocked...), w.nested...) {
		blocked[path] = true
	}
	var paths []string
	for path := range known {
		// What was dropped from the index may be ignored now: given again.
		if _, ok := w.files[path]; ok && !j.dropped[path] || known[path].mode == "160000" || under(path, blocked) {
			continue
		}
		st, err := lstat(filepath.Join(j.place.top, path))
		if err != nil || !plainFile(st) || j.behindLink(path) {
			continue
		}
		if !w.readable(path, st) {
			j.note(path, "can't be read")
			continue
		}
		w.files[path] = st
		paths = append(paths, path)
	}
	if len(paths) == 0 {
		return nil
	}
	_, err := j.g.run(ctx, joined(paths), "update-index", "--add", "--replace", "-z", "--stdin")
	return err
}

func plainFile(st fileStat) bool { return st.link() || st.Mode&0o170000 == 0o100000 }

// under tells whether path or a folder above it is in the set.
func under(path string, set map[string]bool) bool {
	for p := path; p != "." && p != "/"; p = filepath.Dir(p) {
		if set[p] {
			return true
		}
	}
	return false
}

// behindLink tells whether a folder on the way to path is a symlink by now.
func (j *job) behindLink(path string) bool {
	for dir := filepath.Dir(path); dir != "." && dir != "/"; dir = filepath.Dir(dir) {
		if st, err := lstat(filepath.Join(j.place.top, dir)); err != nil || st.link() {
			return true
		}
	}
	return false
}

// addLinks records the commits of nested repositories and of submodules that
// aren't checked out, and the content of sparse paths: absent, not deleted.
func (j *job) addLinks(ctx context.Context, w *walk, now *cache, known map[string]tracked) error {
	now.Links = map[string]string{}
	var lines bytes.Buffer
	for path, head := range now.Nested {
		if head != "" {
			fmt.Fprintf(&lines, "160000 %s\t%s\x00", head, path)
		}
	}
	var absent []tracked
	for path, t := range known {
		info, err := os.Lstat(filepath.Join(j.place.top, path))
		_, nested := now.Nested[path]
		switch {
		case t.mode == "160000" && !nested && err == nil && info.IsDir():
			absent = append(absent, t)
		case t.sparse && err != nil && t.stage == "0":
			absent = append(absent, t)
		}
	}
	if err := j.fetchAbsent(ctx, absent); err != nil {
		return err
	}
	for _, t := range absent {
		if t.oid == "" {
			continue
		}
		now.Links[t.path] = t.oid
		fmt.Fprintf(&lines, "%s %s\t%s\x00", t.mode, t.oid, t.path)
	}
	if lines.Len() == 0 {
		return nil
	}
	_, err := j.g.run(ctx, lines.Bytes(), "update-index", "--add", "--replace", "-z", "--index-info")
	return err
}

// fetchAbsent copies what absent paths hold; where the user's repository lacks
// it too, the path is emptied of its id and listed.
func (j *job) fetchAbsent(ctx context.Context, absent []tracked) error {
	var ids []string
	for _, t := range absent {
		if t.mode != "160000" {
			ids = append(ids, t.oid)
		}
	}
	missing, err := copyObjects(ctx, j.place.user(""), j.store, ids)
	if err != nil {
		return err
	}
	for i, t := range absent {
		if missing[t.oid] {
			j.note(t.path, "sparse, and its content is not in the clone")
			absent[i].oid = ""
		}
	}
	return nil
}
