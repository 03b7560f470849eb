package server

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"
)

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never:", what)
		}
	}
}

// replyAtEnd answers each connection with all it was sent, once the sender has ended its half.
func replyAtEnd(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	check(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				all, _ := io.ReadAll(c)
				_, _ = c.Write(all)
			}()
		}
	}()
	return l
}

// Attack 11: the client's end of input reaches the far end, whose answer comes back whole.
func TestForwardPassesHalfCloseOn(t *testing.T) {
	d, key := openForExec(t)
	sent := randomBytes(t, 16<<20)
	for _, l := range []net.Listener{replyAtEnd(t, "tcp", "127.0.0.1:0"), replyAtEnd(t, "unix", filepath.Join(t.TempDir(), "s"))} {
		if l.Addr().Network() == "unix" {
			c, err := d.enter("w", key).Dial("unix", l.Addr().String())
			check(t, err)
			go func() {
				_, _ = c.Write(sent)
				_ = c.(interface{ CloseWrite() error }).CloseWrite()
			}()
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("unix: %d bytes, %v", len(got), err)
			}
			continue
		}
		cmd := d.ssh("w", key)
		cmd.Args = append(cmd.Args[:1:1], append([]string{"-W", l.Addr().String()}, cmd.Args[1:]...)...)
		cmd.Stdin = bytes.NewReader(sent)
		got, err := cmd.Output()
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("ssh -W: %d bytes, %v", len(got), err)
		}
	}
}

func refusesDial(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		c.Close()
	}
	return err != nil
}

// Attack 10: a reverse forward is its connection's alone, is bound where only this machine reaches it, and ends.
func TestReverseForwardsBelongToTheirConnection(t *testing.T) {
	d, key := openForExec(t)
	a, b := d.enter("w", key), d.enter("w", key)
	var ports []string
	for range 3 {
		l, err := a.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		ports = append(ports, l.Addr().String())
	}
	port := func(address string) (n uint32) {
		_, p, err := net.SplitHostPort(address)
		check(t, err)
		_, err = fmt.Sscan(p, &n)
		check(t, err)
		return n
	}
	type bind struct {
		Host string
		Port uint32
	}
	if ok, _, err := b.SendRequest("cancel-tcpip-forward", true, gossh.Marshal(&bind{"127.0.0.1", port(ports[0])})); ok || err != nil {
		t.Error("B cancelled A's forward", ok, err)
	}
	for _, host := range []string{"", "*", "0.0.0.0", "::", "8.8.8.8", "example.com", "127.0.0.1.example.com"} {
		if ok, _, err := b.SendRequest("tcpip-forward", true, gossh.Marshal(&bind{host, 0})); ok || err != nil {
			t.Errorf("listens at %q: %v", host, err)
		}
	}
	for _, p := range ports {
		if refusesDial(p) {
			t.Error(p, "is closed")
		}
	}
	if ok, _, err := a.SendRequest("cancel-tcpip-forward", true, gossh.Marshal(&bind{"127.0.0.1", port(ports[0])})); !ok || err != nil || !refusesDial(ports[0]) {
		t.Error("A can't cancel its own", ok, err)
	}
	a.Close()
	for _, p := range ports {
		eventually(t, p+" closes with its connection", func() bool { return refusesDial(p) })
	}
	for range maxListeners {
		_, err := b.Listen("tcp", "127.0.0.1:0")
		check(t, err)
	}
	if _, err := b.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("no cap of listeners")
	}
}

func TestReverseForwardsCarryBytes(t *testing.T) {
	d, key := openForExec(t)
	c := d.enter("w", key)
	path := filepath.Join(t.TempDir(), "r")
	for _, where := range []string{"127.0.0.1:0", path} {
		network := "tcp"
		if where == path {
			network = "unix"
		}
		l, err := c.Listen(network, where)
		check(t, err)
		go func() {
			far, err := l.Accept()
			if err != nil {
				return
			}
			all, _ := io.ReadAll(far)
			_, _ = far.Write(append(all, '!'))
			far.Close()
		}()
		near, err := net.Dial(network, l.Addr().String())
		check(t, err)
		_, err = near.Write([]byte("over"))
		check(t, err)
		closeWrite(near)
		if got, err := io.ReadAll(near); string(got) != "over!" || err != nil {
			t.Errorf("%s: %q, %v", network, got, err)
		}
		near.Close()
	}
	fi, err := os.Stat(path)
	check(t, err)
	if fi.Mode().Perm() != 0o600 {
		t.Error(fi.Mode())
	}
	if _, err := d.enter("w", key).ListenUnix(path); err == nil {
		t.Error("a socket of another was replaced")
	}
	c.Close()
	eventually(t, "the socket goes", func() bool { _, err := os.Stat(path); return err != nil })
}

func TestForwardsAreWhatTheKeyAllows(t *testing.T) {
	l := replyAtEnd(t, "tcp", "127.0.0.1:0")
	sock := replyAtEnd(t, "unix", filepath.Join(t.TempDir(), "s")).Addr().String()
	address := l.Addr().String()
	port := l.Addr().(*net.TCPAddr).Port
	for options, may := range map[string]string{ // o opens, u opens the unix socket, l listens
		"":                         "oul",
		"restrict":                 "",
		"no-port-forwarding":       "",
		"restrict,PORT-forwarding": "oul",
		fmt.Sprintf(`permitopen="127.0.0.1:%d"`, port):                          "ol",
		`permitopen="127.0.0.1:*"`:                                              "ol",
		`permitopen="localhost:*"`:                                              "l",
		`permitopen="127.0.0.1:1"`:                                              "l",
		fmt.Sprintf(`permitopen="127.0.0.1:1",permitopen="127.0.0.1:%d"`, port): "ol",
		`permitlisten="1"`:                                                      "o",
		`permitlisten="localhost:*"`:                                            "ol",
		fmt.Sprintf(`no-port-forwarding,permitopen="127.0.0.1:%d"`, port):       "",
		`command="true"`:                                                        "ol",
	} {
		d := openDoor(t, whoCore, nil)
		key := newTestKey(t)
		d.authorize(key.line(options))
		c := d.enter("w", key)
		got := ""
		try := func(name string, closer io.Closer, err error) {
			if err == nil {
				got += name
				closer.Close()
			}
		}
		far, err := c.Dial("tcp", address)
		try("o", far, err)
		far, err = c.Dial("unix", sock)
		try("u", far, err)
		near, err := c.Listen("tcp", "127.0.0.1:0")
		try("l", near, err)
		if got != may {
			t.Errorf("%s: may %q, want %q", options, got, may)
		}
	}
}

func TestPublicBindNeedsAPermit(t *testing.T) {
	rules := forwardRules{listens: []hostPort{{"*", 8080}, {"10.0.0.1", 0}}}
	for where, want := range map[hostPort]bool{
		{"", 8080}: true, {"localhost", 8080}: true, {"", 80}: false, {"10.0.0.1", 9}: true, {"10.0.0.2", 9}: false, {"localhost", 9}: false,
	} {
		if rules.mayListen(where.host, where.port) != want {
			t.Error(where, "want", want)
		}
	}
}

// A connection may have many streams, but not any number.
func TestCapOfForwards(t *testing.T) {
	d, key := openForExec(t)
	l := replyAtEnd(t, "tcp", "127.0.0.1:0")
	c := d.enter("w", key)
	open := 0
	for range maxForwards + 10 {
		if _, err := c.Dial("tcp", l.Addr().String()); err == nil {
			open++
		} else if !strings.Contains(err.Error(), "too many") {
			t.Fatal(err)
		}
	}
	if open != maxForwards {
		t.Error(open, "streams")
	}
	if out, err := run(t, c, "echo lives"); out != "lives\n" || err != nil {
		t.Error(out, err)
	}
}

func FuzzForwards(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01a\x00\x00\x00\x16\x00\x00\x00\x01b\x00\x00\x00\x01"))
	f.Add([]byte("\xff\xff\xff\xff"))
	d := &door{log: slog.New(slog.DiscardHandler), conns: map[*peerConn]struct{}{}}
	id := &identity{forward: forwardRules{none: true}} // nothing is bound or dialled
	conn := &gossh.ServerConn{Conn: userOnly{}}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, fn := range []func(*peerConn, *gossh.ServerConn, *identity, []byte) (bool, []byte){d.listenTCP, d.listenUnix, d.cancelTCP, d.cancelUnix} {
			if ok, _ := fn(&peerConn{}, conn, id, payload); ok {
				t.Errorf("accepted %q", payload)
			}
		}
		if host, port, rest, ok := takeHostPort(payload); ok && (port > 0xffff || len(host) > maxHostName || len(rest) > len(payload)-8) {
			t.Errorf("%q %d", host, port)
		}
	})
}

// userOnly is a connection of which only the user is asked.
type userOnly struct{ gossh.Conn }

func (userOnly) User() string { return "w" }
