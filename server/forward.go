package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gliderlabs/ssh"
	gossh "golang.org/x/crypto/ssh"
)

const (
	// maxForwards bounds the forwarded streams of one connection: a browser behind -D opens many.
	maxForwards = 256
	// maxListeners bounds what one connection may listen on.
	maxListeners = 32
	// dialTimeout is how long the far end of a forward may take to answer.
	dialTimeout = 10 * time.Second
	maxHostName = 255
	// drainTime is how long the far end may take for what the client had sent before it left.
	drainTime = 5 * time.Second
)

var errForward = errors.New("the key may not forward there")

// forwards are what one connection has open beside its sessions. They belong to that connection alone: no other can
// cancel them, and they end with it.
type forwards struct {
	mu        sync.Mutex
	closed    bool
	streams   int
	listeners map[string]net.Listener // by what the client asked for
}

// begin takes one stream, if one is left.
func (f *forwards) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.streams >= maxForwards {
		return false
	}
	f.streams++
	return true
}

func (f *forwards) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams--
}

// full says whether no listener may be added; add has the last word.
func (f *forwards) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed || len(f.listeners) >= maxListeners
}

// add keeps l until cancel or close, or says that it may not be.
func (f *forwards) add(name string, l net.Listener) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, taken := f.listeners[name]; taken || f.closed || len(f.listeners) >= maxListeners {
		return false
	}
	if f.listeners == nil {
		f.listeners = map[string]net.Listener{}
	}
	f.listeners[name] = l
	return true
}

// cancel ends one listener of this connection. The streams it has begun go on.
func (f *forwards) cancel(name string) bool {
	f.mu.Lock()
	l, ok := f.listeners[name]
	delete(f.listeners, name)
	f.mu.Unlock()
	if ok {
		l.Close()
	}
	return ok
}

func (f *forwards) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, l := range f.listeners {
		l.Close()
	}
	f.listeners = nil
}

// directTCP serves ssh -L and -D: the client names a host and port to connect to (RFC 4254, section 7.2).
func (d *door) directTCP(_ *ssh.Server, conn *gossh.ServerConn, opened gossh.NewChannel, ctx ssh.Context) {
	d.direct(ctx, conn, opened, "tcp", func(id *identity, payload []byte) (string, error) {
		host, port, rest, ok := takeHostPort(payload)
		_, _, rest, origin := takeHostPort(rest)
		if !ok || !origin || len(rest) > 0 || host == "" || port == 0 {
			return "", errors.New("the request is malformed")
		}
		if !id.forward.mayOpen(host, port) {
			return "", errForward
		}
		return net.JoinHostPort(host, strconv.Itoa(port)), nil
	})
}

// directUnix serves ssh -L to a unix socket (OpenSSH's PROTOCOL, section 2.4).
func (d *door) directUnix(_ *ssh.Server, conn *gossh.ServerConn, opened gossh.NewChannel, ctx ssh.Context) {
	d.direct(ctx, conn, opened, "unix", func(id *identity, payload []byte) (string, error) {
		path, rest, ok := takeString(payload)
		_, rest, reserved := takeString(rest)
		if !ok || !reserved || len(rest) != 4 || !socketName(path) {
			return "", errors.New("the request is malformed")
		}
		if !id.forward.mayUnix(id) {
			return "", errForward
		}
		return path, nil
	})
}

func (d *door) direct(ctx ssh.Context, conn *gossh.ServerConn, opened gossh.NewChannel, network string, target func(*identity, []byte) (string, error)) {
	defer d.recovered("forward")
	peer, ok := ctx.Value(peerKey{}).(*peerConn)
	id := identityOf(conn)
	if !ok || id == nil {
		_ = opened.Reject(gossh.Prohibited, "not authenticated")
		return
	}
	address, err := target(id, opened.ExtraData())
	if err != nil {
		d.audited(peer, conn, id, "refused", "forward over "+network, err)
		peer.refuse(opened, gossh.Prohibited, err.Error())
		return
	}
	if !peer.forwards.begin() {
		peer.refuse(opened, gossh.ResourceShortage, "too many forwards on this connection")
		return
	}
	defer peer.forwards.end()
	ended := make(chan struct{})
	if !d.begin(func() { <-ended }) { // shutdown waits for this goroutine, which is the library's
		_ = opened.Reject(gossh.ResourceShortage, "the server is closing")
		return
	}
	defer close(ended)
	far, err := dialForward(ctx, network, address)
	if err != nil {
		peer.refuse(opened, gossh.ConnectionFailed, err.Error())
		return
	}
	defer far.Close()
	ch, requests, err := opened.Accept()
	if err != nil {
		return // the connection is gone
	}
	d.audited(peer, conn, id, "forwarded", "to "+address, nil)
	d.join(ch, requests, far)
}

func dialForward(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return new(net.Dialer).DialContext(ctx, network, address)
}

// join copies both ways until both have ended. The end of one direction is passed on and leaves the other alone; the
// client's close of the channel, which also comes when it is gone, ends both.
func (d *door) join(ch gossh.Channel, requests <-chan *gossh.Request, far net.Conn) {
	up := make(chan struct{})
	var parts sync.WaitGroup
	parts.Go(func() {
		gossh.DiscardRequests(requests) // until the channel is closed
		select {
		case <-up: // what was sent before the close is delivered first
		case <-time.After(drainTime):
		}
		far.Close()
	})
	var copies sync.WaitGroup
	copies.Go(func() {
		defer close(up)
		defer d.recovered("forward")
		if _, err := io.Copy(far, ch); err == nil {
			closeWrite(far)
		} // else the far end reads no more; what it says is still passed on
	})
	copies.Go(func() {
		defer d.recovered("forward")
		if _, err := io.Copy(ch, far); err != nil {
			ch.Close() // reset: an end in good order would be a lie
			far.Close()
			return
		}
		_ = ch.CloseWrite()
	})
	copies.Wait()
	ch.Close()
	parts.Wait()
}

func closeWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite() // fails only where the connection has ended
	}
}

// takeHostPort reads a host (or "") and a port as forwarding requests carry them.
func takeHostPort(p []byte) (host string, port int, rest []byte, ok bool) {
	host, rest, ok = takeString(p)
	if !ok || len(rest) < 4 || len(host) > maxHostName || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", 0, nil, false
	}
	n := binary.BigEndian.Uint32(rest)
	return host, int(n & 0xffff), rest[4:], n <= 0xffff
}

// socketName accepts absolute paths only: the server's own working directory means nothing to a client.
func socketName(path string) bool {
	return filepath.IsAbs(path) && len(path) <= 107 && !strings.ContainsRune(path, 0)
}
