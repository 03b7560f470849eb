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

	"golang.org/x/sys/unix"
)

// fileStat is what tells that a file wasn't written since. Git's own index
// compares whole seconds only; an edit that keeps size and mtime shows in ctime.
type fileStat struct {
	Size, Mtime, Ctime int64
	Ino                uint64
	Mode               uint32
}

func (f fileStat) link() bool { return f.Mode&unix.S_IFMT == unix.S_IFLNK }

// walk is what lies in a directory, by lstat. Paths are relative to the root
// of the working tree, as git's are.
type walk struct {
	place  place
	files  map[string]fileStat // regular files and symlinks
	modes  map[string]uint32   // folders whose mode is not 0755
	empty  []string            // folders with nothing in them
	nested []string            // roots of other repositories
	// blocked can't be given to git at all: special files, what can't be read.
	blocked []string
	hidden  map[string]bool // of blocked, what is ignored: git must not even be told to exclude it
	skipped []omission
	partial bool
	// rules are stats of ignored .gitignore files: they count though no tree has them.
	rules map[string]fileStat

	ignored map[string]bool
	inodes  map[uint64]string
	state   string
	uid     int
}

// scan lists the directory with its ignored parts left out. What the private
// index of g holds is never left out.
func scan(ctx context.Context, g git, p place, state string) (*walk, error) {
	w := &walk{place: p, files: map[string]fileStat{}, modes: map[string]uint32{}, rules: map[string]fileStat{},
		ignored: map[string]bool{}, inodes: map[uint64]string{}, state: state, uid: os.Getuid()}
	out, err := g.run(ctx, nil, inPrefix(p, "ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z")...)
	if err != nil {
		return nil, fmt.Errorf("ignored files: %w", err)
	}
	for _, path := range fields(out) {
		w.ignored[strings.TrimSuffix(path, "/")] = true
		if path == ".gitignore" || strings.HasSuffix(path, "/.gitignore") {
			if st, err := lstat(filepath.Join(p.top, path)); err == nil {
				w.rules[path] = st
			}
		}
	}
	if err := w.dir(ctx, strings.TrimSuffix(p.prefix, "/")); err != nil {
		return nil, err
	}
	return w, w.dropIgnoredSpecials(ctx, g)
}

// inPrefix limits a listing to the workspace's part of the working tree.
func inPrefix(p place, args ...string) []string {
	if p.prefix == "" {
		return args
	}
	return append(args, "--", strings.TrimSuffix(p.prefix, "/"))
}

func lstat(path string) (fileStat, error) {
	var st unix.Stat_t
	for {
		err := unix.Lstat(path, &st)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fileStat{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		return fileStat{Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano(), Ino: st.Ino, Mode: st.Mode}, nil
	}
}

func (w *walk) abs(path string) string { return filepath.Join(w.place.top, path) }

// dir walks one folder; path is "" for the root of the working tree.
func (w *walk) dir(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(w.abs(path))
	if err != nil && path == strings.TrimSuffix(w.place.prefix, "/") {
		return fmt.Errorf("read directory: %w", err)
	}
	if err != nil {
		w.block(path, "folder can't be read")
		return nil
	}
	if len(entries) == 0 && path != "" {
		w.empty = append(w.empty, path)
	}
	for _, e := range entries {
		if err := w.entry(ctx, joinPath(path, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func joinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// omission is a Skip as the walk notes it; loss makes the tree partial.
type omission struct {
	path, why string
	loss      bool
}

// block takes a path out of what git gets to see, and makes the tree partial.
func (w *walk) block(path, why string) {
	w.blocked = append(w.blocked, path)
	w.skip(path, why, true)
}

func (w *walk) skip(path, why string, loss bool) {
	w.skipped = append(w.skipped, omission{path: path, why: why, loss: loss})
	w.partial = w.partial || loss
}

// skips is what the walk left out, relative to the workspace's directory.
func (w *walk) skips() []Skip {
	var list []Skip
	for _, s := range w.skipped {
		shown := strings.TrimPrefix(s.path, w.place.prefix)
		list = append(list, Skip{Path: strings.ToValidUTF8(shown, "\ufffd"), Why: s.why})
	}
	return list
}

func (w *walk) entry(ctx context.Context, path string) error {
	name := filepath.Base(path)
	if w.ignored[path] || name == ".git" {
		return nil
	}
	st, err := lstat(w.abs(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it went away meanwhile: so it isn't there
	}
	if err != nil {
		w.block(path, "can't be read")
		return nil
	}
	if strings.EqualFold(name, ".git") {
		w.block(path, "git keeps no file of this name")
		return nil
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return w.folder(ctx, path, st)
	case unix.S_IFREG:
		w.regular(path, st)
	case unix.S_IFLNK:
		w.files[path] = st
	case unix.S_IFIFO:
		w.block(path, "fifo")
	case unix.S_IFSOCK:
		w.block(path, "socket")
	default:
		w.block(path, "device")
	}
	return nil
}

func (w *walk) folder(ctx context.Context, path string, st fileStat) error {
	if w.abs(path) == w.state {
		w.blocked = append(w.blocked, path)
		w.skip(path, "perdure's own state", false)
		return nil
	}
	switch nestedKind(w.abs(path)) {
	case nestedRepo:
		w.nested = append(w.nested, path)
		return nil
	case nestedOdd:
		w.skip(path+"/.git", "not a repository, and git keeps no file of this name", true)
	}
	if perm := st.Mode & 0o777; perm != 0o755 {
		w.modes[path] = perm
	}
	return w.dir(ctx, path)
}

func (w *walk) regular(path string, st fileStat) {
	if !w.readable(path, st) {
		w.block(path, "can't be read")
		return
	}
	w.files[path] = st
	if first, twice := w.inodes[st.Ino]; twice {
		w.skip(path, "hard link to "+strings.TrimPrefix(first, w.place.prefix)+", kept as a file of its own", false)
	} else {
		w.inodes[st.Ino] = path
	}
}

func (w *walk) readable(path string, st fileStat) bool {
	if w.uid == 0 || st.Mode&0o444 == 0o444 {
		return true
	}
	return unix.Access(w.abs(path), unix.R_OK) == nil
}

// dropIgnoredSpecials asks git about special files: its listing of ignored
// files never names them.
func (w *walk) dropIgnoredSpecials(ctx context.Context, g git) error {
	if len(w.blocked) == 0 {
		return nil
	}
	hidden, err := ignoredOf(ctx, g, w.blocked, "--no-index")
	if err != nil || len(hidden) == 0 {
		return err
	}
	w.hidden = hidden
	// What the index holds was kept on purpose: it is missed, not ignored.
	if hidden, err = ignoredOf(ctx, g, w.blocked); err != nil {
		return err
	}
	kept := w.skipped[:0]
	w.partial = false
	for _, s := range w.skipped {
		if hidden[s.path] {
			continue
		}
		kept = append(kept, s)
		w.partial = w.partial || s.loss
	}
	w.skipped = kept
	return nil
}

// ignoredOf returns those of the paths that git ignores.
func ignoredOf(ctx context.Context, g git, paths []string, flags ...string) (map[string]bool, error) {
	// check-ignore knows no literal pathspecs; after "./" nothing is magic.
	g.magic = true
	asked := make([]string, len(paths))
	for i, path := range paths {
		asked[i] = "./" + path
	}
	out, err := g.run(ctx, joined(asked), append([]string{"check-ignore", "-z", "--stdin"}, flags...)...)
	if err != nil && !quietNo(err) {
		return nil, fmt.Errorf("ignored special files: %w", err)
	}
	found := map[string]bool{}
	for _, path := range fields(out) {
		found[strings.TrimPrefix(path, "./")] = true
	}
	return found, nil
}

const (
	nestedNone = iota
	nestedRepo
	nestedOdd // there is a .git that is no repository
)

// nestedKind tells whether a folder is the root of another repository, by the
// same signs that git goes by.
func nestedKind(dir string) int {
	dot := filepath.Join(dir, ".git")
	info, err := os.Lstat(dot)
	if err != nil {
		return nestedNone
	}
	if info.Mode().IsRegular() {
		f, err := os.Open(dot)
		if err != nil {
			return nestedOdd
		}
		defer f.Close()
		head := make([]byte, 8)
		n, _ := f.Read(head)
		if bytes.HasPrefix(head[:n], []byte("gitdir: ")) {
			return nestedRepo
		}
		return nestedOdd
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dot, name)); err != nil {
			return nestedOdd
		}
	}
	return nestedRepo
}
