package snapshot

import (
	"bytes"
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

// node is a folder to be written as a tree: names to ids ("blob ID" or
// "tree ID") or to further nodes.
type node map[string]any

// root writes the tree of a snapshot commit, as FORMAT.md lays it out.
func (m *measurer) root(ctx context.Context, t *measured) (string, error) {
	n, err := m.rootNode(ctx, t)
	if err != nil {
		return "", err
	}
	return m.writeNode(ctx, n)
}

func (m *measurer) rootNode(ctx context.Context, t *measured) (node, error) {
	n := node{"tree": "tree " + t.tree}
	modes, err := m.blob(ctx, t.modes())
	if err != nil {
		return nil, err
	}
	n["modes"] = modes
	if t.place.isRepo() {
		state, err := m.gitNode(ctx, t)
		if err != nil {
			return nil, err
		}
		n["git"] = state
	}
	if len(t.nested) == 0 {
		return n, nil
	}
	inner := node{}
	for i, child := range t.nested {
		c, err := m.rootNode(ctx, child)
		if err != nil {
			return nil, err
		}
		at := strings.TrimPrefix(strings.TrimPrefix(child.place.dir, t.place.dir), "/")
		if c["path"], err = m.blob(ctx, []byte(at)); err != nil {
			return nil, err
		}
		inner[strconv.Itoa(i)] = c
	}
	n["nested"] = inner
	return n, nil
}

func (m *measurer) blob(ctx context.Context, data []byte) (string, error) {
	id, err := m.store.line(ctx, data, "hash-object", "-w", "--no-filters", "--stdin")
	return "blob " + id, err
}

func (m *measurer) writeNode(ctx context.Context, n node) (string, error) {
	var lines bytes.Buffer
	for name, v := range n {
		text, ok := v.(string)
		if child, isNode := v.(node); isNode {
			id, err := m.writeNode(ctx, child)
			if err != nil {
				return "", err
			}
			text, ok = "tree "+id, true
		}
		if !ok {
			return "", fmt.Errorf("entry %s: unknown kind", name)
		}
		mode := "100644 "
		if strings.HasPrefix(text, "tree ") {
			mode = "040000 "
		}
		lines.WriteString(mode + text + "\t" + name + "\x00")
	}
	return m.store.line(ctx, lines.Bytes(), "mktree", "-z")
}

// modes lists what git's trees don't keep: other modes than 0644 and 0755, and
// empty folders. Each record is a letter, the mode in octal, a space, the path,
// and a NUL; f is a file, d a folder, e an empty folder.
func (t *measured) modes() []byte {
	var lines []string
	add := func(kind string, perm uint32, path string) {
		path = strings.TrimPrefix(path, t.place.prefix)
		lines = append(lines, fmt.Sprintf("%s%04o %s\x00", kind, perm, path))
	}
	for path, st := range t.walk.files {
		perm := st.Mode & 0o777
		if !st.link() && perm != 0o644 && perm != 0o755 {
			add("f", perm, path)
		}
	}
	for path, perm := range t.walk.modes {
		add("d", perm, path)
	}
	for _, path := range t.walk.empty {
		perm, ok := t.walk.modes[path]
		if !ok {
			perm = 0o755
		}
		add("e", perm, path)
	}
	sort.Strings(lines)
	return []byte(strings.Join(lines, ""))
}

// stateFiles are the files of a git directory that say where the user was.
var stateFiles = []string{"HEAD", "index", "ORIG_HEAD", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "MERGE_RR",
	"MERGE_AUTOSTASH", "AUTO_MERGE", "SQUASH_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "COMMIT_EDITMSG",
	"BISECT_LOG", "BISECT_START", "BISECT_TERMS", "BISECT_NAMES", "BISECT_EXPECTED_REV", "BISECT_FIRST_PARENT",
	"rebase-merge", "rebase-apply", "sequencer"}

// operations names what is in progress in a repository.
func operations(gitDir string) []string {
	if gitDir == "" {
		return nil
	}
	signs := []struct{ file, name string }{{"MERGE_HEAD", "merge"}, {"rebase-merge", "rebase"}, {"rebase-apply", "rebase"},
		{"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"}, {"BISECT_LOG", "bisect"}}
	var out []string
	for _, sign := range signs {
		if _, err := os.Stat(filepath.Join(gitDir, sign.file)); err == nil {
			out = append(out, sign.name)
		}
	}
	return out
}

// gitNode keeps the user's index, HEAD and operations, with the objects that
// the index needs and the working tree doesn't hold.
func (m *measurer) gitNode(ctx context.Context, t *measured) (node, error) {
	n := node{}
	for _, name := range stateFiles {
		if err := m.stateFile(ctx, n, filepath.Join(t.place.gitDir, name), name); err != nil {
			return nil, err
		}
	}
	objects, err := m.stagedObjects(ctx, t)
	if err != nil {
		return nil, err
	}
	if len(objects) > 0 {
		n["objects"] = objects
	}
	return n, nil
}

// stateFile adds a file, or a folder of files, of the git directory. One that
// ends in the meantime is simply not there.
func (m *measurer) stateFile(ctx context.Context, into node, path, name string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || strings.EqualFold(name, ".git") {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return m.stateDir(ctx, into, path, name)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	into[name], err = m.blob(ctx, data)
	return err
}

func (m *measurer) stateDir(ctx context.Context, into node, path, name string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	inner := node{}
	for _, e := range entries {
		if err := m.stateFile(ctx, inner, filepath.Join(path, e.Name()), e.Name()); err != nil {
			return err
		}
	}
	into[name] = inner
	return nil
}

// stagedObjects copies what the user's index refers to. Unstaging, dropping a
// stash or `git gc` over there must not take it from the snapshot.
func (m *measurer) stagedObjects(ctx context.Context, t *measured) (node, error) {
	if _, err := os.Stat(filepath.Join(t.place.gitDir, "index")); err != nil {
		return nil, nil
	}
	staged, err := userIndex(ctx, t.place)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, nil // measure noted it already
	}
	out, err := m.store.run(ctx, nil, "ls-tree", "-r", "-z", t.tree)
	if err != nil {
		return nil, err
	}
	held := map[string]bool{}
	for _, line := range fields(out) {
		if e, ok := parseTree(line); ok {
			held[e.oid] = true
		}
	}
	var ids []string
	for _, e := range staged {
		if e.mode != "160000" && !held[e.oid] && len(e.oid) == len(t.tree) {
			ids = append(ids, e.oid)
		}
	}
	missing, err := copyObjects(ctx, t.place.user(""), m.store, ids)
	if err != nil {
		return nil, err
	}
	n := node{}
	for _, id := range ids {
		if !missing[id] {
			n[id] = "blob " + id
		}
	}
	return n, nil
}
