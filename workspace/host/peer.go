package host

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"perdure/workspace/wire"
)

const (
	// maxPeers bounds the clients that are remembered while they are away. The one that was away longest goes
	// first; it loses nothing by that but the knowledge of what it sent without hearing that it came.
	maxPeers = 256

	// echoTime is how long a program has to echo before its output counts as the answer to what was typed, as in
	// the mosh paper.
	echoTime = 50 * time.Millisecond
)

// peer is a client that numbers its input, over all of its connections.
type peer struct {
	mu    sync.Mutex // held while its input is queued, so that two connections can't mix
	typed uint64     // end of the input that was queued

	// The rest is guarded by host.mu.
	number uint64
	viewer *viewer // the connection in force, nil while the client is away
	seen   time.Time
	turn   turn
	echoes []echo // what is to be acknowledged, oldest first
}

// echo says that the output before at shows the echo of the input before input.
type echo struct{ input, at uint64 }

// maxEchoes bounds what waits to be acknowledged; the newest stands for those before.
const maxEchoes = 64

// greet takes in who a viewer is. A newer connection ends an older one; an older one gets nothing.
func (h *host) greet(v *viewer, f wire.Hello) bool {
	h.mu.Lock()
	p := h.peers[f.Client]
	if p == nil {
		h.forget()
		p = &peer{typed: f.Input}
		h.peers[f.Client] = p
	}
	if f.Number < p.number { // the same number again is the same connection's relay, which was elsewhere meanwhile
		h.mu.Unlock()
		_ = v.w.Write(fenced)
		return false
	}
	if p.mu.TryLock() { // else input is under way, and says by itself how far it came
		p.typed = max(p.typed, f.Input) // what the relay asked of the person never comes here
		p.mu.Unlock()
	}
	old := p.viewer
	p.number, p.viewer, p.seen = f.Number, v, time.Now()
	v.peer, v.hello = p, f
	if old != nil {
		delete(h.viewers, old)
	}
	h.mu.Unlock()
	if old != nil {
		// Nothing of the older connection may come after this: its reader is ended by the close. A stalled one
		// must not hold up the newer, so nobody waits for it.
		go func() {
			_ = old.w.Write(fenced)
			old.conn.Close()
		}()
		old.leave()
	}
	return true
}

var fenced = wire.Fault{Code: "fenced", Message: "a newer connection of this client has taken its place"}

// forget makes room for one more client; mu is held.
func (h *host) forget() {
	if len(h.peers) < maxPeers {
		return
	}
	oldest := ""
	for name, p := range h.peers {
		if p.viewer == nil && (oldest == "" || p.seen.Before(h.peers[oldest].seen)) {
			oldest = name
		}
	}
	delete(h.peers, oldest)
}

// away notes that a viewer's connection is over.
func (h *host) away(v *viewer) {
	if p := v.peer; p != nil && p.viewer == v {
		p.viewer, p.seen = nil, time.Now()
	}
}

// take queues what a numbered client typed, once: what it has sent before is dropped, and so is what comes before
// something that never came, since it will send that again. Where another terminal answers the program's question,
// whole is false, and this one's answers are taken and dropped.
func (v *viewer) take(f wire.Input, whole bool) error {
	p := v.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Offset > p.typed {
		return v.w.Write(wire.InputAck{Offset: p.typed})
	}
	known := p.typed - f.Offset
	if known >= uint64(len(f.Data)) {
		return v.w.Write(wire.InputAck{Offset: p.typed})
	}
	for chunk := range slices.Chunk(f.Data[known:], inputChunk) {
		p.typed += uint64(len(chunk))
		if !whole {
			chunk = without(chunk, answers, true)
		}
		v.h.queue(typed{data: chunk, peer: p, end: p.typed})
	}
	return v.w.Write(wire.InputAck{Offset: p.typed})
}

// echoLater acknowledges input once the program had the time to echo it.
func (h *host) echoLater(p *peer, end uint64) {
	time.AfterFunc(echoTime, func() {
		h.lookAtTty()
		h.mu.Lock()
		defer h.mu.Unlock()
		_, at := h.jnl.Bounds()
		if len(p.echoes) >= maxEchoes {
			p.echoes = p.echoes[:maxEchoes-1]
		}
		p.echoes = append(p.echoes, echo{end, at})
		if p.viewer != nil {
			p.viewer.poke()
		}
	})
}

// lookAtTty tells the viewers when the terminal's modes have changed. The kernel says so only to those who put the
// terminal into a mode of its own (TIOCPKT with EXTPROC), which programs would see; looking is a system call.
func (h *host) lookAtTty() {
	var t *unix.Termios
	h.control(func(fd int) { t, _ = unix.IoctlGetTermios(fd, unix.TCGETS) })
	if t == nil {
		return
	}
	if was := h.local.Swap(t.Lflag); was == t.Lflag {
		return // looked at for each piece of output: it must not wait for the screen
	}
	now := wire.Tty{Echo: t.Lflag&unix.ECHO != 0, Canonical: t.Lflag&unix.ICANON != 0}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now == h.modes {
		return
	}
	h.modes = now
	for v := range h.viewers {
		v.poke()
	}
}
