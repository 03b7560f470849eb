package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gliderlabs/ssh"
	gossh "golang.org/x/crypto/ssh"
)

// reverse is one ssh -R: a listener here whose connections go to the client that asked for it.
type reverse struct {
	door    *door
	peer    *peerConn
	conn    *gossh.ServerConn
	l       net.Listener
	channel string
	// opening says what the client is told of a new connection.
	opening func(net.Conn) []byte
}

// global wraps the handler of a global request: who asks is known, and a panic refuses.
func (d *door) global(fn func(*peerConn, *gossh.ServerConn, *identity, []byte) (bool, []byte)) ssh.RequestHandler {
	return func(ctx ssh.Context, _ *ssh.Server, req *gossh.Request) (ok bool, reply []byte) {
		defer d.recovered("global request")
		peer, known := ctx.Value(peerKey{}).(*peerConn)
		conn, entered := ctx.Value(ssh.ContextKeyConn).(*gossh.ServerConn)
		if !known || !entered || identityOf(conn) == nil {
			return false, nil
		}
		return fn(peer, conn, identityOf(conn), req.Payload)
	}
}

// listenTCP serves tcpip-forward (RFC 4254, section 7.1). For port 0 the answer is the port that was found.
func (d *door) listenTCP(peer *peerConn, conn *gossh.ServerConn, id *identity, payload []byte) (bool, []byte) {
	host, port, rest, ok := takeHostPort(payload)
	if !ok || len(rest) > 0 {
		return false, nil
	}
	l, err := d.bindTCP(peer, id, host, port)
	if err != nil {
		d.audited(peer, conn, id, "refused", "listen at "+net.JoinHostPort(host, strconv.Itoa(port)), err)
		return false, nil
	}
	address, _ := l.Addr().(*net.TCPAddr)
	r := &reverse{door: d, peer: peer, conn: conn, l: l, channel: "forwarded-tcpip"}
	r.opening = func(c net.Conn) []byte {
		from, _ := c.RemoteAddr().(*net.TCPAddr)
		return gossh.Marshal(&struct {
			Host     string
			Port     uint32
			From     string
			FromPort uint32
		}{host, uint32(address.Port), from.IP.String(), uint32(from.Port)})
	}
	if !r.keep(tcpForward(host, address.Port)) {
		return false, nil
	}
	d.audited(peer, conn, id, "forwarded", "from "+address.String(), nil)
	if port != 0 {
		return true, nil
	}
	return true, binary.BigEndian.AppendUint32(nil, uint32(address.Port))
}

func (d *door) bindTCP(peer *peerConn, id *identity, host string, port int) (net.Listener, error) {
	if !id.forward.mayListen(host, port) {
		return nil, errForward
	}
	if peer.forwards.full() {
		return nil, errors.New("too many listeners on this connection")
	}
	bind := host
	switch {
	case strings.EqualFold(host, "localhost"):
		bind = "127.0.0.1" // not what some resolver says
	case host == "*":
		bind = ""
	}
	return net.Listen("tcp", net.JoinHostPort(bind, strconv.Itoa(port)))
}

// tcpForward is the name of a listener within its connection.
func tcpForward(host string, port int) string { return fmt.Sprintf("tcp %s %d", host, port) }

func (d *door) cancelTCP(peer *peerConn, _ *gossh.ServerConn, _ *identity, payload []byte) (bool, []byte) {
	host, port, rest, ok := takeHostPort(payload)
	return ok && len(rest) == 0 && peer.forwards.cancel(tcpForward(host, port)), nil
}

// listenUnix serves streamlocal-forward@openssh.com. A file that is there is never replaced.
func (d *door) listenUnix(peer *peerConn, conn *gossh.ServerConn, id *identity, payload []byte) (bool, []byte) {
	path, ok := onlyString(payload)
	if !ok || !socketName(path) {
		return false, nil
	}
	l, err := bindUnix(peer, id, path)
	if err != nil {
		d.audited(peer, conn, id, "refused", "listen at "+path, err)
		return false, nil
	}
	r := &reverse{door: d, peer: peer, conn: conn, l: l, channel: "forwarded-streamlocal@openssh.com"}
	r.opening = func(net.Conn) []byte {
		return gossh.Marshal(&struct{ Path, Reserved string }{Path: path})
	}
	if !r.keep("unix " + path) {
		return false, nil
	}
	d.audited(peer, conn, id, "forwarded", "from "+path, nil)
	return true, nil
}

func bindUnix(peer *peerConn, id *identity, path string) (net.Listener, error) {
	if !id.forward.mayUnix(id) {
		return nil, errForward
	}
	if peer.forwards.full() {
		return nil, errors.New("too many listeners on this connection")
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (d *door) cancelUnix(peer *peerConn, _ *gossh.ServerConn, _ *identity, payload []byte) (bool, []byte) {
	path, ok := onlyString(payload)
	return ok && peer.forwards.cancel("unix "+path), nil
}

// keep enters the listener among the connection's, and serves it until it is closed.
func (r *reverse) keep(name string) bool {
	if !r.peer.forwards.add(name, r.l) {
		r.l.Close()
		return false
	}
	if !r.door.begin(r.serve) {
		r.peer.forwards.cancel(name)
		return false
	}
	return true
}

func (r *reverse) serve() {
	defer r.door.recovered("reverse forward")
	defer r.l.Close()
	for {
		c, err := r.l.Accept()
		if err != nil {
			if transient(err) {
				time.Sleep(50 * time.Millisecond) // for descriptors to come free
				continue
			}
			return // closed
		}
		// Of a unix socket's peers only our own user counts, whatever the file's mode was for a moment.
		if u, ok := c.(*net.UnixConn); ok && !ownUser(u) {
			c.Close()
			continue
		}
		if !r.peer.forwards.begin() {
			c.Close()
			continue
		}
		if !r.door.begin(func() { r.pass(c) }) {
			r.peer.forwards.end()
			c.Close()
		}
	}
}

func (r *reverse) pass(c net.Conn) {
	defer r.door.recovered("reverse forward")
	defer r.peer.forwards.end()
	defer c.Close()
	ch, requests, err := r.conn.OpenChannel(r.channel, r.opening(c))
	if err != nil {
		return // refused by the client, or it is gone
	}
	r.door.join(ch, requests, c)
}
