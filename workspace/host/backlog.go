package host

import (
	"log"
	"slices"
	"sync"
	"time"
)

// maxBacklog is how much output may wait for the screen, in bytes: a few milliseconds of its work, so that whoever
// needs the screen as of now waits no longer.
const maxBacklog = 256 << 10

// backlog is output that is in the journal and not yet on the screen, which catches up beside the drain. Its lock is
// never held for longer than a copy takes, and may be taken while host.mu is held, not the other way round.
type backlog struct {
	mu      sync.Mutex
	buf     []byte
	spare   []byte // the other half of a pair that takes turns
	end     uint64 // the journal's end after buf
	last    time.Time
	waiting chan struct{} // holds a token while there is something
}

// push adds output, and says how much waits now.
func (b *backlog) push(p []byte, end uint64, now time.Time) int {
	b.mu.Lock()
	b.buf = append(b.buf, p...)
	b.end, b.last = end, now
	n := len(b.buf)
	b.mu.Unlock()
	select {
	case b.waiting <- struct{}{}:
	default: // known
	}
	return n
}

// take hands out all that waits; the caller gives the memory back.
func (b *backlog) take() (buf []byte, end uint64, last time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	buf, b.buf, b.spare = b.buf, b.spare[:0], nil
	return buf, b.end, b.last
}

func (b *backlog) give(buf []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spare = buf[:0]
}

// output takes in what the session printed: into the journal at once, onto the screen soon. A journal that fails (a
// full disk) stops neither screen nor session.
func (h *host) output(p []byte) {
	now := time.Now()
	end, err := h.jnl.Append(p, now)
	if err != nil {
		h.unkept(p, err)
	}
	if h.back.push(p, end, now) >= maxBacklog {
		h.mu.Lock()
		h.catchUp()
		h.mu.Unlock()
	}
	h.lookAtTty()
}

// unkept hands what the journal could not take to those who look on.
func (h *host) unkept(p []byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lostBytes == 0 {
		log.Printf("journal: %v", err)
	}
	h.lostBytes += uint64(len(p))
	for v := range h.viewers {
		v.direct(p)
	}
}

// keepUp has the screen follow until the session is over.
func (h *host) keepUp() {
	for {
		select {
		case <-h.ended:
			return
		case <-h.back.waiting:
			h.mu.Lock()
			h.catchUp()
			h.mu.Unlock()
		}
	}
}

// catchUp brings the screen up to date, and returns the offset of the journal that it shows; mu is held. Output that
// comes meanwhile is behind that offset: a redraw and the bytes from there on are of one moment.
func (h *host) catchUp() uint64 {
	buf, end, last := h.back.take()
	defer h.back.give(buf)
	if len(buf) == 0 {
		return h.shown
	}
	h.shown, h.last = end, last
	for p := range slices.Chunk(buf, 32<<10) {
		_, _ = h.screen.Write(p) // it never fails
		h.noticed(p)
	}
	h.bell = h.screen.Bell() || h.bell
	if replies := h.screen.Replies(); len(replies) > 0 {
		h.asked = last
		if h.typists() == 0 { // else the client's own terminal answers
			h.reply(replies)
		}
	}
	h.checkpointSoon()
	return h.shown
}
