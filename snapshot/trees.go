package snapshot

import (
	"bytes"
	"sort"
)

// treeEntry is one line of a git tree.
type treeEntry struct {
	mode string // octal, as git writes it: no leading zero
	name string
	id   objectID
}

// encodeTree gives a tree object's content: git sorts folders as if their
// names ended in a slash.
func encodeTree(list []treeEntry, size int) []byte {
	key := func(e treeEntry) string {
		if e.mode == "40000" {
			return e.name + "/"
		}
		return e.name
	}
	sort.Slice(list, func(a, b int) bool { return key(list[a]) < key(list[b]) })
	var b bytes.Buffer
	for _, e := range list {
		b.WriteString(e.mode)
		b.WriteByte(' ')
		b.WriteString(e.name)
		b.WriteByte(0)
		b.Write(e.id[:size])
	}
	return b.Bytes()
}

// trees writes the trees of a scan, the deepest first.
type trees struct {
	pack  *packer
	c     *compressor
	old   *cache // whose trees the store is known to hold
	heads map[string]objectID
}

// write gives a folder its tree's id; zero where nothing of it is in the tree,
// as git has no empty folders.
func (t *trees) write(f *folder) error {
	old := t.old.folder(f.path)
	same := f.same && old != nil
	for i := range f.entries {
		d := f.entries[i].folder
		if d == nil {
			continue
		}
		if err := t.write(d); err != nil {
			return err
		}
		then := t.old.folder(d.path)
		same = same && then != nil && then.tree == d.tree
	}
	if same {
		f.tree = old.tree
		return nil
	}
	list := make([]treeEntry, 0, len(f.entries))
	for i := range f.entries {
		e := &f.entries[i]
		if line, ok := t.line(f, e); ok {
			list = append(list, line)
		}
	}
	f.tree = objectID{}
	if len(list) == 0 && f.path != "" {
		return nil
	}
	data := encodeTree(list, t.pack.size)
	h := objectHash(t.pack.size, typeTree, int64(len(data)))
	h.Write(data)
	f.tree = sumID(h)
	if old != nil && old.tree == f.tree {
		return nil
	}
	_, err := t.pack.put(t.c, typeTree, data)
	return err
}

func (t *trees) line(f *folder, e *entry) (treeEntry, bool) {
	line := treeEntry{name: e.name, id: e.id}
	switch {
	case e.folder != nil:
		line.mode, line.id = "40000", e.folder.tree
		return line, !line.id.zero()
	case e.kind == kindNested && !e.ignored:
		line.mode, line.id = "160000", t.heads[joinPath(f.path, e.name)]
		return line, !line.id.zero()
	case e.out != "" || e.id.zero() || e.ignored && !e.forced:
		return line, false
	case e.kind == kindLink:
		line.mode = "120000"
	case e.kind == kindCommit:
		line.mode = "160000"
	case e.st.Mode&0o100 != 0:
		line.mode = "100755"
	default:
		line.mode = "100644"
	}
	return line, true
}
