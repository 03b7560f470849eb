package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// handshakeTime is how long a server may take to answer on the same machine, a busy one included.
const handshakeTime = 15 * time.Second

// localUser is the name under which every line is a command, whatever workspaces exist.
const localUser = "perdure"

// runLocal runs a command over the server's unix socket. Whatever breaks once ctx has ended breaks by that.
func runLocal(ctx context.Context, o Options) (int, error) {
	status, err := runSocket(ctx, o)
	if err != nil && ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return status, err
}

func runSocket(ctx context.Context, o Options) (int, error) {
	conn, err := dialSocket(ctx, o.Socket)
	if forbidden(err) && o.Drop != "" && !o.TTY {
		return runDrop(ctx, o)
	}
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	sess, err := conn.NewSession()
	if err != nil {
		return 0, fmt.Errorf("%w: open a session: %w", ErrUnreachable, err)
	}
	defer sess.Close()
	for _, kv := range o.Env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			_ = sess.Setenv(k, v) // the server takes what it wants of these
		}
	}
	if o.TTY {
		return runTerminal(conn, sess, o)
	}
	return runPlain(conn, sess, o)
}

// dialSocket opens an SSH connection on a unix socket. Its host key proves nothing there: that the socket
// belongs to us, as the folder does that nobody else can write to, is what makes it our server's.
func dialSocket(ctx context.Context, path string) (*ssh.Client, error) {
	if err := checkOwner(path); err != nil {
		return nil, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, short(err))
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_ = c.SetDeadline(time.Now().Add(handshakeTime)) // a unix socket has deadlines
	config := &ssh.ClientConfig{User: localUser, HostKeyCallback: ssh.InsecureIgnoreHostKey()}
	conn, channels, requests, err := ssh.NewClientConn(c, path, config)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("%w: %s: %w", ErrUnreachable, path, err)
	}
	_ = c.SetDeadline(time.Time{})
	return ssh.NewClient(conn, channels, requests), nil
}

// checkOwner refuses a socket that another user has put where ours should be.
func checkOwner(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: none runs on %s", ErrUnreachable, path)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if fi.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: %s is not a socket", ErrUnreachable, path)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%w: %s belongs to uid %d, not to us", ErrUnreachable, path, st.Uid)
	}
	return nil
}

// short leaves out of a dial error what the message already says.
func short(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) {
		return err
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("none answers on %s", op.Addr)
	}
	return fmt.Errorf("%s: %w", op.Addr, op.Err)
}

// runPlain runs a command without a terminal.
func runPlain(conn *ssh.Client, sess *ssh.Session, o Options) (int, error) {
	sess.Stdout, sess.Stderr = orDiscard(o.Stdout), orDiscard(o.Stderr)
	finish, err := feedInput(sess, o.Stdin)
	if err != nil {
		return 0, err
	}
	defer finish()
	if err := sess.Start(Quote(o.Args)); err != nil {
		return 0, fmt.Errorf("%w: start the command: %w", ErrUnreachable, err)
	}
	done := forwardSignals(conn, sess)
	err = sess.Wait()
	done()
	return exitStatus(err)
}

// feedInput copies the input to the session beside the caller; finish ends the copy and waits for it where
// the input is a file. A reader of another kind can't be stopped: its copy ends with its next read.
func feedInput(sess *ssh.Session, in io.Reader) (finish func(), err error) {
	if in == nil {
		return func() {}, nil
	}
	w, err := sess.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: open the input: %w", ErrUnreachable, err)
	}
	f, ok := in.(*os.File)
	if !ok {
		go copyInput(w, in)
		return func() {}, nil
	}
	src, err := newInput(f)
	if err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		copyInput(w, src)
	}()
	return func() {
		src.stop()
		sess.Close() // a copy that is stuck in a full window ends with its channel
		<-copied
		src.close()
	}, nil
}

func copyInput(w io.WriteCloser, r io.Reader) {
	_, _ = io.Copy(w, r) // the session's end tells what matters
	w.Close()
}

// exitStatus reads how a session ended.
func exitStatus(err error) (int, error) {
	var exit *ssh.ExitError
	var lost *ssh.ExitMissingError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Signal() != "":
		return signalStatus(exit.Signal()), nil
	case errors.As(err, &exit):
		return exit.ExitStatus(), nil
	case errors.As(err, &lost):
		return 0, fmt.Errorf("%w: it broke off", ErrUnreachable)
	}
	return 0, fmt.Errorf("%w: %w", ErrUnreachable, err)
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
