// Package link keeps one conversation with a session going over connections that break.
//
// A [Link] dials by a function that it is given, says who it is (wire.Hello) and how far it got (wire.Attach), and from
// then on nobody above it notices the network: output comes once and in order, what is typed goes once and in order,
// whatever happens to the connections that carry them. It probes the connection, dials anew when it falls silent, when
// the clock jumps (the machine slept) or when an address or route changes, and leaves the old one in place until a new
// one works: whichever speaks first wins.
//
// All state belongs to the goroutine of [Link.Run], which also calls the [Handler].
package link

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"time"

	"perdure/workspace/wire"
)

// Stream is one connection to a relay, at its first byte after the magic and version.
type Stream interface {
	io.ReadWriteCloser
	// Failure says why the stream ended, once Read has failed; nil for no better reason than that it did.
	Failure() error
}

// Dial opens a connection and has the relay's preamble read. The first is made in front of the person, who may be
// asked things; later ones must be silent, and end with ctx.
type Dial func(ctx context.Context, first bool, workspace string) (Stream, error)

// A FinalError ends the link: dialling again would not help.
type FinalError struct {
	Status int // the exit status that goes with it
	Err    error
	Hint   string
}

func (e *FinalError) Error() string { return e.Err.Error() }
func (e *FinalError) Unwrap() error { return e.Err }

// Handler gets what a session has to say. An error ends the link.
type Handler interface {
	// Up is called once, before anything else, when the first connection speaks.
	Up() error
	// Session names the session that what follows belongs to; fresh is false where it is the one of before.
	Session(id, workspace string, fresh bool) error
	// Output is what the program printed, Redraw what stands for it.
	Output(p []byte) error
	Redraw(p []byte) error
	// Skipped says that so many bytes of output were left out, or are gone.
	Skipped(bytes uint64) error
	// Typed is called with input before it is sent; end is the offset after it, rtt the smoothed round trip.
	Typed(p []byte, end uint64, rtt time.Duration) error
	Tty(wire.Tty) error
	// Echoed says that the output so far shows the echo of input before the offset.
	Echoed(offset uint64) error
	// Link tells of the link's state: when it changes, and about once a second while it is down.
	Link(State) error
	// Tick is called about once a second, for what goes by itself.
	Tick() error
}

// State is what the link does.
type State struct {
	Up      bool          // the connection answers in time
	Silence time.Duration // since something was heard, while it isn't up
	Trying  bool          // a new connection is being made
	Problem string        // what the last attempt failed by, one line
	Pending uint64        // bytes typed that the session doesn't have yet
	RTT     time.Duration // smoothed round trip, 0 while unknown
	Redials int           // connections made after the first
	Since   time.Time     // of the connection in force
}

// Result is how a session ended.
type Result struct {
	Code        int
	Signal      string
	Undelivered uint64 // bytes typed that the session never got
}

// Options say how a link is made.
type Options struct {
	Dial      Dial
	Handler   Handler
	Workspace string
	Attach    wire.Attach // the window and what is wanted; Resume, From and History are the link's
	Terminal  bool        // a person looks on; else output is followed from its beginning
	Skip      uint64      // see wire.Hello

	// Hooks for tests; the zero values are the real thing.
	Routes func(ctx context.Context) <-chan struct{} // tells of changed addresses and routes
}

// historyLines is how much history the first redraw puts into the terminal's own scrollback.
const historyLines = 2000

// Link is one conversation. Its methods may be called from any goroutine.
type Link struct {
	o      Options
	id     string
	posts  chan func()
	frames chan incoming
	ended  chan struct{} // Run has returned
	state  state
}

// New makes a link; Run starts it.
func New(o Options) *Link {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	l := &Link{o: o, id: hex.EncodeToString(b[:]), posts: make(chan func(), 256), frames: make(chan incoming), ended: make(chan struct{})}
	l.state = state{workspace: o.Workspace, attach: o.Attach, whole: !o.Terminal}
	return l
}

// post has fn called on the link's goroutine.
func (l *Link) post(fn func()) {
	select {
	case l.posts <- fn:
	case <-l.ended:
	}
}

// Type takes what was typed, and returns how much it had room for. The slice is the link's afterwards.
func (l *Link) Type(p []byte) int {
	n := l.state.in.reserve(len(p))
	if n > 0 {
		l.post(func() {
			l.state.in.append(p[:n])
			l.state.failed = l.o.Handler.Typed(p[:n], l.state.in.end(), l.state.rtt.smooth)
		})
	}
	return n
}

// Room waits until something more can be typed, or returns false where it never will be.
func (l *Link) Room(ctx context.Context) bool { return l.state.in.wait(ctx, l.ended) }

// Resize gives the window's new size.
func (l *Link) Resize(z wire.Resize) {
	l.post(func() {
		l.state.attach.Cols, l.state.attach.Rows, l.state.attach.XPixel, l.state.attach.YPixel = z.Cols, z.Rows, z.XPixel, z.YPixel
		l.state.resized = true
	})
}

// Go asks for another workspace: see wire.Go.
func (l *Link) Go(to string) {
	l.post(func() { l.state.going = &to })
}

// Do calls fn with the state of the link, on its goroutine: what it calls of the Handler's can't mix with what the
// link calls.
func (l *Link) Do(fn func(State)) { l.post(func() { fn(l.state.report(time.Now())) }) }
