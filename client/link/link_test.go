package link

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perdure/workspace/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// far is a session that answers every byte typed with that byte and a dot, over connections that break.
type far struct {
	mu     sync.Mutex
	typed  []byte
	out    []byte
	number uint64
	more   *sync.Cond
	want   int
}

// cutStream breaks after so many bytes in both directions.
type cutStream struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (c *cutStream) Failure() error { return nil }

func (c *cutStream) take(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, c.left)
	c.left -= n
	if c.left == 0 {
		c.Close()
	}
	return n
}

func (c *cutStream) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return c.take(n), err
}

func (c *cutStream) Write(p []byte) (int, error) {
	c.mu.Lock()
	n := min(len(p), c.left)
	c.mu.Unlock()
	n, err := c.Conn.Write(p[:n])
	c.take(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// serve speaks for the session on one connection.
func (s *far) serve(c net.Conn) {
	defer c.Close()
	w := wire.NewConn(c)
	if _, err := w.Handshake(); err != nil {
		return
	}
	f1, _ := w.Read()
	f2, _ := w.Read()
	hello, ok1 := f1.(wire.Hello)
	attach, ok2 := f2.(wire.Attach)
	if !ok1 || !ok2 {
		return
	}
	s.mu.Lock()
	s.number = max(s.number, hello.Number)
	has := uint64(len(s.typed))
	s.mu.Unlock()
	if w.Write(wire.Session{ID: "s", Workspace: "app"}) != nil || w.Write(wire.Attached{Offset: attach.From, InputOffset: has}) != nil {
		return
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	over := false
	writing.Go(func() { s.write(w, c, attach.From, hello.Number, &over) })
	for {
		f, err := w.Read()
		if err != nil {
			break
		}
		if in, ok := f.(wire.Input); ok && w.Write(wire.InputAck{Offset: s.take(hello.Number, in)}) != nil {
			break
		}
	}
	s.mu.Lock()
	over = true
	s.mu.Unlock()
	s.more.Broadcast()
}

// take takes input once, of the newest connection.
func (s *far) take(number uint64, in wire.Input) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := uint64(len(s.typed))
	if number == s.number && in.Offset <= has && in.Offset+uint64(len(in.Data)) > has {
		for _, b := range in.Data[has-in.Offset:] {
			s.typed = append(s.typed, b)
			s.out = append(s.out, b, '.')
		}
		s.more.Broadcast()
	}
	return uint64(len(s.typed))
}

func (s *far) write(w *wire.Conn, c net.Conn, at, number uint64, over *bool) {
	defer c.Close()
	for {
		s.mu.Lock()
		for at == uint64(len(s.out)) && !*over && number == s.number && len(s.typed) < s.want {
			s.more.Wait()
		}
		stop := *over || number != s.number
		data := append([]byte(nil), s.out[at:min(at+100, uint64(len(s.out)))]...)
		s.mu.Unlock()
		if stop {
			return
		}
		if len(data) == 0 {
			_ = w.Write(wire.Exited{Code: 3, Offset: at})
			return
		}
		if w.Write(wire.Output{Offset: at, Data: data}) != nil {
			return
		}
		at += uint64(len(data))
	}
}

// shown collects what a link hands on.
type shown struct {
	bytes.Buffer
	up chan struct{}
}

func (h *shown) Up() error                                 { close(h.up); return nil }
func (h *shown) Session(string, string, bool) error        { return nil }
func (h *shown) Output(p []byte) error                     { _, err := h.Write(p); return err }
func (h *shown) Redraw([]byte) error                       { return nil }
func (h *shown) Skipped(uint64) error                      { return nil }
func (h *shown) Typed([]byte, uint64, time.Duration) error { return nil }
func (h *shown) Tty(wire.Tty) error                        { return nil }
func (h *shown) Echoed(uint64) error                       { return nil }
func (h *shown) Link(State) error                          { return nil }
func (h *shown) Tick() error                               { return nil }

// Whatever byte a connection breaks at, and whoever was writing it, everything arrives once and in order.
func TestEveryByteArrivesOnceWhereverConnectionsBreak(t *testing.T) {
	typed := bytes.Repeat([]byte("0123456789abcdef"), 4000)
	s := &far{want: len(typed)}
	s.more = sync.NewCond(&s.mu)
	rnd := rand.New(rand.NewPCG(3, 4))
	dials := 0
	var servers sync.WaitGroup
	h := &shown{up: make(chan struct{})}
	l := New(Options{Handler: h, Workspace: "app", Routes: func(context.Context) <-chan struct{} { return nil },
		Dial: func(context.Context, bool, string) (Stream, error) {
			near, distant := net.Pipe()
			servers.Go(func() { s.serve(distant) })
			s.mu.Lock()
			defer s.mu.Unlock()
			dials++
			return &cutStream{Conn: near, left: 400 + rnd.IntN(20000)}, nil // enough to begin to speak
		}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var typing sync.WaitGroup
	typing.Go(func() {
		for rest := bytes.Clone(typed); len(rest) > 0; {
			n := l.Type(rest[:min(len(rest), 1000)])
			rest = rest[n:]
		}
	})
	r, err := l.Run(ctx)
	typing.Wait()
	servers.Wait()
	if err != nil || r.Code != 3 || r.Undelivered != 0 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if !bytes.Equal(s.typed, typed) || !bytes.Equal(h.Bytes(), s.out) || dials < 10 {
		t.Errorf("typed %d, taken %d, printed %d, shown %d, %d connections", len(typed), len(s.typed), len(s.out), h.Len(), dials)
	}
}
