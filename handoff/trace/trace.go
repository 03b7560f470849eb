// Package trace tells which files of a tree a check opened, and what that means for the files that were edited.
//
// Watch follows opens by inotify(7) while the check runs. What a tool keeps in caches is not opened again: a compiled
// Python file stands for its source, Compiled asks go which files are built into the tested packages (its cache of test
// results is turned off where the check is run), and Profile reads coverage. Whatever may have read a file without
// opening it then and there leaves "unknown", never a guess: Caches tells the tools, Derived the files, that do.
package trace

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The answers for an edited file, from the best on.
const (
	Exercised = "exercised" // lines of it ran
	Opened    = "opened"    // read, or compiled into what ran
	NotOpened = "not opened"
	Unknown   = "unknown"
)

// skipped are folders that hold no edits, and thousands of folders of their own.
var skipped = map[string]bool{".git": true, "node_modules": true, ".venv": true, "venv": true, ".hg": true, ".fingerprint": true, "incremental": true}

// shallow are folders of what was built, by how deep they are followed: what is run out of them is near their top.
var shallow = map[string]int{"target": 3, ".tox": 2, ".nox": 2, ".gradle": 2}

// opens is what is watched: a file opened, and folders that come, go and move.
const opens = unix.IN_OPEN | unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_ONLYDIR

// maxFolders bounds the watches of one check; the kernel's own limit is for all of a user's programs.
const maxFolders = 200_000

// Watch follows what is opened below a folder. Stop it once.
type Watch struct {
	root string
	file *os.File
	done chan struct{}
	most int // folders

	mu       sync.Mutex
	folders  map[int32]string   // watch descriptor → folder, relative
	files    map[int32][]string // watch descriptor → the edited files of that inode
	programs map[int32]bool
	inodes   map[string]inode
	opened   map[string]bool
	moved    map[string]bool // folders that came, went or moved
	partial  bool
	program  bool
}

type inode struct{ dev, ino uint64 }

// Follow is what else a watch follows.
type Follow struct {
	// Edited are files, relative to the folder, that are followed under whatever name they are opened, and in folders
	// that are otherwise passed over.
	Edited []string
	// Programs are absolute paths of programs whose start is to be told.
	Programs []string
}

// Start watches a folder and all below it. The error says that nothing can be watched at all.
func Start(root string, follow Follow) (*Watch, error) {
	return start(root, follow, maxFolders)
}

func start(root string, follow Follow, most int) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	w := &Watch{root: root, file: os.NewFile(uintptr(fd), "inotify"), done: make(chan struct{}), most: most, folders: map[int32]string{},
		files: map[int32][]string{}, programs: map[int32]bool{}, inodes: map[string]inode{}, opened: map[string]bool{}, moved: map[string]bool{}}
	for _, name := range follow.Edited {
		w.addFile(name)
	}
	for _, name := range follow.Programs {
		if wd, err := w.watch(name, unix.IN_OPEN); err == nil {
			w.programs[wd] = true
		}
	}
	w.add(".")
	go w.follow()
	return w, nil
}

// addFile follows an edited file by its inode: it may have other names, and its folder may move.
func (w *Watch) addFile(rel string) {
	w.addOne(filepath.Dir(rel))
	name := filepath.Join(w.root, rel)
	id, ok := inodeOf(name)
	if !ok {
		return
	}
	if wd, err := w.watch(name, unix.IN_OPEN|unix.IN_DONT_FOLLOW); err == nil {
		w.files[wd] = append(w.files[wd], rel)
		w.inodes[rel] = id
	}
}

// maxLinks bounds the links that are followed out of the folder.
const maxLinks = 1000

// addLink follows the file outside of the folder that a link within leads to.
func (w *Watch) addLink(name string) {
	rel, err := filepath.Rel(w.root, name)
	if info, serr := os.Stat(name); err != nil || serr != nil || !info.Mode().IsRegular() || Within(w.root, name) {
		return
	}
	wd, err := w.watch(name, unix.IN_OPEN)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && len(w.files[wd]) < maxLinks && !slices.Contains(w.files[wd], rel) {
		w.files[wd] = append(w.files[wd], rel)
	}
}

// Within tells whether a file, its links followed, is below a folder.
func Within(root, name string) bool {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return false
	}
	file, err := filepath.EvalSymlinks(name)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(real, file)
	return err == nil && filepath.IsLocal(rel)
}

func inodeOf(name string) (inode, bool) {
	info, err := os.Lstat(name)
	if err != nil {
		return inode{}, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return inode{uint64(st.Dev), st.Ino}, ok //nolint:unconvert // Dev has another type elsewhere
}

// add watches a folder with all below it.
func (w *Watch) add(rel string) {
	_ = filepath.WalkDir(filepath.Join(w.root, rel), func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone, or unreadable: then the check can't read it either
		}
		if e.Type()&fs.ModeSymlink != 0 {
			w.addLink(p)
		}
		if !e.IsDir() {
			return nil
		}
		below, err := filepath.Rel(w.root, p)
		if err != nil || tooDeep(below) {
			return fs.SkipDir
		}
		w.addOne(below)
		return nil
	})
}

// tooDeep tells of a folder, relative to the one watched, that it isn't followed.
func tooDeep(rel string) bool {
	left := -1
	for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
		if left == 0 || skipped[name] {
			return true
		}
		if left > 0 {
			left--
		} else if depth := shallow[name]; depth > 0 {
			left = depth
		}
	}
	return false
}

func (w *Watch) addOne(rel string) {
	w.mu.Lock()
	full := len(w.folders) >= w.most
	w.partial = w.partial || full
	w.mu.Unlock()
	if full {
		return
	}
	wd, err := w.watch(filepath.Join(w.root, rel), opens)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.partial = w.partial || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
		return
	}
	w.folders[wd] = rel
}

func (w *Watch) watch(name string, mask uint32) (int32, error) {
	var wd int
	err := w.control(func(fd int) (err error) {
		wd, err = unix.InotifyAddWatch(fd, name, mask)
		return err
	})
	return int32(wd), err
}

func (w *Watch) control(fn func(fd int) error) error {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = fn(int(fd)) }); err != nil {
		return err
	}
	return inner
}

func (w *Watch) follow() {
	defer close(w.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return
		}
		for _, folder := range w.take(buf[:n]) {
			w.add(folder)
		}
	}
}

// take reads events (see inotify(7)) and gives the folders that came to be.
func (w *Watch) take(p []byte) (made []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(p) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(p))
		mask := binary.NativeEndian.Uint32(p[4:])
		size := int(binary.NativeEndian.Uint32(p[12:]))
		if len(p) < unix.SizeofInotifyEvent+size {
			w.partial = true
			return made
		}
		name := unix.ByteSliceToString(p[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+size])
		p = p[unix.SizeofInotifyEvent+size:]
		folder, known := w.folders[wd]
		switch {
		case mask&(unix.IN_Q_OVERFLOW|unix.IN_UNMOUNT) != 0:
			w.partial = true
		case name == "":
			w.inodeOpened(wd, mask)
		case !known:
		case mask&unix.IN_ISDIR == 0 && mask&unix.IN_OPEN != 0:
			w.opened[filepath.Join(folder, name)] = true
		case mask&unix.IN_ISDIR != 0 && mask&unix.IN_OPEN == 0:
			at := filepath.Join(folder, name)
			w.moved[at] = true
			if mask&unix.IN_MOVED_FROM == 0 {
				made = append(made, at)
			}
		}
	}
	return made
}

// inodeOpened takes an event of a file or program that is watched itself.
func (w *Watch) inodeOpened(wd int32, mask uint32) {
	if mask&unix.IN_OPEN == 0 {
		return
	}
	w.program = w.program || w.programs[wd]
	for _, name := range w.files[wd] {
		w.opened[name] = true
	}
}

// source is the file that a compiled one of Python stands for: where it is up to date, the source isn't opened.
func source(file string) string {
	folder, name := filepath.Split(file)
	if parent, ok := strings.CutSuffix(folder, "__pycache__/"); ok && strings.HasSuffix(name, ".pyc") {
		module, _, _ := strings.Cut(name, ".")
		return parent + module + ".py"
	}
	return file
}

// Result is what a watch saw. Paths are relative to the folder.
type Result struct {
	Opened   map[string]bool // by their own names
	Complete bool            // no open was missed
	Program  bool            // one of Follow's Programs ran, here or elsewhere

	sources map[string]bool // what is read where a compiled file of Python is
	unsure  map[string]bool // edited files that were replaced in folders that came or moved meanwhile
}

// Read tells whether a file was opened, or what is compiled from it.
func (r Result) Read(file string) bool { return r.Opened[file] || r.sources[file] }

// Unsure tells of an edited file that isn't among the opened that it may have been opened unseen: it was written anew
// in a folder that came to be, or moved, while the check ran.
func (r Result) Unsure(file string) bool { return r.unsure[file] }

// Stop ends the watch. Everything that was opened before the call is in the result: the kernel queues an event as the
// file is opened.
func (w *Watch) Stop() Result {
	_ = w.file.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
	<-w.done
	buf := make([]byte, 64<<10)
	for {
		n := 0
		err := w.control(func(fd int) (err error) { n, err = unix.Read(fd, buf); return err })
		if err != nil || n <= 0 {
			break
		}
		w.take(buf[:n])
	}
	w.file.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	r := Result{Opened: w.opened, Complete: !w.partial, Program: w.program, sources: map[string]bool{}, unsure: map[string]bool{}}
	for name := range w.opened {
		if s := source(name); s != name {
			r.sources[s] = true
		}
	}
	for name, was := range w.inodes {
		if now, ok := inodeOf(filepath.Join(w.root, name)); (!ok || now != was) && w.underMoved(name) {
			r.unsure[name] = true
		}
	}
	return r
}

// underMoved tells whether a folder around a file came, went or moved.
func (w *Watch) underMoved(name string) bool {
	for at := filepath.Dir(name); at != "."; at = filepath.Dir(at) {
		if w.moved[at] {
			return true
		}
	}
	return false
}
