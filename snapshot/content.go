package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// inMemory bounds the files that are read into memory as a whole, one for each
// worker; larger ones are read twice instead, once for the id.
const inMemory = 2 << 20

// attempts is how often a file that changes while it is read is read again.
const attempts = 3

// job is one file or link whose content has to be read.
type job struct {
	path string
	e    *entry
}

// reader reads the content of files into a packer, several at a time.
type reader struct {
	ctx    context.Context
	root   int
	pack   *packer
	budget *budget

	mu      sync.Mutex
	skipped []omission
	failed  error // of the store: nothing can be kept then
	stop    atomic.Bool
}

// budget bounds the bytes that one snapshot may add.
type budget struct {
	perFile int64
	left    int64 // of the snapshot and the store
	why     string
}

// readAll gives every job's entry its id, or the reason why it has none. The
// smallest come first: where a cap is met, it is the large that are left out.
func (r *reader) readAll(jobs []job) error {
	over := 0
	sum := int64(0)
	for _, j := range jobs {
		sum += j.e.st.Size
	}
	if sum > r.budget.left {
		sort.SliceStable(jobs, func(a, b int) bool { return jobs[a].e.st.Size < jobs[b].e.st.Size })
	}
	used := int64(0)
	for _, j := range jobs {
		switch {
		case j.e.st.Size > r.budget.perFile:
			r.leaveOut(j, fmt.Sprintf("larger than the cap of %s per file", byteCount(r.budget.perFile)), true)
			over++
		case used+j.e.st.Size > r.budget.left:
			r.leaveOut(j, r.budget.why, true)
			over++
		default:
			used += j.e.st.Size
		}
	}
	parallel(len(jobs), func() func(int) {
		w := &worker{reader: r, c: newCompressor()}
		return func(i int) {
			if jobs[i].e.out == "" && !r.stop.Load() {
				w.read(jobs[i])
			}
		}
	})
	if err := r.ctx.Err(); err != nil {
		return err
	}
	return r.failed
}

func (r *reader) leaveOut(j job, why string, loss bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j.e.out = why
	r.skipped = append(r.skipped, omission{j.path, why, loss})
}

func (r *reader) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}
	r.stop.Store(true)
}

// worker is one goroutine's buffers.
type worker struct {
	*reader
	c   *compressor
	buf []byte
}

// errStore marks what went wrong in the store, not with the file.
type errStore struct{ error }

func (w *worker) read(j job) {
	if w.ctx.Err() != nil {
		w.stop.Store(true)
		return
	}
	var err error
	for range attempts {
		if j.e.kind == kindLink {
			err = w.link(j)
		} else {
			err = w.file(j)
		}
		if !errors.Is(err, errChanged) {
			break
		}
	}
	var broken errStore
	switch {
	case err == nil:
	case errors.As(err, &broken):
		w.fail(err)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		j.e.out = "gone" // it went away meanwhile: so it isn't there
	case errors.Is(err, errChanged):
		// What was read last is kept: a moment's content of a file that
		// never rests is worth more than none.
		if j.e.id.zero() {
			w.leaveOut(j, "changed while it was read", true)
			return
		}
		w.leaveOut(j, "changed while it was read: the content may be of several moments", true)
		j.e.out = ""
	default:
		w.leaveOut(j, "can't be read: "+cause(err), true)
	}
}

// cause is an error without the path, which is listed beside it.
func cause(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

func (w *worker) link(j job) error {
	dir, name := "", j.path
	if i := strings.LastIndexByte(j.path, '/'); i >= 0 {
		dir, name = j.path[:i], j.path[i+1:]
	}
	fd, err := openFolder(w.root, dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf := make([]byte, 4097)
	n, err := unix.Readlinkat(fd, name, buf)
	if errors.Is(err, unix.EINVAL) {
		return errChanged // no link any more
	}
	if err != nil {
		return err
	}
	id, err := w.pack.put(w.c, typeBlob, buf[:n])
	if err != nil {
		return errStore{err}
	}
	j.e.id = id
	return nil
}

// file reads a regular file, by whatever it is when it is opened: opening a
// FIFO must not hang, nor a file that grows fill the memory.
func (w *worker) file(j job) error {
	fd, err := openBeneath(w.root, j.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return errChanged // a link or a socket by now
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), j.path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kindOf(st.Mode) != kindFile {
		return errChanged
	}
	j.e.st = statOf(&st)
	if j.e.st.Size > w.budget.perFile {
		return fmt.Errorf("grew beyond the cap of %s per file", byteCount(w.budget.perFile))
	}
	if j.e.st.Size > inMemory {
		err = w.large(j, f, fd)
	} else {
		err = w.small(j, fd)
	}
	if err != nil {
		return err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if now := statOf(&st); now.Size != j.e.st.Size || now.Mtime != j.e.st.Mtime || now.Ctime != j.e.st.Ctime {
		return errChanged
	}
	return nil
}

// small reads by plain reads: a mapped file that shrinks would kill us.
func (w *worker) small(j job, fd int) error {
	size := int(j.e.st.Size)
	if cap(w.buf) < size+1 {
		w.buf = make([]byte, min(inMemory+1, 2*size+4096))
	}
	buf := w.buf[:size+1]
	n := 0
	for n <= size {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if m == 0 {
			break
		}
		n += m
	}
	id, err := w.pack.put(w.c, typeBlob, buf[:min(n, size)])
	if err != nil {
		return errStore{err}
	}
	j.e.id = id
	if n != size {
		return errChanged // shorter than it was, or grown
	}
	return nil
}

func (w *worker) large(j job, f *os.File, fd int) error {
	size := j.e.st.Size
	h := objectHash(w.pack.size, typeBlob, size)
	n, err := io.Copy(h, io.LimitReader(f, size))
	if err != nil {
		return err
	}
	if n != size {
		return errChanged
	}
	id := sumID(h)
	held, err := w.pack.has(id)
	if err != nil {
		return errStore{err}
	}
	if held {
		j.e.id = id
		return nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := w.pack.stream(id, size, f); err != nil {
		var path *os.PathError
		if errors.Is(err, errChanged) || errors.As(err, &path) && path.Path == f.Name() {
			return err
		}
		return errStore{err}
	}
	j.e.id = id
	return nil
}

// byteCount shows a number of bytes by its largest whole unit.
func byteCount(n int64) string {
	unit := 0
	for n >= 1<<10 && n%(1<<10) == 0 && unit < 4 {
		n >>= 10
		unit++
	}
	return fmt.Sprintf("%d %s", n, [...]string{"bytes", "KiB", "MiB", "GiB", "TiB"}[unit])
}
