package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"net"
	"os"
	"sync"
	"time"

	"perdure/workspace/screen"
	"perdure/workspace/wire"
)

// writeTimeout is how long one write to a viewer may take before it counts as gone.
const writeTimeout = 60 * time.Second

// viewer is one connection: an attachment once it has sent Attach, else a question.
type viewer struct {
	h        *host
	conn     net.Conn
	w        *wire.Conn
	readOnly bool
	watching bool   // it asked for the status, and is told of changes
	at       uint64 // the next offset to send
	notices  chan wire.Notice
	left     chan struct{} // closed when the client is gone
	gone     sync.Once
	wake     chan struct{} // something other than output is to be sent

	// What follows is of a client that said Hello; host.mu guards it once the viewer is attached.
	peer   *peer
	hello  wire.Hello
	window wire.Resize // the client's
	turn   turn
	flow   flow
	tty    *wire.Tty // what it was told last

	shows   bool              // it is a terminal, and can be drawn on
	drawing *screen.Rendering // what it was given while its size is another, nil while it is given the bytes
	drawn   time.Time
	resizes int // host.resizes as of the drawing
}

// poke has the sender look again.
func (v *viewer) poke() {
	select {
	case v.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (v *viewer) leave() { v.gone.Do(func() { close(v.left) }) }

// deadlined bounds every write, so that a stalled viewer ends alone.
type deadlined struct{ net.Conn }

func (d deadlined) Write(p []byte) (int, error) {
	_ = d.SetWriteDeadline(time.Now().Add(writeTimeout))
	return d.Conn.Write(p)
}

func (h *host) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				log.Printf("accept: %v", err)
			}
			return
		}
		h.conns.Go(func() { h.serve(c) })
	}
}

// serve handles one connection; a peer's bytes must never end the session.
func (h *host) serve(c net.Conn) {
	defer c.Close()
	defer func() {
		if r := recover(); r != nil {
			log.Printf("panic on a connection: %v", r)
		}
	}()
	v := &viewer{h: h, conn: c, w: wire.NewConn(deadlined{c}), notices: make(chan wire.Notice, 1), left: make(chan struct{}), wake: make(chan struct{}, 1)}
	if _, err := v.w.Handshake(); err != nil {
		return
	}
	var sending sync.WaitGroup
	stop := make(chan struct{})
	sending.Go(func() { // a question's connection stays open until the session's end, which it so learns of
		select {
		case <-h.ended:
			if !h.attached(v) {
				c.Close()
			}
		case <-stop:
		}
	})
	v.read(&sending)
	v.leave()
	close(stop)
	sending.Wait()
	h.mu.Lock()
	h.catchUp() // its terminal was given what was printed until now
	delete(h.viewers, v)
	h.away(v)
	h.decide()
	h.mu.Unlock()
}

func (h *host) attached(v *viewer) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.viewers[v]
	return ok
}

// read handles what the client sends until it leaves.
func (v *viewer) read(sending *sync.WaitGroup) {
	attached := false
	for {
		f, err := v.w.Read()
		if err != nil {
			return
		}
		if hello, ok := f.(wire.Hello); ok && v.peer == nil && !attached {
			if !v.h.greet(v, hello) {
				return
			}
			continue
		}
		if a, ok := f.(wire.Attach); ok {
			if attached {
				_ = v.w.Write(wire.Fault{Code: "attached", Message: "attached already"})
				return
			}
			attached = true
			first := v.h.attach(v, a)
			sending.Go(func() {
				defer v.conn.Close()
				v.send(first)
			})
			continue
		}
		if err := v.handle(f, attached); err != nil {
			return
		}
	}
}

func (v *viewer) handle(f wire.Frame, attached bool) error {
	h := v.h
	switch f := f.(type) {
	case wire.Input:
		if v.readOnly {
			return nil
		}
		typed := v.heard(f.Data)
		h.mu.Lock()
		if v.peer != nil && bytes.IndexByte(f.Data, interrupt) >= 0 {
			v.flow.attempt = time.Now()
			v.poke()
		}
		h.mu.Unlock()
		if v.peer != nil && f.Offset != wire.NoOffset {
			return v.take(f, len(typed) == len(f.Data))
		}
		h.input(typed)
	case wire.OutputAck:
		h.mu.Lock()
		v.flow.ack(f.Offset, v.at, time.Now())
		h.mu.Unlock()
		v.poke()
	case wire.Resize:
		if attached {
			v.resized(f)
		}
	case wire.Signal:
		if !v.readOnly {
			h.signal(f.Name)
		}
	case wire.Stop:
		if !v.readOnly {
			h.stop(f.Signal)
		}
	case wire.Notice:
		select {
		case v.notices <- f:
		default: // one at a time
		}
	case wire.StatusRequest:
		if !v.watching {
			v.watching = true
			v.watch()
		}
		return v.answer(h.status(), func(b []byte) wire.Frame { return wire.Status{JSON: b} })
	case wire.PeekRequest:
		h.mu.Lock()
		h.catchUp()
		view := h.screen.View()
		h.mu.Unlock()
		return v.answer(view, func(b []byte) wire.Frame { return wire.Peek{JSON: b} })
	case wire.Ping:
		return v.w.Write(wire.Pong(f))
	}
	return nil
}

func (v *viewer) answer(x any, frame func([]byte) wire.Frame) error {
	data, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return v.w.Write(frame(data))
}

// status is workspace.Status.
func (h *host) status() map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.catchUp()
	start, end := h.jnl.Bounds()
	view := h.screen.View()
	line := ""
	if view.Cursor.Row >= 0 && view.Cursor.Row < len(view.Rows) {
		line = view.Rows[view.Cursor.Row]
	}
	return map[string]any{"id": h.b.ID, "pid": h.cmd.Process.Pid, "host_pid": os.Getpid(), "cols": h.cols, "rows": h.rows, "attached": len(h.viewers), "typists": h.typists(),
		"start": start, "end": end, "last_output": h.last, "title": view.Title, "alternate": view.Alternate, "bell": h.bell,
		"notice": h.act.notice, "mark": h.act.mark, "progress": h.act.progress, "printing": h.act.quiet != nil, "last_input": h.act.lastInput, "foreground": h.foreground(), "line": line, "version": wire.Version}
}
