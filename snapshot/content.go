package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	used    atomic.Int64
}

// errOver: there is no room for what is new.
var errOver = errors.New("over the budget")

// take reserves room for n bytes.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.left {
		b.used.Add(-n)
		return false
	}
	return true
}

// readAll gives every job's entry its id, or the reason why it has none. Where
// there may be too little room the smallest come first: it is the large that
// are left out.
func (r *reader) readAll(jobs []job) error {
	sum := int64(0)
	for _, j := range jobs {
		sum += j.e.st.Size
	}
	at := workers()
	if sum > r.budget.left {
		at = 1 // or a large one could be first to ask for room
		sort.SliceStable(jobs, func(a, b int) bool { return jobs[a].e.st.Size < jobs[b].e.st.Size })
	}
	for _, j := range jobs {
		if j.e.st.Size > r.budget.perFile {
			r.leaveOut(j, fmt.Sprintf("larger than the cap of %s per file", byteCount(r.budget.perFile)), true)
		}
	}
	parallelBy(at, len(jobs), func() func(int) {
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
	for n := range attempts {
		if j.e.kind == kindLink {
			err = w.link(j)
		} else {
			err = w.file(j, n > 0)
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
	case errors.Is(err, errOver):
		w.leaveOut(j, w.budget.why, true)
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
func (w *worker) file(j job, again bool) error {
	fd, err := openBeneath(w.root, j.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return errChanged // a link or a socket by now
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	// The scan's stat serves at first; what differs from it shows below.
	if again {
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		j.e.st = statOf(&st)
	}
	if kindOf(j.e.st.Mode) != kindFile {
		return errChanged
	}
	if j.e.st.Size > w.budget.perFile {
		return fmt.Errorf("grew beyond the cap of %s per file", byteCount(w.budget.perFile))
	}
	if j.e.st.Size > inMemory {
		err = w.large(j, fd)
	} else {
		err = w.small(j, fd)
	}
	if err != nil {
		return err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if statOf(&st) != j.e.st {
		return errChanged
	}
	return nil
}

// small reads by plain reads: a mapped file that shrinks would kill us.
func (w *worker) small(j job, fd int) error {
	size := int(j.e.st.Size)
	if cap(w.buf) < size {
		w.buf = make([]byte, min(inMemory, 2*size+4096))
	}
	buf := w.buf[:size]
	n, err := readFull(fd, buf)
	if err != nil {
		return err
	}
	id, err := w.pack.putWithin(w.c, typeBlob, buf[:n], w.budget)
	if errors.Is(err, errOver) {
		return err
	}
	if err != nil {
		return errStore{err}
	}
	j.e.id = id
	if n != size {
		return errChanged // shorter than it was
	}
	return nil
}

// readFull reads until buf is full or the file ends.
func readFull(fd int, buf []byte) (n int, err error) {
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return n, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n, nil
}

// descriptor reads a file from its beginning, without the runtime's poller.
type descriptor struct {
	fd  int
	at  int64
	err error // of reading, which is not the store's
}

func (d *descriptor) Read(b []byte) (int, error) {
	for {
		n, err := unix.Pread(d.fd, b, d.at)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			d.err = err
			return 0, err
		}
		if n == 0 {
			return 0, io.EOF
		}
		d.at += int64(n)
		return n, nil
	}
}

func (w *worker) large(j job, fd int) error {
	size := j.e.st.Size
	h := objectHash(w.pack.size, typeBlob, size)
	n, err := io.Copy(h, io.LimitReader(&descriptor{fd: fd}, size))
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
	if !w.budget.take(size) {
		return errOver
	}
	src := &descriptor{fd: fd}
	if err := w.pack.stream(id, size, src); err != nil {
		if errors.Is(err, errChanged) || src.err != nil {
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
