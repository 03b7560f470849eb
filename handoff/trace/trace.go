// Package trace tells which files of a tree a check opened, and what that means for the files that were edited.
//
// Watch follows opens by inotify(7) while the check runs. What a tool keeps in caches is not opened again: a compiled
// Python file stands for its source, Compiled asks go which files are built into the tested packages (its cache of test
// results is turned off where the check is run), and Profile reads coverage. A tool whose caches aren't known leaves
// "unknown", never a guess.
package trace

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
var skipped = map[string]bool{".git": true, "node_modules": true, ".venv": true, "venv": true, "target": true, ".tox": true, ".hg": true}

// opens is what is watched: a file opened, and folders that come to be.
const opens = unix.IN_OPEN | unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR

// Watch follows what is opened below a folder. Stop it once.
type Watch struct {
	root string
	file *os.File
	done chan struct{}

	mu      sync.Mutex
	folders map[int32]string // watch descriptor → folder, relative
	opened  map[string]bool
	partial bool
}

// Start watches a folder and all below it; extra are files in folders that are otherwise passed over. The error says
// that nothing can be watched at all.
func Start(root string, extra []string) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	w := &Watch{root: root, file: os.NewFile(uintptr(fd), "inotify"), done: make(chan struct{}), folders: map[int32]string{}, opened: map[string]bool{}}
	w.add(".")
	for _, file := range extra {
		w.addOne(filepath.Dir(file))
	}
	go w.follow()
	return w, nil
}

// add watches a folder with all below it.
func (w *Watch) add(rel string) {
	_ = filepath.WalkDir(filepath.Join(w.root, rel), func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone, or unreadable: then the check can't read it either
		}
		if !e.IsDir() {
			return nil
		}
		if skipped[e.Name()] && p != w.root {
			return fs.SkipDir
		}
		below, err := filepath.Rel(w.root, p)
		if err == nil {
			w.addOne(below)
		}
		return nil
	})
}

func (w *Watch) addOne(rel string) {
	var wd int
	err := w.control(func(fd int) (err error) {
		wd, err = unix.InotifyAddWatch(fd, filepath.Join(w.root, rel), opens)
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.partial = w.partial || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
		return
	}
	w.folders[int32(wd)] = rel
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
		case mask&unix.IN_Q_OVERFLOW != 0:
			w.partial = true
		case !known || name == "":
		case mask&unix.IN_ISDIR == 0 && mask&unix.IN_OPEN != 0:
			w.opened[source(filepath.Join(folder, name))] = true
		case mask&unix.IN_ISDIR != 0 && mask&unix.IN_OPEN == 0 && !skipped[name]:
			made = append(made, filepath.Join(folder, name))
		}
	}
	return made
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

// Result is what a watch saw.
type Result struct {
	Opened   map[string]bool // paths relative to the folder
	Complete bool            // no open was missed
}

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
	return Result{Opened: w.opened, Complete: !w.partial}
}
