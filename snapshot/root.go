package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// node is a folder to be written as a tree: names to objects or further nodes.
type node map[string]any

// object is an entry of a node.
type object struct {
	typ int
	id  objectID
}

// writer writes what a snapshot holds beside the tree.
type writer struct {
	*measurer
	c     *compressor
	notes []omission
	// kept are the user's commits that the snapshot holds on to; cut are
	// those whose parents are not in the store.
	kept, cut []string
	stashes   []string
}

// root writes the tree of a snapshot commit, as FORMAT.md lays it out.
func (w *writer) root(ctx context.Context, t *measured) (objectID, error) {
	n, err := w.rootNode(ctx, t)
	if err != nil {
		return objectID{}, err
	}
	return w.writeNode(n)
}

func (w *writer) rootNode(ctx context.Context, t *measured) (node, error) {
	n := node{}
	id, ok := parseID(t.tree)
	if !ok {
		return nil, fmt.Errorf("tree %q: not an object id", t.tree)
	}
	n["tree"] = object{typeTree, id}
	if err := w.blob(n, "modes", modes(t.scan.top, "", func(e *entry) bool { return !e.opted })); err != nil {
		return nil, err
	}
	if t.opted != nil {
		if err := (&trees{pack: w.pack, c: w.c}).write(t.opted); err != nil {
			return nil, err
		}
		n["included"] = object{typeTree, t.opted.tree}
		if err := w.blob(n, "included-modes", modes(t.opted, "", func(*entry) bool { return true })); err != nil {
			return nil, err
		}
	}
	if t.place.isRepo() {
		state, err := w.gitNode(ctx, t)
		if err != nil {
			return nil, err
		}
		n["git"] = state
	}
	return n, w.nestedNodes(ctx, t, n)
}

func (w *writer) nestedNodes(ctx context.Context, t *measured, n node) error {
	if len(t.nested) == 0 {
		return nil
	}
	inner := node{}
	for i, child := range t.nested {
		c, err := w.rootNode(ctx, child)
		if err != nil {
			return err
		}
		at := strings.TrimPrefix(strings.TrimPrefix(child.place.dir, t.place.dir), "/")
		if err := w.blob(c, "path", []byte(at)); err != nil {
			return err
		}
		inner[strconv.Itoa(i)] = c
	}
	n["nested"] = inner
	return nil
}

func (w *writer) blob(into node, name string, data []byte) error {
	id, err := w.pack.put(w.c, typeBlob, data)
	into[name] = object{typeBlob, id}
	return err
}

func (w *writer) writeNode(n node) (objectID, error) {
	var list []treeEntry
	for name, v := range n {
		e := treeEntry{mode: "100644", name: name}
		switch v := v.(type) {
		case node:
			id, err := w.writeNode(v)
			if err != nil {
				return id, err
			}
			e.mode, e.id = "40000", id
		case object:
			if v.typ == typeTree {
				e.mode = "40000"
			}
			e.id = v.id
		}
		list = append(list, e)
	}
	return w.pack.put(w.c, typeTree, encodeTree(list, w.size))
}

// modes lists what git's trees don't keep: other modes than 0644 and 0755, and
// empty folders. Each record is a letter, the mode in octal, a space, the path,
// and a NUL; f is a file, d a folder, e an empty folder.
func modes(top *folder, prefix string, want func(*entry) bool) []byte {
	var lines []string
	add := func(kind string, perm uint32, path string) {
		lines = append(lines, fmt.Sprintf("%s%04o %s\x00", kind, perm, path))
	}
	top.each(func(f *folder) {
		switch {
		case f.path == "":
		case f.names == 0 && f.perm != 0 && !f.ignored:
			add("e", f.perm, prefix+f.path)
		case f.perm != 0o755 && f.perm != 0 && (!f.ignored || !f.tree.zero()):
			add("d", f.perm, prefix+f.path)
		}
		for i := range f.entries {
			e := &f.entries[i]
			if perm := e.st.Mode & 0o777; e.kind == kindFile && !e.id.zero() && !e.absent && want(e) && perm != 0o644 && perm != 0o755 {
				add("f", perm, prefix+joinPath(f.path, e.name))
			}
		}
	})
	sort.Strings(lines)
	return []byte(strings.Join(lines, ""))
}

// stateFiles are the files of a git directory that say where the user was.
var stateFiles = []string{"HEAD", "ORIG_HEAD", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "MERGE_RR",
	"MERGE_AUTOSTASH", "AUTO_MERGE", "SQUASH_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "COMMIT_EDITMSG",
	"BISECT_LOG", "BISECT_START", "BISECT_TERMS", "BISECT_NAMES", "BISECT_EXPECTED_REV", "BISECT_FIRST_PARENT", "BISECT_ANCESTORS_OK",
	"rebase-merge", "rebase-apply", "sequencer"}

// operationSigns are the files by which git itself tells an operation.
var operationSigns = []struct{ file, name string }{{"MERGE_HEAD", "merge"}, {"rebase-merge", "rebase"}, {"rebase-apply", "rebase"},
	{"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"}, {"BISECT_LOG", "bisect"}}

// operations names what is in progress in a repository.
func operations(gitDir string) []string {
	if gitDir == "" {
		return nil
	}
	var out []string
	for _, sign := range operationSigns {
		if _, err := os.Stat(filepath.Join(gitDir, sign.file)); err == nil {
			out = append(out, sign.name)
		}
	}
	return out
}

// gitNode keeps the user's HEAD, index, operations and stashes, with the
// objects that they need and the working tree doesn't hold.
func (w *writer) gitNode(ctx context.Context, t *measured) (node, error) {
	n := node{}
	for _, name := range stateFiles {
		if err := w.stateFile(n, filepath.Join(t.place.gitDir, name), name); err != nil {
			return nil, err
		}
	}
	if err := w.index(ctx, t, n); err != nil {
		return nil, err
	}
	return n, w.refs(ctx, t, n)
}

// maxStateFile bounds what is kept of a git directory's own files, in bytes.
const maxStateFile = 16 << 20

// stateFile adds a file, or a folder of files, of the git directory. One that
// ends in the meantime is simply not there.
func (w *writer) stateFile(into node, path, name string) error {
	info, err := os.Lstat(path)
	if err != nil || strings.EqualFold(name, ".git") {
		return ignoreGone(err)
	}
	if info.IsDir() {
		return w.stateDir(into, path, name)
	}
	if !info.Mode().IsRegular() || info.Size() > maxStateFile {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			w.notes = append(w.notes, omission{".git/" + name, "can't be read", true})
			return nil
		}
		return ignoreGone(err)
	}
	return w.blob(into, name, data)
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (w *writer) stateDir(into node, path, name string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return ignoreGone(err)
	}
	inner := node{}
	for _, e := range entries {
		if err := w.stateFile(inner, filepath.Join(path, e.Name()), e.Name()); err != nil {
			return err
		}
	}
	into[name] = inner
	return nil
}
