package client

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// channel is what a fake server was asked on one session channel.
type channel struct {
	ssh.Channel
	command string
	env     map[string]string
	pty     *ptyRequest
	sizes   chan windowChange
	signals chan string
}

func (c *channel) exit(status uint32) {
	_, _ = c.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
	c.Close()
}

func (c *channel) exitSignal(name string) {
	_, _ = c.SendRequest("exit-signal", false, ssh.Marshal(struct {
		Name string
		Core bool
		Msg  string
		Lang string
	}{Name: name}))
	c.Close()
}

// serve runs a fake server of perdure's on a unix socket; each exec is handed to the handler.
func serve(t *testing.T, handle func(*channel)) (socket string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serveConn(t, c, config, handle) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return socket
}

func serveConn(t *testing.T, c net.Conn, config *ssh.ServerConfig, handle func(*channel)) {
	defer c.Close()
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	if conn.User() != "perdure" {
		t.Errorf("the user is %q", conn.User())
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { ssh.DiscardRequests(requests) })
	for nc := range channels {
		ch, reqs, err := nc.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			serveChannel(&channel{Channel: ch, env: map[string]string{}, sizes: make(chan windowChange, 8), signals: make(chan string, 8)}, reqs, handle)
		})
	}
}

func serveChannel(c *channel, reqs <-chan *ssh.Request, handle func(*channel)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for r := range reqs {
		switch r.Type {
		case "env":
			var kv struct{ Key, Value string }
			_ = ssh.Unmarshal(r.Payload, &kv)
			c.env[kv.Key] = kv.Value
			_ = r.Reply(kv.Key != "REFUSED", nil)
		case "pty-req":
			c.pty = &ptyRequest{}
			_ = r.Reply(ssh.Unmarshal(r.Payload, c.pty) == nil, nil)
		case "window-change":
			var w windowChange
			_ = ssh.Unmarshal(r.Payload, &w)
			c.sizes <- w
		case "signal":
			var s struct{ Name string }
			_ = ssh.Unmarshal(r.Payload, &s)
			c.signals <- s.Name
		case "exec":
			var e struct{ Command string }
			_ = ssh.Unmarshal(r.Payload, &e)
			c.command = e.Command
			_ = r.Reply(true, nil)
			wg.Go(func() { handle(c) })
		default:
			_ = r.Reply(false, nil)
		}
	}
}

// echo prints the command and its input, and exits with 7.
func echo(c *channel) {
	fmt.Fprintf(c, "%s\n", c.command)
	_, _ = io.Copy(c, c)
	fmt.Fprint(c.Stderr(), "err")
	c.exit(7)
}
