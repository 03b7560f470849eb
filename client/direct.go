package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"perdure/workspace/screen"
	"perdure/workspace/wire"
)

// directHistory is how many lines of history the redraw puts into the terminal's own scrollback.
const directHistory = 2000

// ErrHostGone says that a session's host broke off without telling how its session ended.
var ErrHostGone = errors.New("the session's host broke off")

// DirectOptions are those of Direct.
type DirectOptions struct {
	Conn     *wire.Conn // to the session's host, shaken hands
	Closer   io.Closer  // closes Conn's stream, and with it every read and write; Direct calls it
	Name     string     // for messages
	ReadOnly bool
	Stdin    *os.File
	Stdout   *os.File
	Stderr   io.Writer
}

// Direct attaches to a session by its host alone and returns the session's exit status: 0 too when the
// person leaves by "~." at the start of a line. It needs a terminal.
func Direct(ctx context.Context, o DirectOptions) (int, error) {
	defer o.Closer.Close()
	t, err := openTerminal(o.Stdin, o.Stdout)
	if err != nil {
		return 0, err
	}
	defer t.restore(true)
	stop := context.AfterFunc(ctx, func() { o.Closer.Close() })
	defer stop()
	z := t.size()
	err = o.Conn.Write(wire.Attach{Cols: z.cols, Rows: z.rows, XPixel: z.xpixel, YPixel: z.ypixel, ReadOnly: o.ReadOnly,
		History: directHistory, Term: termName(), Client: fmt.Sprintf("direct, pid %d", os.Getpid())})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrHostGone, err)
	}
	d := &direct{o: o, t: t, left: make(chan struct{})}
	status, err := d.run()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err == nil && d.hasLeft() {
		t.restore(true)
		fmt.Fprintf(orDiscard(o.Stderr), "perdure: left %s; its session goes on\n", o.Name)
	}
	return status, err
}

// direct is one attachment to a host.
type direct struct {
	o       DirectOptions
	t       *terminal
	left    chan struct{} // closed when the person leaves or a signal tells us to
	leaving sync.Once
	status  int // for the way out by a signal; written before left is closed
}

func (d *direct) run() (int, error) {
	in, err := newInput(d.t.in)
	if err != nil {
		return 0, fmt.Errorf("read the terminal: %w", err)
	}
	var pumps sync.WaitGroup
	over := make(chan struct{})
	pumps.Go(func() { d.keys(in) })
	pumps.Go(func() { d.watch(over) })
	status, err := d.receive()
	close(over)
	in.stop()
	d.o.Closer.Close() // a write that is stuck ends with the stream
	pumps.Wait()
	in.close()
	if d.hasLeft() {
		return d.status, nil
	}
	return status, err
}

func (d *direct) hasLeft() bool {
	select {
	case <-d.left:
		return true
	default:
		return false
	}
}

func (d *direct) leave(status int) {
	d.leaving.Do(func() {
		d.status = status
		close(d.left)
		d.o.Closer.Close()
	})
}

// keys takes what the person types to the host. A read-only attachment still reads, to be left by "~.".
func (d *direct) keys(in io.Reader) {
	var e escape
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		send, leave := e.feed(buf[:n])
		if len(send) > 0 && !d.o.ReadOnly {
			if err := d.o.Conn.Write(wire.Input{Offset: wire.NoOffset, Data: send}); err != nil {
				return // receive tells why
			}
		}
		if leave {
			d.leave(0)
			return
		}
		if err != nil {
			return
		}
	}
}

// watch takes the window's changes to the host, and leaves on a signal that would end us.
func (d *direct) watch(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case s := <-d.t.ending:
			d.leave(128 + int(s.(syscall.Signal)))
			return
		case <-d.t.resized:
			z := d.t.size()
			if err := d.o.Conn.Write(wire.Resize{Cols: z.cols, Rows: z.rows, XPixel: z.xpixel, YPixel: z.ypixel}); err != nil {
				return
			}
		}
	}
}

// receive shows what the host sends until the session ends.
func (d *direct) receive() (int, error) {
	for {
		f, err := d.o.Conn.Read()
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrHostGone, err)
		}
		var show []byte
		switch f := f.(type) {
		case wire.Redraw:
			show = f.Data
		case wire.Output:
			show = f.Data
		case wire.Skipped:
			show = fmt.Appendf(nil, "\r\n[perdure: %d bytes of output were skipped]\r\n", f.Bytes)
		case wire.Ping:
			if err := d.o.Conn.Write(wire.Pong(f)); err != nil {
				return 0, fmt.Errorf("%w: %w", ErrHostGone, err)
			}
		case wire.Fault:
			return 0, fmt.Errorf("the session's host refused: %s", f.Message)
		case wire.Exited:
			_, _ = d.t.out.Write(screen.Restore()) // a terminal that is gone needs none
			d.t.restore(false)
			if f.Signal != "" {
				return signalStatus(f.Signal), nil
			}
			return int(f.Code), nil
		}
		if _, err := d.t.out.Write(show); err != nil {
			return 0, fmt.Errorf("write to the terminal: %w", err)
		}
	}
}
