package snapshot

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// scan is what lies in a directory, by lstat: its ignored parts are named but
// not entered. No link is followed, and nothing is opened but folders.
type scan struct {
	place   place
	state   string // perdure's own state, which is never captured
	include []string
	top     *folder
	root    int // descriptor of the workspace's directory
	old     *cache
	// trusted: old's word on what is ignored still counts.
	trusted bool
	ask     func(ctx context.Context, paths []string) ([]bool, error)

	mu      sync.Mutex
	skipped []omission
	partial bool
	inodes  map[inode]string
	nested  []string
	rules   []rule // the .gitignore files that were met
}

type inode struct{ dev, ino uint64 }

type rule struct {
	path string
	st   fileStat
}

// omission is a Skip as the scan notes it; loss makes the tree partial.
type omission struct {
	path, why string
	loss      bool
}

func (s *scan) skip(path, why string, loss bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipped = append(s.skipped, omission{path, why, loss})
	s.partial = s.partial || loss
}

// workers is how many goroutines wait for the file system at a time.
func workers() int { return min(2*runtime.GOMAXPROCS(0), 16) }

// parallel calls fn for 0 to n-1 on several goroutines, which have all ended
// when it returns. make gives each goroutine its own fn.
func parallel(n int, make func() func(i int)) { parallelBy(workers(), n, make) }

func parallelBy(goroutines, n int, make func() func(i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(goroutines, n) {
		group.Go(func() {
			fn := make()
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				fn(i)
			}
		})
	}
	group.Wait()
}

// visit is a folder to be read, and its entry in the folder above; the
// workspace's own directory has none.
type visit struct {
	f *folder
	e *entry
}

// run walks the directory, level by level: what is ignored must be known
// before the level below is entered, and is asked for a whole level at once.
func (s *scan) run(ctx context.Context) error {
	s.top = &folder{}
	level := []visit{{s.top, nil}}
	for len(level) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		var failed atomic.Pointer[error]
		parallel(len(level), func() func(int) {
			buf := make([]byte, 32<<10)
			return func(i int) {
				if err := s.read(level[i].f, buf); err != nil {
					failed.Store(&err)
				}
			}
		})
		if err := failed.Load(); err != nil {
			return *err
		}
		level = slices.DeleteFunc(level, s.isNested)
		if err := s.judge(ctx, level); err != nil {
			return err
		}
		level = s.descend(level)
	}
	return nil
}

// isNested takes a folder that turned out to be another repository's root out
// of the walk.
func (s *scan) isNested(v visit) bool {
	if v.e == nil || !v.f.dotGit {
		return false
	}
	switch nestedKind(joinPath(s.place.dir, v.f.path)) {
	case nestedRepo:
		v.e.kind, v.e.folder = kindNested, nil
		if !v.e.ignored {
			s.nested = append(s.nested, v.f.path)
		}
		return true
	case nestedOdd:
		if !v.f.ignored {
			s.skip(v.f.path+"/.git", "not a repository, and git keeps no file of this name", true)
		}
	}
	return false
}

// openFolder opens a folder below root, refusing links anywhere on the way.
func openFolder(root int, path string) (int, error) {
	if path == "" {
		path = "."
	}
	return openBeneath(root, path, unix.O_RDONLY|unix.O_DIRECTORY)
}

func openBeneath(root int, path string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(root, path, &how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		return fd, err
	}
}

// read lists one folder.
func (s *scan) read(f *folder, buf []byte) error {
	fd, err := openFolder(s.root, f.path)
	if err != nil {
		return s.unread(f, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return s.unread(f, err)
	}
	f.perm = st.Mode & 0o7777
	old := s.old.folder(f.path)
	f.same = old != nil && s.trusted
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return s.unread(f, err)
		}
		if n <= 0 {
			break
		}
		if err := s.names(f, fd, old, buf[:n]); err != nil {
			return err
		}
	}
	slices.SortFunc(f.entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	f.same = f.same && len(f.entries) == len(old.entries)
	return nil
}

// unread notes a folder that can't be listed. One that went away isn't there.
func (s *scan) unread(f *folder, err error) error {
	if f.path == "" {
		return fmt.Errorf("read directory: %w", err)
	}
	f.entries, f.names = nil, 1 // not an empty folder, as far as is known
	if !errors.Is(err, unix.ENOENT) {
		s.skip(f.path, "folder can't be read", true)
	}
	return nil
}

// names takes the names of a getdents64 buffer: inode (8 bytes), offset (8),
// record length (2), type (1), and the name, ended by a NUL.
func (s *scan) names(f *folder, fd int, old *folder, buf []byte) error {
	for len(buf) > 19 {
		size := int(buf[16]) | int(buf[17])<<8
		if size < 20 || size > len(buf) {
			return fmt.Errorf("folder %q: unexpected record of the file system", f.path)
		}
		raw := buf[19:size]
		buf = buf[size:]
		for i, c := range raw {
			if c == 0 {
				raw = raw[:i]
				break
			}
		}
		if string(raw) == "." || string(raw) == ".." {
			continue
		}
		f.names++
		s.name(f, fd, old, raw)
	}
	return nil
}

func (s *scan) name(f *folder, fd int, old *folder, raw []byte) {
	if string(raw) == ".git" {
		f.dotGit = true
		return
	}
	var then *entry
	if old != nil {
		then = old.findBytes(raw)
	}
	e := entry{}
	if then != nil {
		e.name = then.name
	} else {
		e.name = string(raw)
	}
	var st unix.Stat_t
	err := fstatat(fd, e.name, &st)
	if errors.Is(err, unix.ENOENT) {
		return // it went away meanwhile: so it isn't there
	}
	if err != nil {
		s.skip(joinPath(f.path, e.name), "can't be read", true)
		return
	}
	e.st, e.kind = statOf(&st), kindOf(st.Mode)
	if e.kind == kindFile && st.Nlink > 1 {
		s.hardLink(joinPath(f.path, e.name), inode{uint64(st.Dev), st.Ino})
	}
	e.unseen = true
	if then != nil && s.trusted && (then.kind == kindFolder) == (e.kind == kindFolder || e.kind == kindNested) {
		e.unseen, e.ignored = false, then.ignored
	}
	if then != nil && then.kind == e.kind && then.st == e.st && !then.id.zero() && !then.absent && e.st.before(s.old.Start) {
		e.id, e.known = then.id, true
	}
	if then == nil || then.kind != e.kind || !e.known && e.kind != kindFolder && (!e.ignored || !then.id.zero()) {
		f.same = false
	}
	f.entries = append(f.entries, e)
}

func fstatat(fd int, name string, st *unix.Stat_t) error {
	for {
		err := unix.Fstatat(fd, name, st, unix.AT_SYMLINK_NOFOLLOW)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// hardLink remembers files with several names; the second met is reported,
// once it is known not to be ignored.
func (s *scan) hardLink(path string, id inode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inodes == nil {
		s.inodes = map[inode]string{}
	}
	s.inodes[inode{id.dev, id.ino}] += path + "\x00"
}

// findBytes is find without making a string of the name.
func (f *folder) findBytes(name []byte) *entry {
	lo, hi := 0, len(f.entries)
	for lo < hi {
		mid := (lo + hi) / 2
		if f.entries[mid].name < string(name) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(f.entries) && f.entries[lo].name == string(name) {
		return &f.entries[lo]
	}
	return nil
}

// judge asks which of the level's unseen names are ignored.
func (s *scan) judge(ctx context.Context, level []visit) error {
	var paths []string
	var asked []*entry
	for _, v := range level {
		f := v.f
		for i := range f.entries {
			e := &f.entries[i]
			if !e.unseen || f.ignored {
				continue
			}
			asked = append(asked, e)
			paths = append(paths, s.place.prefix+joinPath(f.path, e.name))
		}
	}
	if len(paths) == 0 {
		return nil
	}
	verdicts, err := s.ask(ctx, paths)
	if err != nil {
		return err
	}
	for i, e := range asked {
		e.unseen, e.ignored = false, verdicts[i]
	}
	return nil
}

// descend settles what the level's entries are, and gives the level below.
func (s *scan) descend(level []visit) []visit {
	var next []visit
	for _, v := range level {
		f := v.f
		for i := range f.entries {
			e := &f.entries[i]
			path := joinPath(f.path, e.name)
			if e.name == ".gitignore" && !f.ignored {
				s.rules = append(s.rules, rule{path, e.st})
			}
			if !e.ignored && strings.EqualFold(e.name, ".git") {
				e.out = "git keeps no file of this name"
				s.skip(path, e.out, true)
				continue
			}
			if f.ignored {
				e.ignored = true
			}
			if e.kind == kindFolder && s.enter(e, path) {
				next = append(next, visit{e.folder, e})
			}
		}
	}
	return next
}

// enter tells whether a folder is walked.
func (s *scan) enter(e *entry, path string) bool {
	if joinPath(s.place.dir, path) == s.state {
		e.out = "perdure's own state"
		s.skip(path, e.out, false)
		return false
	}
	if e.ignored {
		if !mayInclude(s.include, path) {
			return false
		}
		e.folder = &folder{path: path, ignored: true}
		return true
	}
	e.folder = &folder{path: path}
	return true
}
