package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perdure/workspace/journal"
	"perdure/workspace/wire"
)

// asHost makes the test binary the host of a session folder, with its listener as fd 3.
const asHost = "PERDURE_TEST_HOST"

// leaked is the exit status of a host whose goroutines outlived Run.
const leaked = 99

func TestMain(m *testing.M) {
	if dir := os.Getenv(asHost); dir != "" {
		os.Exit(hostMain(dir))
	}
	goleak.VerifyTestMain(m)
}

func hostMain(dir string) int {
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err = Run(ctx, dir, l)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := goleak.Find(goleak.IgnoreTopFunction("os/signal.signal_recv"), goleak.IgnoreTopFunction("os/signal.loop")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return leaked
	}
	return 0
}

// session is a host as a process of its own.
type session struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
}

const patience = 60 * time.Second

func start(t *testing.T, script string) *session {
	t.Helper()
	dir := t.TempDir()
	sock := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: sock, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := bootstrap{ID: "01J", Dir: dir, Argv: []string{"/bin/sh", "-c", script}, Env: append(os.Environ(), "TERM=xterm", "MARK="+dir), Cols: 80, Rows: 24, Socket: sock}
	if err := writeJSON(filepath.Join(dir, "session.json"), b); err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, dir: dir, cmd: exec.Command(os.Args[0])}
	s.cmd.Env = append(os.Environ(), asHost+"="+dir)
	s.cmd.ExtraFiles = []*os.File{f}
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	return s
}

// end waits for the host's own end.
func (s *session) end() {
	s.t.Helper()
	if err := s.cmd.Wait(); err != nil {
		s.t.Fatalf("the host: %v (%d: goroutines leaked)", err, leaked)
	}
}

// exit is what the host wrote of the session's end.
func (s *session) exit() (e exitRecord) {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "exit.json"))
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

// client is one connection to the host.
type client struct {
	t    *testing.T
	c    net.Conn
	w    *wire.Conn
	at   uint64 // the next offset that is due
	seen []byte // all output from the first offset on
	exit *wire.Exited
}

func (s *session) dial() *client {
	s.t.Helper()
	c, err := net.Dial("unix", filepath.Join(s.dir, "s"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	cl := &client{t: s.t, c: c, w: wire.NewConn(c)}
	if _, err := cl.w.Handshake(); err != nil {
		s.t.Fatal(err)
	}
	return cl
}

func (s *session) attach(a wire.Attach) *client {
	s.t.Helper()
	c := s.dial()
	if a.Cols == 0 {
		a.Cols, a.Rows = 80, 24
	}
	c.write(a)
	f, err := c.w.Read()
	at, ok := f.(wire.Attached)
	if err != nil || !ok {
		s.t.Fatalf("got %#v, %v", f, err)
	}
	c.at = at.Offset
	return c
}

func (c *client) write(f wire.Frame) {
	c.t.Helper()
	if err := c.w.Write(f); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) typed(s string) {
	c.t.Helper()
	c.write(wire.Input{Offset: wire.NoOffset, Data: []byte(s)})
}

// next reads one frame; output must follow without a gap.
func (c *client) next() (wire.Frame, error) {
	f, err := c.w.Read()
	if err != nil {
		return nil, err
	}
	switch f := f.(type) {
	case wire.Output:
		if f.Offset != c.at {
			c.t.Fatalf("output at %d, due is %d", f.Offset, c.at)
		}
		c.seen = append(c.seen, f.Data...)
		c.at += uint64(len(f.Data))
	case wire.Exited:
		c.exit = &f
	}
	return f, nil
}

// until reads on until the output has a text.
func (c *client) until(text string) {
	c.t.Helper()
	for !strings.Contains(string(c.seen), text) {
		if _, err := c.next(); err != nil {
			c.t.Fatalf("waiting for %q: %v; came %q", text, err, c.seen)
		}
	}
}

// drain reads to the end of the connection.
func (c *client) drain() {
	for {
		if _, err := c.next(); err != nil {
			return
		}
	}
}

// journal is all that the session printed.
func (s *session) journal() []byte {
	s.t.Helper()
	r, err := journal.OpenReader(filepath.Join(s.dir, "journal"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	from, to := r.Bounds()
	buf := make([]byte, to-from)
	for n := 0; n < len(buf); {
		m, err := r.ReadAt(buf[n:], from+uint64(n))
		if err != nil && err != io.EOF || m == 0 {
			s.t.Fatalf("journal at %d: %v", n, err)
		}
		n += m
	}
	return buf
}

// marked are the processes of a session, by a variable in their environment.
func (s *session) marked() (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range all {
		if data, err := os.ReadFile(p); err == nil && strings.Contains(string(data), "MARK="+s.dir+"\x00") {
			pids = append(pids, filepath.Base(filepath.Dir(p)))
		}
	}
	return pids
}
