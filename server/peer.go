package server

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gliderlabs/ssh"
	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// maxChannels bounds the sessions of one connection; maxRefusals the refusals that it may leave unread before it is
// closed, since each holds a goroutine of the SSH library.
const (
	maxChannels = 64
	maxRefusals = 2048
)

type (
	peerKey     struct{} // in a connection's context: its *peerConn
	identityKey struct{} // in the ExtraData of its permissions: its *identity
)

// identity is who was verified to be at the other end, and what their key allows.
type identity struct {
	peer    string
	pid     int    // unix socket only
	command string // forced by the key; "" if none is
	noPty   bool
	noAgent bool
	local   bool
	forward forwardRules
	rights  rights
}

// identityOf reads the identity from where only a successful authentication puts it.
func identityOf(c *gossh.ServerConn) *identity {
	if c.Permissions == nil {
		return nil
	}
	id, _ := c.Permissions.ExtraData[identityKey{}].(*identity)
	return id
}

// peerConn is a connection that knows when it was last heard of.
type peerConn struct {
	net.Conn
	source string    // the address without its port; the unit of fairness
	kernel *identity // unix socket only: verified before the handshake
	heard  atomic.Int64
	once   sync.Once
	inside chan struct{} // closed when authenticated
	failed atomic.Int32  // attempts to authenticate that were refused
	late   atomic.Bool   // the grace time ended first

	mu                 sync.Mutex
	channels, refusing int
	audited            map[string]bool

	forwards forwards
}

func newPeer(c net.Conn, source string, kernel *identity) *peerConn {
	p := &peerConn{Conn: c, source: source, kernel: kernel, inside: make(chan struct{})}
	p.heard.Store(time.Now().UnixNano())
	return p
}

func networkPeer(c net.Conn) *peerConn {
	source := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(source); err == nil {
		source = host
	}
	return newPeer(c, source, nil)
}

// localPeer refuses every process of another uid.
func localPeer(c net.Conn) (*peerConn, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("%s is not a unix socket", c.LocalAddr().Network())
	}
	cred, err := credentials(u)
	if err != nil {
		return nil, fmt.Errorf("ask who connects: %w", err)
	}
	name := fmt.Sprintf("uid %d pid %d", cred.Uid, cred.Pid)
	if int(cred.Uid) != os.Getuid() {
		return nil, fmt.Errorf("%s may not use the local socket of uid %d", name, os.Getuid())
	}
	return newPeer(c, "local", &identity{peer: name, pid: int(cred.Pid), local: true}), nil
}

// credentials are those of the process at the other end, as the kernel has them from the moment it connected.
func credentials(u *net.UnixConn) (*unix.Ucred, error) {
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil {
		return nil, err
	}
	return cred, credErr
}

func ownUser(u *net.UnixConn) bool {
	cred, err := credentials(u)
	return err == nil && int(cred.Uid) == os.Getuid()
}

func (c *peerConn) local() bool { return c.kernel != nil }

func (c *peerConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

// SetDeadline does nothing: gliderlabs/ssh clears the deadline before each read and write, so that none can be
// relied on. The watch closes the connection instead.
func (c *peerConn) SetDeadline(time.Time) error { return nil }

func (c *peerConn) silence() time.Duration { return time.Since(time.Unix(0, c.heard.Load())) }

func (c *peerConn) enter() { c.once.Do(func() { close(c.inside) }) }

// open takes one of the connection's channels, if one is left.
func (c *peerConn) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.channels >= maxChannels {
		return false
	}
	c.channels++
	return true
}

func (c *peerConn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.channels--
}

// refuse answers a channel that can't be opened, and ends a connection that lets too many answers pile up.
func (c *peerConn) refuse(ch gossh.NewChannel, reason gossh.RejectionReason, why string) {
	c.mu.Lock()
	c.refusing++
	over := c.refusing > maxRefusals
	c.mu.Unlock()
	if over {
		c.Close()
	}
	_ = ch.Reject(reason, why) // fails only with the connection
	c.mu.Lock()
	c.refusing--
	c.mu.Unlock()
}

// watch closes a connection that doesn't authenticate within the grace time, or later goes silent. Any byte counts
// as a sign of life, since an answer may queue behind much else on a slow link.
func (d *door) watch(ctx ssh.Context, c *peerConn) {
	rules := d.rules.Load()
	grace := time.NewTimer(time.Duration(rules.Grace))
	defer grace.Stop()
	select {
	case <-ctx.Done():
		return
	case <-grace.C:
		d.log.Info("connection closed: not authenticated in time", "source", c.source)
		c.late.Store(true)
		c.Close()
		return
	case <-c.inside:
	}
	tick := time.NewTicker(time.Duration(rules.Keepalive))
	defer tick.Stop()
	var asking atomic.Bool
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.silence() >= time.Duration(rules.Dead) {
			d.log.Info("connection closed: the peer is gone", "source", c.source)
			c.Close()
			return
		}
		conn, ok := ctx.Value(ssh.ContextKeyConn).(*gossh.ServerConn)
		if !ok || !asking.CompareAndSwap(false, true) {
			continue // the last question is still open
		}
		if !d.begin(func() { defer asking.Store(false); askAlive(conn) }) {
			return
		}
	}
}

// askAlive waits for the answer, whatever it is; a failure to ask shows in the connection itself.
func askAlive(c *gossh.ServerConn) { _, _, _ = c.SendRequest("keepalive@openssh.com", true, nil) }

// waitingRoom holds the connections that have not authenticated. When it fills, the source that has the most of
// them gives up its oldest: a flood from one address then shuts out nobody else, and a newcomer always gets a turn.
// sshd gives up the newcomer instead, by the same chances.
type waitingRoom struct {
	mu      sync.Mutex
	total   int
	sources map[string][]*peerConn
}

func (w *waitingRoom) add(c *peerConn, limit Startups) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total > 0 && rand.IntN(100) < limit.chance(w.total) {
		most := ""
		for s, list := range w.sources {
			if most == "" || len(list) > len(w.sources[most]) {
				most = s
			}
		}
		oldest := w.sources[most][0]
		w.drop(oldest)
		oldest.Close()
	}
	w.sources[c.source] = append(w.sources[c.source], c)
	w.total++
}

func (w *waitingRoom) remove(c *peerConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(c)
}

func (w *waitingRoom) drop(c *peerConn) {
	list := w.sources[c.source]
	i := slices.Index(list, c)
	if i < 0 {
		return
	}
	w.total--
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(w.sources, c.source)
		return
	}
	w.sources[c.source] = list
}

func (w *waitingRoom) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}
