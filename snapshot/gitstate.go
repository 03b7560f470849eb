package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// index keeps the user's index: what is plainly staged as a tree, which shares
// its objects with others, and the rest as a list. Unstaging or `git gc` over
// there must not take it from the snapshot, so its objects are copied.
func (w *writer) index(ctx context.Context, t *measured, n node) error {
	path := filepath.Join(t.place.gitDir, "index")
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	if idSize(t.place.format) != w.size {
		return w.stateFile(n, path, "index-file") // ids of another kind: as it is
	}
	if id, ok := w.indexBefore(t); ok {
		n["index"] = object{typeTree, id}
		return nil
	}
	staged, err := t.staged, error(nil)
	if staged == nil {
		staged, err = userIndex(ctx, t.place)
	}
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return w.stateFile(n, path, "index-file") // unreadable: measure noted it
	}
	inner, whole, err := w.indexNode(ctx, t, staged)
	if err != nil {
		return err
	}
	id, err := w.writeNode(inner)
	if err != nil {
		return err
	}
	n["index"] = object{typeTree, id}
	if whole && t.known != "" {
		w.saves = append(w.saves, func() error {
			return replaceFile(t.keptAt, []byte(t.known+" "+generation(w.store.dir)+" "+id.text(w.size)))
		})
	}
	return nil
}

// indexBefore is what the last snapshot made of the same index.
func (w *writer) indexBefore(t *measured) (id objectID, ok bool) {
	text, err := os.ReadFile(t.keptAt)
	part := strings.Fields(string(text))
	if err != nil || t.known == "" || len(part) != 3 || part[0] != t.known || part[1] != generation(w.store.dir) || len(part[2]) != 2*w.size {
		return id, false
	}
	if id, ok = parseID(part[2]); !ok {
		return id, false
	}
	held, err := w.pack.has(id)
	return id, err == nil && held
}

// indexNode is the user's index as a folder; whole says that nothing in it is
// missing.
func (w *writer) indexNode(ctx context.Context, t *measured, staged []tracked) (inner node, whole bool, err error) {
	missing, err := w.stagedObjects(ctx, t, staged)
	if err != nil {
		return nil, false, err
	}
	top := &folder{}
	s := scan{top: top}
	var rest bytes.Buffer
	objects := node{}
	for _, e := range staged {
		id, ok := parseID(e.oid)
		if !ok || missing[e.oid] != "" && e.mode != "160000" {
			fmt.Fprintf(&rest, "%s %s %s m\t%s\x00", e.mode, e.oid, e.stage, e.path)
			continue
		}
		if e.stage == "0" && !e.intent {
			s.stage(e, id)
		}
		if flags := e.flags(); e.stage != "0" || flags != "-" {
			fmt.Fprintf(&rest, "%s %s %s %s\t%s\x00", e.mode, e.oid, e.stage, flags, e.path)
			if e.mode != "160000" && e.stage != "0" {
				objects[e.oid] = object{typeBlob, id}
			}
		}
	}
	if err := (&trees{pack: w.pack, c: w.c}).write(top); err != nil {
		return nil, false, err
	}
	inner = node{"tree": object{typeTree, top.tree}}
	if rest.Len() > 0 {
		if err := w.blob(inner, "rest", rest.Bytes()); err != nil {
			return nil, false, err
		}
	}
	if len(objects) > 0 {
		inner["objects"] = objects
	}
	return inner, len(missing) == 0, nil
}

// flags are the entry's marks: i intent-to-add, s skip-worktree, a
// assume-unchanged; "-" for none.
func (t tracked) flags() string {
	out := ""
	for _, f := range []struct {
		set  bool
		mark string
	}{{t.intent, "i"}, {t.sparse, "s"}, {t.assumed, "a"}} {
		if f.set {
			out += f.mark
		}
	}
	if out == "" {
		return "-"
	}
	return out
}

func (s *scan) stage(t tracked, id objectID) {
	k, mode := kindFile, uint32(unix.S_IFREG|0o644)
	switch t.mode {
	case "100755":
		mode |= 0o111
	case "120000":
		k = kindLink
	case "160000":
		k = kindCommit
	}
	e := s.place1(t.path, k)
	e.kind, e.id, e.st.Mode = k, id, mode
}

func (w *writer) stagedObjects(ctx context.Context, t *measured, staged []tracked) (map[string]string, error) {
	var ids []string
	for _, e := range staged {
		if e.mode != "160000" {
			ids = append(ids, e.oid)
		}
	}
	missing, err := w.copyObjects(ctx, t.place.user(""), ids)
	if err != nil {
		return nil, err
	}
	for _, why := range missing {
		w.notes = append(w.notes, omission{".git/index", "a staged file: " + why, true})
	}
	return missing, nil
}

// maxCommits bounds the commits that a snapshot keeps: the newest that no
// remote branch and no tag holds.
const maxCommits = 1000

// refs keeps the stashes and the refs of operations, and makes HEAD and what
// they point to part of the snapshot.
func (w *writer) refs(ctx context.Context, t *measured, n node) error {
	g := t.place.user("")
	var tips, lines, stashes []string
	add := func(id string) {
		if hexID(id) && len(id) == 2*w.size {
			tips = append(tips, id)
		}
	}
	add(t.place.head)
	if _, err := os.Stat(filepath.Join(t.place.common, "logs", "refs", "stash")); err == nil {
		out, err := g.run(ctx, nil, "log", "-g", "-z", "--format=%H %gs", "refs/stash", "--")
		if err != nil && ctx.Err() != nil {
			return err
		}
		for _, line := range fields(out) {
			id, _, _ := strings.Cut(line, " ")
			add(id)
			w.stashes = append(w.stashes, id)
			stashes = append(stashes, line)
		}
	}
	var out []byte
	var err error
	if t.place.hasOwnRefs() {
		out, err = g.run(ctx, nil, "for-each-ref", "--format=%(objectname) %(refname)", "refs/stash", "refs/bisect", "refs/rewritten", "refs/worktree")
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	for _, line := range strings.Fields(strings.ReplaceAll(string(out), " ", "\x00")) {
		id, ref, _ := strings.Cut(line, "\x00")
		add(id)
		lines = append(lines, id+" "+ref)
	}
	for _, name := range []string{"ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "rebase-merge/orig-head", "rebase-merge/onto", "rebase-apply/orig-head", "rebase-apply/onto", "rebase-merge/autostash"} {
		text, _ := os.ReadFile(filepath.Join(t.place.gitDir, name))
		for _, id := range strings.Fields(string(text)) {
			add(id)
		}
	}
	if len(stashes) > 0 {
		if err := w.blob(n, "stash", joined(stashes)); err != nil {
			return err
		}
	}
	if len(lines) > 0 {
		if err := w.blob(n, "refs", joined(lines)); err != nil {
			return err
		}
	}
	return w.keepCommits(ctx, t, tips)
}

// keepCommits copies the tips, and the commits below them that only the user's
// repository may hold, each with its whole tree.
func (w *writer) keepCommits(ctx context.Context, t *measured, tips []string) error {
	tips = unique(tips)
	lacked := false
	for _, tip := range tips {
		id, _ := parseID(tip)
		held, err := w.pack.has(id)
		if err != nil {
			return err
		}
		lacked = lacked || !held
	}
	if !lacked {
		w.kept = append(w.kept, tips...)
		return nil
	}
	kept, err := w.copyCommits(ctx, t.place.user(""), tips)
	var said *gitError
	if errors.As(err, &said) && ctx.Err() == nil {
		w.notes = append(w.notes, omission{".git", "its commits are not kept: " + strings.ToValidUTF8(lastLine(said.stderr), "?"), false})
		return nil
	}
	if err != nil {
		return err
	}
	w.kept = append(w.kept, kept...)
	return nil
}

// hasOwnRefs tells whether there may be refs of stashes or operations.
func (p place) hasOwnRefs() bool {
	for _, dir := range []string{p.common, p.gitDir} {
		for _, name := range []string{"refs/stash", "logs/refs/stash", "refs/bisect", "refs/rewritten", "refs/worktree", "reftable"} {
			if exists(filepath.Join(dir, name)) {
				return true
			}
		}
	}
	return false
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func (w *writer) copyCommits(ctx context.Context, g git, tips []string) ([]string, error) {
	// A tip may be no commit, or gone.
	out, err := g.run(ctx, []byte(strings.Join(tips, "\n")+"\n"), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return nil, err
	}
	var good []string
	for _, line := range strings.Split(string(out), "\n") {
		if id, ok := strings.CutSuffix(line, " commit"); ok {
			good = append(good, id)
		}
	}
	if len(good) == 0 {
		return nil, nil
	}
	// A stash's parents are commits that nothing else holds.
	args := append([]string{"rev-list", "--parents", fmt.Sprintf("--max-count=%d", maxCommits)}, good...)
	out, err = g.run(ctx, nil, append(args, "--not", "--remotes", "--tags")...)
	if err != nil {
		return nil, err
	}
	chosen := append([]string{}, good...)
	for _, line := range strings.Split(string(out), "\n") {
		if id, _, _ := strings.Cut(line, " "); id != "" {
			chosen = append(chosen, id)
		}
	}
	chosen = unique(chosen)
	out, err = g.run(ctx, []byte(strings.Join(chosen, "\n")+"\n"), "rev-list", "--objects", "--no-walk", "--no-object-names", "--stdin")
	if err != nil {
		return nil, err
	}
	missing, err := w.copyObjects(ctx, g, strings.Fields(string(out)))
	if err != nil {
		return nil, err
	}
	for _, why := range missing {
		return nil, &gitError{verb: "rev-list", stderr: "an object is " + why, err: errMissing}
	}
	return good, w.cutHistory(ctx, g, chosen)
}

// cutHistory finds the commits whose parents the store lacks. They are listed
// in its shallow file, or git would miss the parents.
func (w *writer) cutHistory(ctx context.Context, g git, commits []string) error {
	src, err := openObjects(ctx, g)
	if err != nil {
		return err
	}
	defer src.close()
	for _, text := range commits {
		var data bytes.Buffer
		if _, err := src.copy(text, &data); err != nil {
			return err
		}
		head, _, _ := strings.Cut(data.String(), "\n\n")
		for _, line := range strings.Split(head, "\n") {
			parent, ok := strings.CutPrefix(line, "parent ")
			if !ok {
				continue
			}
			id, _ := parseID(parent)
			held, err := w.pack.has(id)
			if err != nil {
				return err
			}
			if !held {
				w.cut = append(w.cut, text)
				break
			}
		}
	}
	return nil
}

// writeShallow adds commits to a repository's shallow file. The caller holds
// the lock under which it is written.
func writeShallow(dir string, commits []string) error {
	if len(commits) == 0 {
		return nil
	}
	path := filepath.Join(dir, "shallow")
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("cut history: %w", err)
	}
	all := unique(append(strings.Fields(string(old)), commits...))
	sort.Strings(all)
	return replaceSynced(path, []byte(strings.Join(all, "\n")+"\n"))
}

func unique(list []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
