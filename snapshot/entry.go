package snapshot

import (
	"encoding/hex"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// objectID is a git object's id: its first 20 or 32 bytes, by the algorithm of
// the repository.
type objectID [32]byte

func (id objectID) zero() bool { return id == objectID{} }

// text is the id in hexadecimal; size is its length in bytes.
func (id objectID) text(size int) string { return hex.EncodeToString(id[:size]) }

func parseID(text string) (id objectID, ok bool) {
	if !hexID(text) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(text))
	return id, err == nil
}

// kind is what a name in a folder is.
type kind byte

const (
	kindFile kind = iota + 1
	kindLink
	kindFolder
	kindNested // the root of another repository
	kindFIFO
	kindSocket
	kindDevice
	kindCommit // a submodule that isn't checked out
)

func kindOf(mode uint32) kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return kindFile
	case unix.S_IFLNK:
		return kindLink
	case unix.S_IFDIR:
		return kindFolder
	case unix.S_IFIFO:
		return kindFIFO
	case unix.S_IFSOCK:
		return kindSocket
	}
	return kindDevice
}

// special is what the kind is called where it can't be kept, "" if it can.
func (k kind) special() string {
	return map[kind]string{kindFIFO: "fifo", kindSocket: "socket", kindDevice: "device"}[k]
}

// fileStat is what tells that a file wasn't written since. An edit that keeps
// size and mtime shows in ctime.
type fileStat struct {
	Size, Mtime, Ctime int64 // bytes; nanoseconds since the epoch
	Ino                uint64
	Mode               uint32
}

func statOf(st *unix.Stat_t) fileStat {
	return fileStat{Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano(), Ino: st.Ino, Mode: st.Mode}
}

// before tells whether the file was surely last touched before a scan that
// began at start, so that its stat can vouch for its content.
func (f fileStat) before(start int64) bool {
	limit := start - int64(granularity)
	return f.Ctime < limit && f.Mtime < limit
}

// entry is one name in a folder.
type entry struct {
	name string
	// out says why the entry is not in the tree although it should be.
	out     string
	st      fileStat
	id      objectID
	folder  *folder // of a folder that is walked
	kind    kind
	ignored bool
	unseen  bool // whether it is ignored has to be asked
	known   bool // id is right by the stat cache
	forced  bool // ignored, and in the tree because git tracks it
	opted   bool // ignored, and kept beside the tree because the workspace asks for it
	absent  bool // in the tree though not on disk: sparse, or a submodule
}

// folder is one folder of a scan. Paths are relative to the workspace's
// directory and have no slash at their ends; that one's own is "".
type folder struct {
	path    string
	entries []entry // sorted by name
	tree    objectID
	names   int    // how many names were on disk, ignored ones too
	perm    uint32 // mode bits
	same    bool   // every entry is as the stat cache has it
	dotGit  bool   // there is a .git in it
	ignored bool   // only reached because of what is tracked or opted in below it
}

// find returns the entry of that name, or nil.
func (f *folder) find(name string) *entry {
	i := sort.Search(len(f.entries), func(i int) bool { return f.entries[i].name >= name })
	if i < len(f.entries) && f.entries[i].name == name {
		return &f.entries[i]
	}
	return nil
}

// insert adds an entry in its place and returns it. Pointers to other entries
// of the folder are void after it.
func (f *folder) insert(e entry) *entry {
	f.same = false
	i := sort.Search(len(f.entries), func(i int) bool { return f.entries[i].name >= e.name })
	f.entries = append(f.entries, entry{})
	copy(f.entries[i+1:], f.entries[i:])
	f.entries[i] = e
	return &f.entries[i]
}

// lookup finds the entry at a path below f, nil where there is none. stop is
// the last entry on the way that is no walked folder, if one ended the search.
func (f *folder) lookup(path string) (found, stop *entry) {
	for at := f; ; {
		name, rest, more := strings.Cut(path, "/")
		e := at.find(name)
		if e == nil || !more {
			return e, nil
		}
		if e.folder == nil {
			return nil, e
		}
		at, path = e.folder, rest
	}
}

// each calls fn for every walked folder, parents first.
func (f *folder) each(fn func(*folder)) {
	fn(f)
	for i := range f.entries {
		if d := f.entries[i].folder; d != nil {
			d.each(fn)
		}
	}
}

func joinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// shown is a path as it goes into JSON, which holds no other bytes.
func shown(path string) string { return strings.ToValidUTF8(path, "\ufffd") }
