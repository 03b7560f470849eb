package host

import (
	"time"

	"perdure/workspace/wire"
)

// turn is when a client took the session over. Of clients of several sizes the one that typed last decides; while none
// has typed, the one that came last.
type turn struct {
	n     uint64
	typed bool
}

// answerTime is how long after a question of the program what looks like an answer counts as one.
const answerTime = 5 * time.Second

// entered has a new attachment decide, unless somebody else has typed; mu is held.
func (h *host) entered(v *viewer) {
	if v.peer != nil {
		v.turn = v.peer.turn // it was here before its link broke
	}
	if v.readOnly || v.turn.typed {
		h.decide()
		return
	}
	for o := range h.viewers {
		if o != v && o.turn.typed && !o.readOnly {
			h.decide()
			return
		}
	}
	h.take(v, false)
}

// take has a viewer decide; mu is held.
func (h *host) take(v *viewer, typed bool) {
	h.turns++
	v.turn = turn{h.turns, v.turn.typed || typed}
	if v.peer != nil {
		v.peer.turn = v.turn
	}
	h.decide()
}

// decider is the attachment whose terminal counts, nil where there is none; mu is held.
func (h *host) decider() *viewer {
	var best *viewer
	for v := range h.viewers {
		if !v.readOnly && v.window.Cols > 0 && (best == nil || v.turn.n > best.turn.n) {
			best = v
		}
	}
	return best
}

// decide gives the session the size of whoever decides; mu is held.
func (h *host) decide() {
	if v := h.decider(); v != nil {
		h.resize(v.window)
	}
}

// resized takes in a client's new window.
func (v *viewer) resized(f wire.Resize) {
	h := v.h
	h.mu.Lock()
	defer h.mu.Unlock()
	v.window = f
	h.decide()
	v.poke() // it may show more of the screen now, or less
}

// heard sorts a client's input. What its terminal says by itself is no typing, and of several terminals only the one
// that decides answers a question: the program asked once. The result is what the program gets.
func (v *viewer) heard(p []byte) []byte {
	h := v.h
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := time.Since(h.asked) < answerTime
	_, attached := h.viewers[v] // else it is a command that types
	if len(without(p, answers|focus, asked)) > 0 {
		h.answeredByInput()
		if attached && (!v.turn.typed || h.decider() != v) {
			h.take(v, true)
		}
	}
	if asked && attached && h.decider() != v {
		return without(p, answers, true)
	}
	return p
}
