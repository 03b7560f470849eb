package link

import (
	"context"
	"sync"

	"perdure/workspace/wire"
)

const (
	// inputWindow is how much may be under way without an acknowledgement, in bytes.
	inputWindow = 64 << 10
	// inputChunk is the most that one frame carries.
	inputChunk = 16 << 10
	// maxInput is how much is kept while nobody takes it. Whoever types more waits, or is told.
	maxInput = 4 << 20
)

// input is what was typed and not acknowledged yet, by offset.
type input struct {
	base uint64 // offset of buf's first byte
	sent uint64 // end of what the connection in force was given
	buf  []byte

	mu       sync.Mutex
	reserved int           // bytes of buf, and those on their way into it
	freed    chan struct{} // closed when room was made; nil while nobody waits
}

// reserve takes room for at most n bytes.
func (in *input) reserve(n int) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	n = min(n, maxInput-in.reserved)
	in.reserved += n
	return n
}

// wait returns true once there is room.
func (in *input) wait(ctx context.Context, ended <-chan struct{}) bool {
	in.mu.Lock()
	if in.reserved < maxInput {
		in.mu.Unlock()
		return true
	}
	if in.freed == nil {
		in.freed = make(chan struct{})
	}
	freed := in.freed
	in.mu.Unlock()
	select {
	case <-freed:
		return true
	case <-ctx.Done():
	case <-ended:
	}
	return false
}

func (in *input) append(p []byte) { in.buf = append(in.buf, p...) }

func (in *input) end() uint64 { return in.base + uint64(len(in.buf)) }

// acked drops what the session has. An offset that was never sent is nonsense, and is taken for none.
func (in *input) acked(offset uint64) {
	if offset <= in.base || offset > in.end() {
		return
	}
	n := int(offset - in.base)
	in.base = offset
	in.sent = max(in.sent, offset)
	if in.buf = in.buf[n:]; len(in.buf) == 0 {
		in.buf = nil // a large paste shouldn't cost its size for ever
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.reserved -= n
	if in.freed != nil {
		close(in.freed)
		in.freed = nil
	}
}

// rewind has everything sent again from where the session is.
func (in *input) rewind(to uint64) {
	in.acked(to)
	in.sent = in.base
}

// next is the next frame to send, if there is one and the window has room.
func (in *input) next() (wire.Input, bool) {
	from, end := in.sent, min(in.end(), in.base+inputWindow)
	if from >= end {
		return wire.Input{}, false
	}
	end = min(end, from+inputChunk)
	data := append([]byte(nil), in.buf[from-in.base:end-in.base]...)
	return wire.Input{Offset: from, Data: data}, true
}
