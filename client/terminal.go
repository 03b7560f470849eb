package client

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"perdure/workspace/screen"
)

// errNoTerminal is what a caller gets that asks for a terminal and has none.
var errNoTerminal = errors.New("standard input and output are not a terminal")

// size is a window's, in cells and in pixels; pixels are 0 where the terminal doesn't know them.
type size struct{ cols, rows, xpixel, ypixel uint16 }

// terminal is the person's, in raw mode until restore.
type terminal struct {
	in, out *os.File
	state   *term.State
	resized chan os.Signal
	ending  chan os.Signal // signals that would end us: the terminal is put back first
	once    sync.Once
}

// openTerminal puts a terminal into raw mode. The caller must restore it.
func openTerminal(in io.Reader, out io.Writer) (*terminal, error) {
	i, ok := in.(*os.File)
	o, ok2 := out.(*os.File)
	if !ok || !ok2 || !Terminal(i, o) {
		return nil, errNoTerminal
	}
	t := &terminal{in: i, out: o, resized: make(chan os.Signal, 1), ending: make(chan os.Signal, 1)}
	// Before raw mode: a signal in between must not leave it on.
	signal.Notify(t.ending, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	signal.Notify(t.resized, syscall.SIGWINCH)
	state, err := term.MakeRaw(int(i.Fd()))
	if err != nil {
		signal.Stop(t.ending)
		signal.Stop(t.resized)
		return nil, fmt.Errorf("set the terminal to raw mode: %w", err)
	}
	t.state = state
	return t, nil
}

// restore gives the terminal back as it was; broken also undoes what the other side had switched on, for
// when it could not do so itself.
func (t *terminal) restore(broken bool) {
	t.once.Do(func() {
		if broken {
			_, _ = t.out.Write(screen.Restore())
		}
		_ = term.Restore(int(t.in.Fd()), t.state) // a terminal that is gone needs none
		signal.Stop(t.resized)
		signal.Stop(t.ending)
	})
}

// size asks the terminal, and falls back on 80x24 where it doesn't know.
func (t *terminal) size() size { return windowSize(t.out) }

func windowSize(f *os.File) size {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 || ws.Row == 0 {
		return size{cols: 80, rows: 24}
	}
	return size{ws.Col, ws.Row, ws.Xpixel, ws.Ypixel}
}

func isTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

func termName() string {
	if t := os.Getenv("TERM"); t != "" {
		return t
	}
	return "xterm-256color"
}

// The payloads of RFC 4254, 6.2 and 6.7. x/crypto's own calls make the pixels up, and programs that draw
// images believe them.
type ptyRequest struct {
	Term                       string
	Cols, Rows, XPixel, YPixel uint32
	Modes                      string
}

type windowChange struct{ Cols, Rows, XPixel, YPixel uint32 }

// noModes is an empty list of terminal modes: the far end's terminal keeps its own defaults (TTY_OP_END).
const noModes = "\x00"

// runTerminal runs a command in a terminal of the server's, shown in ours.
func runTerminal(conn *ssh.Client, sess *ssh.Session, o Options) (int, error) {
	t, err := openTerminal(o.Stdin, o.Stdout)
	if err != nil {
		return 0, err
	}
	defer t.restore(true)
	z := t.size()
	req := ptyRequest{termName(), uint32(z.cols), uint32(z.rows), uint32(z.xpixel), uint32(z.ypixel), noModes}
	if ok, err := sess.SendRequest("pty-req", true, ssh.Marshal(&req)); err != nil || !ok {
		return 0, errors.Join(fmt.Errorf("%w: it gives no terminal", ErrUnreachable), err)
	}
	sess.Stdout, sess.Stderr = o.Stdout, orDiscard(o.Stderr)
	finish, err := feedInput(sess, o.Stdin)
	if err != nil {
		return 0, err
	}
	defer finish()
	if err := sess.Start(Quote(o.Args)); err != nil {
		return 0, fmt.Errorf("%w: start the command: %w", ErrUnreachable, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sess.Wait() }() // taken below on every way out
	for {
		select {
		case err := <-ended:
			status, err := exitStatus(err)
			t.restore(err != nil)
			return status, err
		case <-t.resized:
			z := t.size()
			_, _ = sess.SendRequest("window-change", false, ssh.Marshal(&windowChange{uint32(z.cols), uint32(z.rows), uint32(z.xpixel), uint32(z.ypixel)}))
		case s := <-t.ending:
			conn.Close()
			<-ended
			return 128 + int(s.(syscall.Signal)), nil
		}
	}
}
