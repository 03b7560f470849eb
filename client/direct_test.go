package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/term"

	"perdure/workspace/wire"
)

// host is the far end of a direct attachment.
func host(t *testing.T, serve func(*wire.Conn)) (*wire.Conn, io.Closer) {
	t.Helper()
	near, far := socketPair(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer far.Close()
		c := wire.NewConn(far)
		if _, err := c.Handshake(); err != nil {
			t.Error(err)
			return
		}
		serve(c)
	}()
	t.Cleanup(func() { near.Close(); <-done })
	c := wire.NewConn(near)
	if _, err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c, near
}

// socketPair is a stream that buffers, as a host's socket does: both ends write before they read.
func socketPair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// watchScreen reads what a terminal shows until want is there, then calls then.
func watchScreen(keys *os.File, want string, then func()) <-chan string {
	shown := make(chan string, 1)
	go func() {
		var all []byte
		buf := make([]byte, 4096)
		for {
			n, err := keys.Read(buf)
			if all = append(all, buf[:n]...); bytes.Contains(all, []byte(want)) && then != nil {
				then()
				then = nil
			}
			if err != nil || n == 0 {
				shown <- string(all)
				return
			}
		}
	}()
	return shown
}

func TestDirectPassesTheExitOn(t *testing.T) {
	keys, tty := openPty(t)
	before, _ := term.GetState(int(tty.Fd()))
	shown := watchScreen(keys, "REDRAW", func() { _, _ = keys.Write([]byte("x\x03")) })
	got := make(chan []byte, 1)
	attach := make(chan wire.Attach, 1)
	conn, closer := host(t, func(c *wire.Conn) {
		f, _ := c.Read()
		attach <- f.(wire.Attach)
		_ = c.Write(wire.Attached{Offset: 5})
		_ = c.Write(wire.Redraw{Data: []byte("REDRAW")})
		var in []byte
		for len(in) < 2 {
			f, err := c.Read()
			if err != nil {
				break
			}
			if i, ok := f.(wire.Input); ok {
				in = append(in, i.Data...)
			}
		}
		got <- in
		_ = c.Write(wire.Output{Offset: 5, Data: []byte("bye")})
		_ = c.Write(wire.Exited{Code: 9})
	})
	status, err := Direct(context.Background(), DirectOptions{Conn: conn, Closer: closer, Name: "auth", Stdin: tty, Stdout: tty})
	if err != nil || status != 9 {
		t.Fatalf("got %d, %v", status, err)
	}
	if a := <-attach; a.Cols != 100 || a.Rows != 30 || a.XPixel != 1000 || a.Resume {
		t.Errorf("attached with %+v", a)
	}
	if in := <-got; string(in) != "x\x03" {
		t.Errorf("typed %q", in)
	}
	if after, _ := term.GetState(int(tty.Fd())); *after != *before {
		t.Error("the terminal is not as it was")
	}
	tty.Close()
	if s := <-shown; !bytes.Contains([]byte(s), []byte("REDRAWbye")) {
		t.Errorf("shown: %q", s)
	}
}

// A read-only attachment types nothing, and is left as any other.
func TestDirectLeaves(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		keys, tty := openPty(t)
		watchScreen(keys, "up", func() { _, _ = keys.Write([]byte("ls\r~.")) })
		var typed []byte
		over := make(chan struct{})
		conn, closer := host(t, func(c *wire.Conn) {
			defer close(over)
			_, _ = c.Read()
			_ = c.Write(wire.Redraw{Data: []byte("up")})
			for {
				f, err := c.Read()
				if err != nil {
					return
				}
				if i, ok := f.(wire.Input); ok {
					typed = append(typed, i.Data...)
				}
			}
		})
		var errOut bytes.Buffer
		status, err := Direct(context.Background(), DirectOptions{Conn: conn, Closer: closer, Name: "auth", ReadOnly: readOnly, Stdin: tty, Stdout: tty, Stderr: &errOut})
		if err != nil || status != 0 || errOut.String() != "perdure: left auth; its session goes on\n" {
			t.Fatalf("got %d, %v, %q", status, err, &errOut)
		}
		<-over
		want := "ls\r"
		if readOnly {
			want = ""
		}
		if string(typed) != want {
			t.Errorf("read-only %v: typed %q", readOnly, typed)
		}
		tty.Close()
	}
}

func TestDirectLosesItsHost(t *testing.T) {
	keys, tty := openPty(t)
	shown := watchScreen(keys, "never", nil)
	conn, closer := host(t, func(c *wire.Conn) { _, _ = c.Read() })
	_, err := Direct(context.Background(), DirectOptions{Conn: conn, Closer: closer, Stdin: tty, Stdout: tty})
	if !errors.Is(err, ErrHostGone) {
		t.Fatalf("got %v", err)
	}
	tty.Close()
	if s := <-shown; !bytes.Contains([]byte(s), []byte("\x1b[?25h")) {
		t.Errorf("the modes stay: %q", s)
	}
}
