package server

import (
	"context"
	"io"
	"time"
)

// aloneFor is how long nothing may follow a key that is meant for a screen of perdure's: the keys of a word that is
// typed for the session come closer together.
const aloneFor = 250 * time.Millisecond

// maxHeld bounds what is kept for a session, in bytes; what is typed beyond it stays with the client.
const maxHeld = 256 << 10

// chunk is what the client typed at one time.
type chunk struct {
	data []byte
	at   time.Time // when it came
	// take tells whoever keeps the chunk that it, and all before it, was used or dropped: a client that resumes then
	// doesn't send it again. Nil where nobody keeps it.
	take func()
}

// keys is what the client types while no session takes it: read by one goroutine, for the screens and the session in
// turn. What no screen takes is held for the session.
type keys struct {
	c    chan chunk
	held []byte
	last func() // takes what is held
}

// keysAhead is how many chunks are read before anybody asks, so that each is dated when it comes.
const keysAhead = 256

func readKeys(ctx context.Context, r io.Reader) *keys {
	k := &keys{c: make(chan chunk, keysAhead)}
	go func() { // owned by the request: it ends when the channel does, which the door closes
		defer close(k.c)
		defer func() { _ = recover() }() // a peer's bytes must never end the server
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			if n > 0 {
				select {
				case k.c <- chunk{data: append([]byte(nil), buf[:n]...), at: time.Now()}:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return k
}

// hold keeps a chunk for the session.
func (k *keys) hold(c chunk) {
	k.held = append(k.held, c.data...)
	k.last = c.take
}

// full says that the client has to wait with more.
func (k *keys) full() bool { return len(k.held) >= maxHeld }

// drop forgets what is held, and says how many bytes that was.
func (k *keys) drop() int {
	n := len(k.held)
	if k.last != nil {
		k.last()
	}
	k.held, k.last = nil, nil
	return n
}

// lineStart says whether a key would be the first of a line: only there it can be meant for a screen.
func (k *keys) lineStart() bool {
	n := len(k.held)
	return n == 0 || k.held[n-1] == '\r' || k.held[n-1] == '\n'
}

// pause drops what comes until nothing did for a while: what is being typed was begun before the prompt that follows.
// It gives how many bytes that were.
func (k *keys) pause(ctx context.Context) (n int) {
	for {
		select {
		case <-ctx.Done():
			return n
		case c, ok := <-k.c:
			if !ok {
				return n
			}
			k.hold(c)
			n += k.drop()
		case <-time.After(aloneFor):
			return n
		}
	}
}

// answer is one key that was typed alone after a prompt was drawn; 0 where keys came that are none. The error is ctx's,
// or io.EOF where the client types no more.
func (k *keys) answer(ctx context.Context, drawn time.Time) (byte, error) {
	for {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case c, ok := <-k.c:
			if !ok {
				return 0, io.EOF
			}
			k.hold(c)
			k.drop()
			if c.at.Before(drawn) {
				continue
			}
			if more := k.pause(ctx); len(c.data) == 1 && more == 0 {
				return c.data[0], nil
			}
			return 0, nil
		}
	}
}
