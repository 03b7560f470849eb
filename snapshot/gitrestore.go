package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// RestoreGit brings the index, HEAD and the operation in progress back into
// the repository of a workspace's directory. No branch is moved, and no commit
// is dropped. The notes say what could not be brought back, and why.
func (s *Store) RestoreGit(ctx context.Context, snap Snapshot, dir string) (notes []string, err error) {
	real, err := s.checkDir(dir)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	p, err := locate(ctx, real)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	r := &gitRestorer{store: s.git(snap.Repo), snap: snap, place: p}
	r.entries, err = r.list(ctx, snap.Commit+":git")
	if err != nil {
		return nil, nil // the snapshot is of no repository
	}
	switch {
	case !p.isRepo():
		return []string{fmt.Sprintf("there is no repository in %s any more: its commits are kept: git fetch --update-shallow %s %s", shown(dir), s.RepoPath(snap.Repo), snap.Commit)}, nil
	case p.id() != snap.Repo:
		return []string{"the repository is another than the snapshot's: its index and HEAD are left as they are"}, nil
	}
	if err := r.run(ctx); err != nil {
		return r.notes, fmt.Errorf("restore the state of git: %w", err)
	}
	return r.notes, nil
}

type gitRestorer struct {
	store   git
	snap    Snapshot
	place   place
	entries map[string]string // name to type, of the snapshot's git folder
	notes   []string
}

func (r *gitRestorer) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// list gives the entries of a folder of the store: name to type.
func (r *gitRestorer) list(ctx context.Context, spec string) (map[string]string, error) {
	out, err := r.store.run(ctx, nil, "ls-tree", "-z", "--full-tree", spec)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, line := range fields(out) {
		meta, name, _ := strings.Cut(line, "\t")
		if part := strings.Fields(meta); len(part) == 3 {
			names[name] = part[1]
		}
	}
	return names, nil
}

func (r *gitRestorer) blob(ctx context.Context, name string) ([]byte, error) {
	return r.store.run(ctx, nil, "cat-file", "blob", r.snap.Commit+":git/"+name)
}

const busy = "git is at work in the repository (index.lock): its index is left as it is"

func (r *gitRestorer) indexLock() string { return filepath.Join(r.place.gitDir, "index.lock") }

func (r *gitRestorer) run(ctx context.Context) error {
	if _, err := os.Lstat(r.indexLock()); err == nil {
		r.note(busy)
		return nil
	}
	if err := r.commits(ctx); err != nil {
		return err
	}
	if ok, err := r.head(ctx); err != nil || !ok {
		return err
	}
	if err := r.index(ctx); err != nil {
		return err
	}
	if err := r.operations(ctx); err != nil {
		return err
	}
	return r.stashes(ctx)
}

// commits brings back what the user's repository no longer has of the commits
// that the snapshot keeps.
func (r *gitRestorer) commits(ctx context.Context) error {
	out, err := r.store.line(ctx, nil, "rev-list", "--parents", "--max-count=1", r.snap.Commit)
	if err != nil {
		return err
	}
	parents := strings.Fields(out)[1:]
	gone, err := lacking(ctx, r.place.user(""), parents)
	if err != nil || len(gone) == 0 {
		return err
	}
	ids, err := r.store.run(ctx, nil, append([]string{"rev-list", "--objects", "--no-object-names"}, gone...)...)
	if err != nil {
		return err
	}
	return r.give(ctx, strings.Fields(string(ids)))
}

// give copies objects of the store into the user's repository.
func (r *gitRestorer) give(ctx context.Context, ids []string) error {
	want, err := lacking(ctx, r.place.user(""), ids)
	if err != nil || len(want) == 0 {
		return err
	}
	pack, err := r.store.run(ctx, []byte(strings.Join(want, "\n")+"\n"), "pack-objects", "-q", "--stdout")
	if err != nil {
		return err
	}
	_, err = r.place.user("").run(ctx, pack, "unpack-objects", "-q")
	return err
}

// head puts HEAD where it was, without moving a branch. It is false where that
// can't be: then the index and the operation would be out of place.
func (r *gitRestorer) head(ctx context.Context) (bool, error) {
	p, snap := r.place, r.snap
	if p.head == snap.Head && p.branch == snap.Branch {
		return true, nil
	}
	g := p.user("")
	if snap.Branch == "" {
		if _, err := g.run(ctx, nil, "cat-file", "-e", snap.Head+"^{commit}"); err != nil {
			r.note("HEAD was at %s, which is gone: index and operation are left as they are", snap.Head)
			return false, ctx.Err()
		}
		_, err := g.run(ctx, nil, "update-ref", "--no-deref", "-m", "perdure: restore", "HEAD", snap.Head)
		return err == nil, err
	}
	ref := "refs/heads/" + snap.Branch
	at, err := g.line(ctx, nil, "rev-parse", "-q", "--verify", ref)
	switch {
	case err != nil && snap.Head != "":
		r.note("the branch %s is gone: it was at %s; index and operation are left as they are", shown(snap.Branch), snap.Head)
		return false, ctx.Err()
	case at != snap.Head:
		r.note("the branch %s has moved from %s to %s: it stays there, and the index with it", shown(snap.Branch), short(snap.Head), short(at))
		return false, nil
	}
	_, err = g.run(ctx, nil, "symbolic-ref", "-m", "perdure: restore", "HEAD", ref)
	return err == nil, err
}

func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	if id == "" {
		return "no commit"
	}
	return id
}

// index writes the index beside the user's, and then in its place.
func (r *gitRestorer) index(ctx context.Context) error {
	if r.entries["index"] != "tree" {
		if r.entries["index-file"] != "" {
			r.note("the index of the snapshot is kept as a file that could not be read: it is left out")
		}
		return nil
	}
	base := r.snap.Commit + ":git/index"
	names, err := r.list(ctx, base)
	if err != nil {
		return err
	}
	tree, err := r.store.line(ctx, nil, "rev-parse", base+"/tree")
	if err != nil {
		return err
	}
	ids, err := r.store.run(ctx, nil, "rev-list", "--objects", "--no-object-names", tree)
	if err != nil {
		return err
	}
	var rest []byte
	if names["rest"] != "" {
		if rest, err = r.blob(ctx, "index/rest"); err != nil {
			return err
		}
	}
	want := strings.Fields(string(ids))
	if names["objects"] != "" {
		objects, err := r.list(ctx, base+"/objects")
		if err != nil {
			return err
		}
		for id := range objects {
			want = append(want, id)
		}
	}
	if err := r.give(ctx, want); err != nil {
		return err
	}
	temp := filepath.Join(r.place.gitDir, "perdure-index")
	defer os.Remove(temp)
	os.Remove(temp)
	g := r.place.user("")
	g.index = temp
	if _, err := g.run(ctx, nil, "read-tree", tree); err != nil {
		return err
	}
	if err := r.rest(ctx, g, rest); err != nil {
		return err
	}
	return r.putIndex(temp)
}

// putIndex replaces the user's index under git's own lock, which is held for
// two renames only: a death here must not leave the repository locked.
func (r *gitRestorer) putIndex(temp string) error {
	lock, err := os.OpenFile(r.indexLock(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		r.note(busy)
		return nil
	}
	if err != nil {
		return err
	}
	lock.Close()
	if err := os.Rename(temp, r.indexLock()); err != nil {
		os.Remove(r.indexLock())
		return err
	}
	return os.Rename(r.indexLock(), filepath.Join(r.place.gitDir, "index"))
}

// rest adds what a tree can't say: conflicts, and the flags of entries.
func (r *gitRestorer) rest(ctx context.Context, g git, rest []byte) error {
	var staged bytes.Buffer
	marks := map[byte][]string{}
	for _, line := range fields(rest) {
		meta, name, ok := strings.Cut(line, "\t")
		part := strings.Fields(meta)
		if !ok || len(part) != 4 {
			continue
		}
		if strings.Contains(part[3], "m") {
			r.note("%s: what was staged is not kept", shown(name))
			continue
		}
		if part[2] != "0" {
			fmt.Fprintf(&staged, "%s %s %s\t%s\x00", part[0], part[1], part[2], name)
		}
		for i := range len(part[3]) {
			marks[part[3][i]] = append(marks[part[3][i]], name)
		}
	}
	if staged.Len() > 0 {
		if _, err := g.run(ctx, staged.Bytes(), "update-index", "-z", "--index-info"); err != nil {
			return err
		}
	}
	for mark, flag := range map[byte]string{'a': "--assume-unchanged", 's': "--skip-worktree"} {
		if len(marks[mark]) > 0 {
			if _, err := g.run(ctx, joined(marks[mark]), "update-index", flag, "-z", "--stdin"); err != nil {
				return err
			}
		}
	}
	for _, name := range marks['i'] {
		if _, err := g.run(ctx, nil, "add", "-N", "-f", "--", name); err != nil {
			r.note("%s: intent to add: %v", shown(name), err)
		}
	}
	return ctx.Err()
}

// operations writes the state files of what was in progress, and removes those
// of what is now: both at once would be neither.
func (r *gitRestorer) operations(ctx context.Context) error {
	for _, name := range stateFiles {
		if name == "HEAD" || name == "ORIG_HEAD" || name == "COMMIT_EDITMSG" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(r.place.gitDir, name)); err != nil {
			return err
		}
		if err := r.stateEntry(ctx, name); err != nil {
			return err
		}
	}
	if err := r.stateEntry(ctx, "ORIG_HEAD"); err != nil {
		return err
	}
	if r.entries["refs"] == "" {
		return nil
	}
	refs, err := r.blob(ctx, "refs")
	if err != nil {
		return err
	}
	g := r.place.user("")
	for _, line := range fields(refs) {
		id, ref, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(ref, "refs/bisect/") && !strings.HasPrefix(ref, "refs/worktree/") && !strings.HasPrefix(ref, "refs/rewritten/") {
			continue
		}
		if _, err := g.run(ctx, nil, "update-ref", ref, id); err != nil {
			r.note("%s: %v", ref, err)
		}
	}
	return ctx.Err()
}

// stateEntry writes one file or folder of the snapshot's git folder.
func (r *gitRestorer) stateEntry(ctx context.Context, name string) error {
	switch r.entries[name] {
	case "blob":
		data, err := r.blob(ctx, name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(r.place.gitDir, name), data, 0o666)
	case "tree":
		inner, err := r.list(ctx, r.snap.Commit+":git/"+name)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(r.place.gitDir, name), 0o777); err != nil {
			return err
		}
		for child, typ := range inner {
			r.entries[name+"/"+child] = typ
			if err := r.stateEntry(ctx, name+"/"+child); err != nil {
				return err
			}
		}
	}
	return nil
}

// stashes adds the stashes that are gone; those that are there stay.
func (r *gitRestorer) stashes(ctx context.Context) error {
	if r.entries["stash"] == "" {
		return nil
	}
	data, err := r.blob(ctx, "stash")
	if err != nil {
		return err
	}
	g := r.place.user("")
	there, _ := g.run(ctx, nil, "log", "-g", "--format=%H", "refs/stash", "--")
	have := " " + strings.Join(strings.Fields(string(there)), " ") + " "
	lines := fields(data)
	for i := len(lines) - 1; i >= 0; i-- {
		id, message, _ := strings.Cut(lines[i], " ")
		if strings.Contains(have, " "+id+" ") {
			continue
		}
		if _, err := g.run(ctx, nil, "stash", "store", "-q", "-m", message, id); err != nil {
			r.note("stash %s: %v", short(id), err)
		}
	}
	return ctx.Err()
}
