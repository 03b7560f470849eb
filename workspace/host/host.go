// Package host is the process that holds one pty and serves one unix socket. It drains the pty always, into the
// journal and the screen, so that no viewer can stop the program; it outlives the server, and writes by itself how
// its session ended. It links nothing of the server, of SSH, of the store or of git: that keeps it small, and free
// of faults that aren't its own.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"perdure/workspace/journal"
	"perdure/workspace/screen"
	"perdure/workspace/wire"
)

// bootstrap is session.json, as package workspace writes it.
type bootstrap struct {
	ID           string   `json:"id"`
	Dir          string   `json:"dir"`
	Argv         []string `json:"argv"`
	Env          []string `json:"env"`
	Cols         uint16   `json:"cols"`
	Rows         uint16   `json:"rows"`
	Socket       string   `json:"socket"`
	JournalBytes int64    `json:"journal_bytes"`
}

// historyLines is how much history the screen keeps in memory; the journal has the rest.
const historyLines = 10000

// lastWords is how long attachments may take to write out the end of the output.
const lastWords = 5 * time.Second

type host struct {
	dir string
	b   bootstrap
	tty *os.File
	cmd *exec.Cmd
	jnl *journal.Journal

	back backlog // of the screen

	mu         sync.Mutex // guards what follows
	screen     *screen.Screen
	shown      uint64 // the offset of the journal that the screen shows
	cols, rows uint16
	sizes      int       // lines of the file that tells them
	resizes    int       // how often the size changed
	turns      uint64    // how often an attachment took over
	asked      time.Time // when the program last asked the terminal something
	last       time.Time // the last output
	bell       bool
	lostBytes  uint64 // what a failing journal could not take
	viewers    map[*viewer]struct{}
	peers      map[string]*peer // clients that number their input, by their names
	modes      wire.Tty
	watchers   map[chan struct{}]struct{} // told of each change of the status
	act        activity
	exited     *wire.Exited
	ended      chan struct{} // closed once exited is set

	in         chan typed    // what is to be typed
	terminated atomic.Bool   // the host was told to end, not the session
	local      atomic.Uint32 // the terminal's local modes as last seen (termios(3), c_lflag)
	conns      sync.WaitGroup

	checkpointDue bool // by mu
	checkpoints   sync.WaitGroup
}

// Run holds the session of a folder until it ends. ctx ends it, as when the box goes down: HUP, then KILL, and the
// exit record says so.
func Run(ctx context.Context, dir string, l net.Listener) error {
	debug.SetGCPercent(40) // a small heap that idles: memory is worth more here than time
	h := &host{dir: dir, viewers: map[*viewer]struct{}{}, watchers: map[chan struct{}]struct{}{}, ended: make(chan struct{}), in: make(chan typed, inputQueue), peers: map[string]*peer{}, last: time.Now(), back: backlog{waiting: make(chan struct{}, 1)}}
	if err := h.open(); err != nil {
		l.Close()
		return err
	}
	defer h.jnl.Close()
	if err := h.spawn(); err != nil {
		l.Close()
		h.screen.Close()
		h.writeExit(wire.Exited{Code: 127})
		return err
	}
	if err := writeJSON(filepath.Join(dir, "host.json"), map[string]int{"host_pid": os.Getpid(), "pid": h.cmd.Process.Pid}); err != nil {
		log.Printf("host.json: %v", err) // Status tells the same
	}
	defer h.endWith(ctx)()
	var working sync.WaitGroup
	working.Go(func() { h.accept(l) })
	working.Go(h.typeOut)
	working.Go(h.keepUp)
	h.finish(h.drain())
	l.Close()
	working.Wait()
	h.farewell()
	h.screen.Close()
	os.Remove(h.b.Socket)
	return nil
}

// endWith ends the session when ctx does; what it returns waits until that is settled.
func (h *host) endWith(ctx context.Context) (settle func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-h.ended:
			return
		case <-ctx.Done():
		}
		h.terminated.Store(true)
		h.stop("HUP")
		select {
		case <-h.ended:
		case <-time.After(lastWords):
			h.stop("KILL")
		}
	}()
	return func() { <-done }
}

func (h *host) open() error {
	data, err := os.ReadFile(filepath.Join(h.dir, "session.json"))
	if err != nil {
		return fmt.Errorf("read session.json: %w", err)
	}
	if err := json.Unmarshal(data, &h.b); err != nil {
		return fmt.Errorf("read session.json: %w", err)
	}
	if len(h.b.Argv) == 0 {
		return errors.New("session.json names no command")
	}
	h.cols, h.rows = max(h.b.Cols, 1), max(h.b.Rows, 1)
	h.screen = screen.New(int(h.cols), int(h.rows), screen.Options{History: historyLines})
	h.jnl, err = journal.Open(filepath.Join(h.dir, "journal"), journal.Options{MaxBytes: h.b.JournalBytes})
	return err
}

// spawn starts the command on a pty of its own, as the leader of its session.
func (h *host) spawn() error {
	// Orphans of the session are ours to end, so they must become our children (prctl(2)).
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		log.Printf("not a subreaper: %v", err)
	}
	tty, sub, err := openPty(h.cols, h.rows)
	if err != nil {
		return err
	}
	defer sub.Close()
	cmd := &exec.Cmd{Path: h.b.Argv[0], Args: h.b.Argv, Env: h.b.Env, Dir: h.b.Dir, Stdin: sub, Stdout: sub, Stderr: sub,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true}}
	if err := cmd.Start(); err != nil {
		tty.Close()
		return fmt.Errorf("start %s: %w", h.b.Argv[0], err)
	}
	h.tty, h.cmd = tty, cmd
	h.lookAtTty()
	return nil
}

// openPty opens a pty whose master is non-blocking, so that deadlines work and no thread waits in it.
func openPty(cols, rows uint16) (master, sub *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a pty: %w", err)
	}
	fail := func(err error) (*os.File, *os.File, error) {
		unix.Close(fd)
		return nil, nil, fmt.Errorf("open a pty: %w", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return fail(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return fail(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: rows}); err != nil {
		return fail(err)
	}
	sub, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fail(err)
	}
	return os.NewFile(uintptr(fd), "/dev/ptmx"), sub, nil
}

// drain reads the pty until the session is over: never slower because somebody looks on.
func (h *host) drain() wire.Exited {
	waited := make(chan error, 1)
	go func() {
		waited <- h.cmd.Wait()
		// Processes that outlive the leader may hold the terminal open: what they wrote by now is read, no more.
		_ = h.tty.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := h.tty.Read(buf)
		if n > 0 {
			h.output(buf[:n])
		}
		if err != nil { // EIO: the terminal hung up; or the deadline above
			break
		}
	}
	return exitOf(h.cmd, <-waited)
}

func exitOf(cmd *exec.Cmd, err error) wire.Exited {
	if st, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		return wire.Exited{Code: 128 + int32(st.Signal()), Signal: signalName(st.Signal())}
	}
	if cmd.ProcessState == nil {
		log.Printf("wait: %v", err)
		return wire.Exited{Code: 1}
	}
	return wire.Exited{Code: int32(cmd.ProcessState.ExitCode())}
}

func signalName(s syscall.Signal) string {
	name := unix.SignalName(s)
	if len(name) > 3 {
		return name[3:]
	}
	return "KILL"
}

// typists counts the attachments that may type; mu is held.
func (h *host) typists() int {
	n := 0
	for v := range h.viewers {
		if !v.readOnly {
			n++
		}
	}
	return n
}

// resize sets the pty's size once; the kernel tells the program. mu is held.
func (h *host) resize(w wire.Resize) {
	if w.Cols == 0 || w.Rows == 0 || w.Cols > 4096 || w.Rows > 4096 || w.Cols == h.cols && w.Rows == h.rows {
		return
	}
	h.cols, h.rows = w.Cols, w.Rows
	h.catchUp() // what was printed before was printed for the old size
	h.resizes++
	h.screen.Resize(int(w.Cols), int(w.Rows))
	h.noteSize(w.Cols, w.Rows)
	h.control(func(fd int) {
		_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: w.Cols, Row: w.Rows, Xpixel: w.XPixel, Ypixel: w.YPixel})
	})
	for v := range h.viewers {
		v.poke() // whose window is of another size now is drawn for
	}
}

func (h *host) control(fn func(fd int)) {
	if raw, err := h.tty.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { fn(int(fd)) })
	}
}

// signal reaches the foreground process group, as a terminal's keys do.
func (h *host) signal(name string) {
	sig := unix.SignalNum("SIG" + name)
	if sig == 0 {
		return
	}
	group := h.cmd.Process.Pid
	h.control(func(fd int) {
		if g, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && g > 0 {
			group = g
		}
	})
	_ = unix.Kill(-group, sig)
}

// stop signals the session's leader and its group; KILL reaches every descendant.
func (h *host) stop(name string) {
	sig := unix.SignalNum("SIG" + name)
	if sig == 0 {
		sig = unix.SIGHUP
	}
	select {
	case <-h.ended:
		return // its number may be another's by now
	default:
	}
	h.signal(name)
	_ = unix.Kill(-h.cmd.Process.Pid, sig)
	if sig == unix.SIGKILL {
		killDescendants()
	}
}

// finish makes the end known: first on disk, then to those who look on.
func (h *host) finish(e wire.Exited) {
	killDescendants()
	_, e.Offset = h.jnl.Bounds()
	h.writeExit(e)
	h.mu.Lock()
	h.catchUp()
	h.exited = &e
	close(h.ended)
	h.mu.Unlock()
	h.lastCheckpoint()
	h.tty.Close()
	h.jnl.Close() // wakes the attachments: they write out the rest and then the exit
}

// exitRecord is exit.json.
type exitRecord struct {
	Code       int32     `json:"code"`
	Signal     string    `json:"signal"`
	At         time.Time `json:"at"`
	Offset     uint64    `json:"offset"`
	Terminated bool      `json:"terminated,omitempty"`
}

func (h *host) writeExit(e wire.Exited) {
	x := exitRecord{Code: e.Code, Signal: e.Signal, At: time.Now().UTC(), Offset: e.Offset, Terminated: h.terminated.Load()}
	if err := writeJSON(filepath.Join(h.dir, "exit.json"), x); err != nil {
		log.Printf("exit.json: %v", err)
	}
}

// farewell waits for the attachments to write out the end, but not for ever.
func (h *host) farewell() {
	done := make(chan struct{})
	go func() {
		h.conns.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-time.After(lastWords):
	}
	h.mu.Lock()
	for v := range h.viewers {
		v.conn.Close()
	}
	h.mu.Unlock()
	<-done
}

// writeJSON replaces a file whole: temp, fsync, rename.
func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, data, 0o600, renameio.WithTempDir(filepath.Dir(path)))
}
