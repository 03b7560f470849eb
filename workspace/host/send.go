package host

import (
	"errors"
	"io"
	"log"
	"time"

	"perdure/workspace/journal"
	"perdure/workspace/wire"
)

// attach takes a viewer in. The redraw and the offset from which live bytes follow are of one moment: nothing is
// missing at the seam and nothing comes twice.
func (h *host) attach(v *viewer, a wire.Attach) []wire.Frame {
	if v.peer != nil {
		v.peer.mu.Lock() // an older connection may be in the middle of its input
		defer v.peer.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.catchUp() // what was asked while nobody was there is answered before somebody is
	v.readOnly = a.ReadOnly
	if v.peer != nil && v.peer.viewer != v {
		return []wire.Frame{fenced}
	}
	h.viewers[v] = struct{}{}
	v.window = wire.Resize{Cols: a.Cols, Rows: a.Rows, XPixel: a.XPixel, YPixel: a.YPixel}
	v.shows = a.Cols > 0 && a.Rows > 0 && (v.hello.Terminal || v.peer == nil && !a.Resume)
	h.entered(v)
	shown := h.catchUp()
	start, end := h.jnl.Bounds()
	ok := wire.Attached{Offset: shown, Pid: uint32(h.cmd.Process.Pid)}
	if v.peer != nil {
		ok.InputOffset = v.peer.typed
	}
	resumed := a.Resume && a.From <= end
	if resumed {
		ok.Offset = max(a.From, start)
		ok.Gap = ok.Offset - a.From
	}
	if ok.Gap > 0 && v.hello.Terminal { // what is left of the output makes no screen without what is gone
		ok.Offset, ok.Gap, resumed = shown, shown-min(a.From, shown), false
	}
	v.at = ok.Offset
	v.flow = flow{acked: v.at, window: firstWindow}
	frames := []wire.Frame{ok}
	if !resumed {
		frames = append(frames, redrawFrames(v.whole(int(a.History)))...)
	}
	if v.peer != nil && !resumed {
		frames = append(frames, wire.Output{Offset: v.at})
	}
	return frames
}

// direct hands on what the journal could not take; a viewer that is busy misses it, and its next redraw has it.
func (v *viewer) direct(p []byte) {
	go func(p []byte) { _ = v.w.Write(wire.Redraw{Data: p}) }(append([]byte(nil), p...))
}

// sender is a viewer's cursor in the journal at work.
type sender struct {
	v       *viewer
	buf     []byte
	seen    uint64 // the journal's end when it was looked at last: what came since is a reason to look again
	repaint <-chan time.Time
	again   *time.Timer // when a client that is behind is looked at next
}

// send writes what is to be seen until the viewer leaves or the session is over.
func (v *viewer) send(first []wire.Frame) {
	if v.writeAll(first) != nil {
		return
	}
	s := &sender{v: v, buf: make([]byte, 32<<10), again: time.NewTimer(time.Hour)}
	defer s.again.Stop()
	for {
		if v.writeAll(v.asides()) != nil {
			return
		}
		_, s.seen = v.h.jnl.Bounds()
		sent, err := s.output()
		if err != nil {
			return
		}
		if !sent && !s.wait() {
			return
		}
	}
}

func (v *viewer) writeAll(frames []wire.Frame) error {
	for _, f := range frames {
		if err := v.w.Write(f); err != nil {
			return err
		}
	}
	return nil
}

// asides are the frames of a numbered client that go between the output: the terminal's modes at once, what was
// echoed after the output that shows it.
func (v *viewer) asides() []wire.Frame {
	if v.peer == nil {
		return nil
	}
	v.h.mu.Lock()
	defer v.h.mu.Unlock()
	var frames []wire.Frame
	if now := v.h.modes; v.tty == nil || *v.tty != now {
		v.tty = &now
		frames = append(frames, now)
	}
	n := 0
	for n < len(v.peer.echoes) && v.peer.echoes[n].at <= v.at {
		n++
	}
	if n > 0 && v.peer.viewer == v {
		frames = append(frames, wire.EchoAck{Offset: v.peer.echoes[n-1].input})
		v.peer.echoes = append(v.peer.echoes[:0], v.peer.echoes[n:]...)
	}
	return frames
}

// output sends the next piece, if there is one and the link has room for it.
func (s *sender) output() (sent bool, err error) {
	v := s.v
	if frames, drawn := s.draw(); drawn {
		return len(frames) > 0, v.writeAll(frames)
	}
	room, skip := s.room()
	if skip {
		return true, v.writeAll(v.skip())
	}
	if room == 0 {
		return false, nil
	}
	n, err := v.h.jnl.ReadAt(s.buf[:min(uint64(len(s.buf)), room)], v.at)
	var trimmed *journal.TrimmedError
	switch {
	case n > 0:
		if err := v.w.Write(wire.Output{Offset: v.at, Data: s.buf[:n]}); err != nil {
			return false, err
		}
		v.advance(v.at+uint64(n), false)
		return true, nil
	case errors.As(err, &trimmed):
		if v.peer == nil || v.hello.Terminal {
			return true, v.writeAll(v.skip()) // what is trimmed can't be shown, nor what follows it without it
		}
		frames := []wire.Frame{wire.Skipped{Bytes: trimmed.Start - v.at}, wire.Output{Offset: trimmed.Start}}
		v.advance(trimmed.Start, true)
		return true, v.writeAll(frames)
	case err != nil && !errors.Is(err, io.EOF):
		log.Printf("read the journal: %v", err)
		return false, err
	}
	return false, nil
}

// advance moves the cursor; acked counts what was left out as shown.
func (v *viewer) advance(to uint64, acked bool) {
	v.h.mu.Lock()
	defer v.h.mu.Unlock()
	v.at = to
	if acked {
		v.flow.acked, v.flow.marked = to, time.Time{}
		return
	}
	v.flow.sent(to, time.Now())
}

// room is how much output may be sent, and whether the rest is to be skipped.
func (s *sender) room() (room uint64, skip bool) {
	v := s.v
	if v.peer == nil {
		return uint64(len(s.buf)), false
	}
	v.h.mu.Lock()
	defer v.h.mu.Unlock()
	_, end := v.h.jnl.Bounds()
	skip, wait := v.flow.late(end-min(end, v.at), v.hello.Skip, time.Now())
	if wait > 0 {
		s.again.Reset(wait)
	}
	return v.flow.room(v.at), skip
}

// wait returns once there may be something to send, and false once there is nothing more.
func (s *sender) wait() bool {
	v := s.v
	grown, over := v.h.jnl.Grown(s.seen)
	if over {
		v.finish(s.buf)
		return false
	}
	select {
	case <-v.left:
		return false
	case <-v.wake:
	case <-s.again.C:
	case <-grown:
	case n := <-v.notices:
		if data := v.overlay(n.Text); data != nil && v.w.Write(wire.Redraw{Data: data}) == nil {
			s.repaint = time.After(time.Duration(n.Seconds) * time.Second)
		}
	case <-s.repaint:
		s.repaint = nil
		if data := v.lastRow(); data != nil && v.w.Write(wire.Redraw{Data: data}) != nil {
			return false
		}
	}
	return true
}
