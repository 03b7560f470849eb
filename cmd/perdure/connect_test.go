package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// cutter is a TCP proxy that breaks connections at bytes of its choice.
type cutter struct {
	t      *testing.T
	l      net.Listener
	to     string
	budget func() int64 // bytes that a connection may carry in both directions; negative for no end

	mu    sync.Mutex
	cuts  int
	conns map[net.Conn]struct{}
	cut   chan struct{} // told of each cut
	all   sync.WaitGroup
	late  chan struct{}
}

func newCutter(t *testing.T, to string, budget func() int64) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{t: t, l: l, to: to, budget: budget, conns: map[net.Conn]struct{}{}, cut: make(chan struct{}, 10000), late: make(chan struct{})}
	c.all.Go(c.accept)
	t.Cleanup(func() {
		l.Close()
		c.cutAll()
		c.all.Wait()
	})
	return c
}

// address is where the server listens, now and after it was started again.
func (b *box) address() string { return "127.0.0.1:" + b.port }

func (c *cutter) port() string {
	_, port, _ := net.SplitHostPort(c.l.Addr().String())
	return port
}

// allow says what later connections may carry before they break.
func (c *cutter) allow(budget func() int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budget = budget
}

func (c *cutter) accept() {
	for {
		near, err := c.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.to)
		if err != nil { // the server is down
			near.Close()
			continue
		}
		c.mu.Lock()
		c.conns[near], c.conns[far] = struct{}{}, struct{}{}
		c.mu.Unlock()
		c.mu.Lock()
		left := &allowance{left: c.budget()}
		c.mu.Unlock()
		c.all.Go(func() { c.pump(near, far, left) })
		c.all.Go(func() { c.pump(far, near, left) })
	}
}

// allowance is shared by the two directions.
type allowance struct {
	mu   sync.Mutex
	left int64
}

// take returns how many of n bytes may pass, and whether the connection breaks after them.
func (a *allowance) take(n int) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left < 0 {
		return n, false
	}
	if int64(n) < a.left {
		a.left -= int64(n)
		return n, false
	}
	n = int(a.left)
	a.left = 0
	return n, true
}

func (c *cutter) pump(from, to net.Conn, a *allowance) {
	defer c.breakOff(from, to)
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		n, over := a.take(n)
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
		if over {
			c.mu.Lock()
			c.cuts++
			c.mu.Unlock()
			c.cut <- struct{}{}
			return
		}
	}
}

// breakOff resets both ends, as a router does that has forgotten the connection.
func (c *cutter) breakOff(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range conns {
		if tcp, ok := x.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		x.Close()
		delete(c.conns, x)
	}
}

func (c *cutter) cutAll() {
	c.mu.Lock()
	var all []net.Conn
	for x := range c.conns {
		all = append(all, x)
	}
	c.mu.Unlock()
	c.breakOff(all...)
}

// connectEnv is the environment in which connect uses the box's key and no configuration of the machine's.
func (b *box) connectEnv() []string {
	return append(b.env, fmt.Sprintf("PERDURE_SSH=ssh -F /dev/null -i %s/key -o IdentitiesOnly=yes -o LogLevel=ERROR -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=%s/known_hosts", b.dir, b.dir))
}

func (b *box) connect(port string, args ...string) *exec.Cmd {
	cmd := exec.Command(b.bin, append([]string{"connect", "perdure@127.0.0.1:" + port}, args...)...)
	cmd.Env = b.connectEnv()
	return cmd
}

// Two-way traffic over a link that breaks at random bytes, while the server is killed in between: every byte arrives
// once, and in order. PERDURE_SOAK sets how many cuts there are.
func TestNothingIsLostAndNothingTwiceAcrossCuts(t *testing.T) {
	cuts := 20
	if n, err := strconv.Atoi(os.Getenv("PERDURE_SOAK")); err == nil && n > 0 {
		cuts = n
	}
	b := newBox(t)
	const chunk = 3000
	total := chunk * (cuts + 1)
	script := fmt.Sprintf(`stty raw -echo; echo ready; (while [ ! -e %[1]s/done ]; do seq 1 2000; sleep 0.02; done) & head -c %[2]d >%[1]s/typed; touch %[1]s/done; wait; exit 7`, b.dir, total)
	b.want(0, "new", "app", "--", "sh", "-c", script)
	rnd := rand.New(rand.NewPCG(uint64(cuts), 7))
	var mu sync.Mutex
	budget := func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return 3000 + rnd.Int64N(60000)
	}
	c := newCutter(t, b.address(), func() int64 { return budget() })
	cmd := b.connect(c.port(), "app")
	out := &watched{want: "ready", seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.allow(func() int64 { return 60000 }) // the first connection must come about
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute+5*time.Second*time.Duration(cuts), func() { _ = cmd.Process.Kill(); close(c.late) })
	defer late.Stop()
	<-out.seen // raw by now: random bytes hold signals
	typed := make([]byte, total)
	for i := range typed {
		typed[i] = byte(rnd.IntN(256))
	}
	if _, err := in.Write(typed[:chunk]); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= cuts; i++ {
		select {
		case <-c.cut:
		case <-c.late:
			t.Fatalf("only %d cuts came about", i)
		}
		c.allow(budget)
		if i%10 == 5 {
			b.kill()
			b.serve("127.0.0.1:" + b.port)
		}
		if _, err := in.Write(typed[i*chunk : (i+1)*chunk]); err != nil {
			t.Fatal(err)
		}
	}
	c.allow(func() int64 { return -1 })
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Fatalf("the session's exit status is not passed on: %v", err)
	}
	got, err := os.ReadFile(b.dir + "/typed")
	if err != nil {
		t.Fatal(err)
	}
	if sha256.Sum256(got) != sha256.Sum256(typed) {
		t.Errorf("typed %d bytes, received %d, first difference at %d", len(typed), len(got), difference(typed, got))
	}
	journal := []byte(b.want(0, "log", "app", "--raw"))
	if sha256.Sum256(journal) != sha256.Sum256(out.all.Bytes()) {
		t.Errorf("printed %d bytes, shown %d, first difference at %d", len(journal), out.all.Len(), difference(journal, out.all.Bytes()))
	}
	t.Logf("%d cuts, %d bytes shown", c.cuts, out.all.Len())
}

// watched collects output, and tells when it has what is waited for.
type watched struct {
	all  bytes.Buffer // not embedded: its ReadFrom would be used instead of Write
	want string
	seen chan struct{}
	done bool
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.all.Write(p)
	if !w.done && bytes.Contains(w.all.Bytes(), []byte(w.want)) {
		w.done = true
		close(w.seen)
	}
	return n, err
}

func difference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Failures that another attempt would meet again end connect with the documented status, the first time and later.
func TestConnectStopsAtWhatIsFinal(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "true", "--", "sh", "-c", "echo up; sleep 1000")
	status := func(want int, text string, cmd *exec.Cmd) {
		t.Helper()
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want || !strings.Contains(string(out), text) {
			t.Errorf("%q: status %d, want %d: %s", cmd.Args[1:], got, want, out)
		}
	}
	status(3, `no workspace "nope"`, b.connect(b.port, "nope"))
	status(5, "can't reach the server", b.connect("1", "app"))
	status(2, "not a host", b.connect("x", "app"))
	stranger := b.connect(b.port, "app")
	stranger.Env = append(stranger.Env, "PERDURE_SSH=ssh -F /dev/null -i /nonexistent -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null")
	status(5, "Permission denied", stranger)

	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x", "--wait")
	b.write(b.app+"/a.go", "package app\n")
	status(4, "app is halted", b.connect(b.port, "app"))
}

// A key that is taken away while a client is connected ends it at the next dial; there is no loop of attempts.
func TestARefusedKeyEndsTheRedials(t *testing.T) {
	for name, spoil := range map[string]func(*box){
		"key":      func(b *box) { b.write(b.dir+"/home/.ssh/authorized_keys", "") },
		"host key": func(b *box) { os.Remove(b.dir + "/state/host_key") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.want(0, "new", "app", "--", "sh", "-c", "echo up; read x; exit 9")
			c := newCutter(t, b.address(), func() int64 { return -1 })
			cmd := b.connect(c.port(), "app")
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(out, make([]byte, 2)); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			defer late.Stop()
			spoil(b)
			b.kill()
			b.serve("127.0.0.1:" + b.port)
			_ = cmd.Wait()
			if cmd.ProcessState.ExitCode() != 5 || !strings.Contains(errOut.String(), "can't reach the server") {
				t.Errorf("status %d: %s", cmd.ProcessState.ExitCode(), errOut.String())
			}
		})
	}
}
