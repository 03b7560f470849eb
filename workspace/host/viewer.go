package host

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"sync"
	"time"

	"perdure/workspace/journal"
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
	at       uint64 // the next offset to send
	notices  chan wire.Notice
	left     chan struct{} // closed when the client is gone
	gone     sync.Once
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
	v := &viewer{h: h, conn: c, w: wire.NewConn(deadlined{c}), notices: make(chan wire.Notice, 1), left: make(chan struct{})}
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
	delete(h.viewers, v)
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
		h.mu.Lock()
		h.bell = false // whoever types has seen it
		h.mu.Unlock()
		h.input(f.Data)
	case wire.Resize:
		if attached && !v.readOnly {
			h.resize(f.Cols, f.Rows, f.XPixel, f.YPixel)
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
		return v.answer(h.status(), func(b []byte) wire.Frame { return wire.Status{JSON: b} })
	case wire.PeekRequest:
		h.mu.Lock()
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
	start, end := h.jnl.Bounds()
	view := h.screen.View()
	return map[string]any{"id": h.b.ID, "pid": h.cmd.Process.Pid, "host_pid": os.Getpid(), "cols": h.cols, "rows": h.rows, "attached": len(h.viewers), "typists": h.typists(),
		"start": start, "end": end, "last_output": h.last, "title": view.Title, "alternate": view.Alternate, "bell": h.bell, "version": wire.Version}
}

// attach takes a viewer in. The redraw and the offset from which live bytes follow are of one moment: nothing is
// missing at the seam and nothing comes twice.
func (h *host) attach(v *viewer, a wire.Attach) []wire.Frame {
	if !a.ReadOnly {
		h.resize(a.Cols, a.Rows, a.XPixel, a.YPixel)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	v.readOnly = a.ReadOnly
	h.viewers[v] = struct{}{}
	start, end := h.jnl.Bounds()
	if a.Resume && a.From <= end {
		ok := wire.Attached{Offset: max(a.From, start), Pid: uint32(h.cmd.Process.Pid)}
		ok.Gap = ok.Offset - a.From
		v.at = ok.Offset
		return []wire.Frame{ok}
	}
	v.at = end
	frames := []wire.Frame{wire.Attached{Offset: end, Pid: uint32(h.cmd.Process.Pid)}}
	for redraw := h.screen.RedrawFor(int(a.Cols), int(a.Rows), int(a.History)); len(redraw) > 0; {
		n := min(len(redraw), wire.MaxPayload/2)
		frames = append(frames, wire.Redraw{Data: redraw[:n]})
		redraw = redraw[n:]
	}
	return frames
}

// direct hands on what the journal could not take; a viewer that is busy misses it, and its next redraw has it.
func (v *viewer) direct(p []byte) {
	go func(p []byte) { _ = v.w.Write(wire.Redraw{Data: p}) }(append([]byte(nil), p...))
}

// send is the viewer's cursor in the journal.
func (v *viewer) send(first []wire.Frame) {
	for _, f := range first {
		if v.w.Write(f) != nil {
			return
		}
	}
	more := v.h.follow(v)
	buf := make([]byte, 32<<10)
	var repaint <-chan time.Time
	for {
		n, err := v.h.jnl.ReadAt(buf, v.at)
		var trimmed *journal.TrimmedError
		switch {
		case n > 0:
			if v.w.Write(wire.Output{Offset: v.at, Data: buf[:n]}) != nil {
				return
			}
			v.at += uint64(n)
			continue
		case errors.As(err, &trimmed):
			if v.w.Write(wire.Skipped{Bytes: trimmed.Start - v.at}) != nil || v.w.Write(wire.Redraw{Data: v.h.redraw()}) != nil {
				return
			}
			v.at = trimmed.Start
			continue
		case err != nil && !errors.Is(err, io.EOF):
			log.Printf("read the journal: %v", err)
			return
		}
		select {
		case <-v.left:
			return
		case _, ok := <-more:
			if !ok {
				v.finish(buf)
				return
			}
		case n := <-v.notices:
			if data := v.h.overlay(v.at, n.Text); data != nil && v.w.Write(wire.Redraw{Data: data}) == nil {
				repaint = time.After(time.Duration(n.Seconds) * time.Second)
			}
		case <-repaint:
			repaint = nil
			if data := v.h.lastRow(v.at); data != nil && v.w.Write(wire.Redraw{Data: data}) != nil {
				return
			}
		}
	}
}
