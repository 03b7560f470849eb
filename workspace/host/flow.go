package host

import (
	"time"

	"perdure/workspace/wire"
)

// What may be under way to a client that acknowledges, in bytes. The window follows the link: what queues in front
// of a slow one delays the answer to every key.
const (
	minWindow   = 16 << 10
	firstWindow = 64 << 10
	maxWindow   = 4 << 20
)

const (
	// queueTime is the delay by queueing that a window may cause.
	queueTime = 200 * time.Millisecond
	// behindTime is how long a client must have been far behind before output is skipped.
	behindTime = 5 * time.Second
	// interruptTime is what a program gets to end after an interrupt, before output is skipped that would take
	// longer than interruptLag to show.
	interruptTime = 300 * time.Millisecond
	interruptLag  = 2 * time.Second
	interruptSkip = 256 << 10 // bytes; less is not worth a gap
)

// flow is what a viewer's link can take. It is guarded by host.mu.
type flow struct {
	acked   uint64
	window  uint64
	least   time.Duration // the shortest time in which an acknowledgement came
	last    time.Duration
	mark    uint64    // an offset whose acknowledgement is timed
	marked  time.Time // zero where none is
	full    bool      // the window was used up since the mark
	behind  time.Time // since when the client is far behind
	attempt time.Time // when an interrupt was typed
}

// room is how much more may be sent; at is the next offset.
func (f *flow) room(at uint64) uint64 {
	if used := at - f.acked; used < f.window {
		return f.window - used
	}
	f.full = true
	return 0
}

// sent starts a measurement where none is under way.
func (f *flow) sent(end uint64, now time.Time) {
	if f.marked.IsZero() {
		f.mark, f.marked, f.full = end, now, false
	}
}

// ack takes an acknowledgement in. A window that was used up and came back without delay was too small, one that
// came back late too large.
func (f *flow) ack(offset, at uint64, now time.Time) {
	if offset > at || offset <= f.acked {
		return // more than was sent, or old
	}
	f.acked = offset
	if f.marked.IsZero() || offset < f.mark {
		return
	}
	took := now.Sub(f.marked)
	f.marked, f.last = time.Time{}, took
	if f.least == 0 || took < f.least {
		f.least = took
	}
	switch {
	case took > 2*f.least+queueTime:
		f.window = max(minWindow, f.window*uint64(f.least+queueTime)/uint64(took))
	case f.full:
		f.window = min(maxWindow, 2*f.window)
	}
}

// lag is how long it would take to send so many bytes.
func (f *flow) lag(bytes uint64) time.Duration {
	return time.Duration(float64(bytes) / float64(max(f.window, minWindow)) * float64(max(f.last, time.Millisecond)))
}

// late says whether the client is so far behind that the rest is skipped: far for five seconds, or with seconds to
// wait for the answer to an interrupt. wait is when to look again.
func (f *flow) late(behind, skip uint64, now time.Time) (yes bool, wait time.Duration) {
	if skip == 0 {
		return false, 0
	}
	if !f.attempt.IsZero() {
		if wait = f.attempt.Add(interruptTime).Sub(now); wait <= 0 {
			f.attempt = time.Time{}
			if behind > interruptSkip && f.lag(behind) > interruptLag {
				return true, 0
			}
		}
	}
	if behind <= skip {
		f.behind = time.Time{}
		return false, max(wait, 0)
	}
	if f.behind.IsZero() {
		f.behind = now
	}
	if left := f.behind.Add(behindTime).Sub(now); left > 0 {
		if wait <= 0 || left < wait {
			wait = left
		}
		return false, wait
	}
	f.behind = time.Time{}
	return true, 0
}

// interrupt is the key that stops a program at most terminals (VINTR).
const interrupt = 0x03

// skip jumps to the end: what the screen shows now stands in for what was left out.
func (v *viewer) skip() []wire.Frame {
	h := v.h
	h.mu.Lock()
	defer h.mu.Unlock()
	end := h.catchUp()
	frames := []wire.Frame{wire.Skipped{Bytes: end - v.at}}
	frames = append(frames, redrawFrames(v.whole(0))...)
	v.at = end
	v.flow.acked, v.flow.marked = end, time.Time{}
	return append(frames, wire.Output{Offset: end})
}

// redrawFrames cuts a redraw into frames.
func redrawFrames(redraw []byte) []wire.Frame {
	var frames []wire.Frame
	for len(redraw) > 0 {
		n := min(len(redraw), wire.MaxPayload/2)
		frames = append(frames, wire.Redraw{Data: redraw[:n]})
		redraw = redraw[n:]
	}
	return frames
}
