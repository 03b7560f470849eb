package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"perdure/workspace/wire"
)

// outFrames is how many frames may wait for a connection that takes none. The input window keeps it from filling up.
const outFrames = 64

// conn is one connection, from the first attempt to its end.
type conn struct {
	number  uint64
	first   bool
	patient bool // may take long: the link may be slow
	started time.Time
	cancel  context.CancelFunc
	out     chan wire.Frame
	taken   uint64 // where input starts on it
	resumes bool   // it asked for output from where the last one broke off

	// Of the link's goroutine:
	speaks  bool // it is the one in force, or was
	joined  bool // a session was named
	redraws bool // the session begins with a redraw
	heard   time.Time
	ping    uint64    // the last one's number
	pinged  time.Time // when it was sent
	waiting bool      // for its answer
	typed   time.Time // since when input waits for an acknowledgement; zero for none
	fast    bool      // something happened to the network: it must answer soon
}

// incoming is what a connection's goroutine tells.
type incoming struct {
	c   *conn
	f   wire.Frame
	err error // the connection is over; f is nil
}

// errSilent is a connection that broke off without a reason.
var errSilent = errors.New("the connection broke off")

// run dials, speaks and reads until the connection is over, and always ends with an error that it tells.
func (l *Link) run(ctx context.Context, c *conn, workspace string, hello wire.Hello, attach wire.Attach) {
	err := l.guarded(ctx, c, workspace, hello, attach)
	if err == nil {
		err = errSilent
	}
	l.tell(incoming{c: c, err: err})
}

// guarded turns a panic into an error: whoever put the terminal into raw mode must be able to put it back.
func (l *Link) guarded(ctx context.Context, c *conn, workspace string, hello wire.Hello, attach wire.Attach) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &FinalError{Status: 1, Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	return l.converse(ctx, c, workspace, hello, attach)
}

func (l *Link) tell(in incoming) bool {
	select {
	case l.frames <- in:
		return true
	case <-l.ended:
		return false
	}
}

func (l *Link) converse(ctx context.Context, c *conn, workspace string, hello wire.Hello, attach wire.Attach) error {
	s, err := l.o.Dial(ctx, c.first, workspace)
	if err != nil {
		return err
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	w := wire.NewConn(s)
	if _, err := w.Handshake(); err != nil {
		if reason := s.Failure(); reason != nil {
			return reason
		}
		var version *wire.VersionError
		if errors.As(err, &version) {
			return &FinalError{Status: 1, Err: err, Hint: "the two perdures are of different ages: upgrade the older"}
		}
		return err
	}
	if err := errors.Join(w.Write(hello), w.Write(attach)); err != nil {
		return err
	}
	over := make(chan struct{})
	defer close(over)
	writing.Go(func() { c.write(w, over) })
	for {
		f, err := w.Read()
		if errors.Is(err, wire.ErrFrame) {
			continue // whole, and of no use
		}
		if err != nil {
			if reason := s.Failure(); reason != nil {
				return reason
			}
			return err
		}
		if !l.tell(incoming{c: c, f: f}) {
			return nil
		}
	}
}

// write sends what is queued. A failure shows where the connection is read.
func (c *conn) write(w *wire.Conn, over <-chan struct{}) {
	for {
		select {
		case f := <-c.out:
			if w.Write(f) != nil {
				return
			}
		case <-over:
			return
		}
	}
}

// send queues a frame, and says whether there was room.
func (c *conn) send(f wire.Frame) bool {
	select {
	case c.out <- f:
		return true
	default:
		return false
	}
}
