package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/workspace"
	"perdure/workspace/wire"
)

const (
	// relayGreeting is what a client has to say who it is.
	relayGreeting = 30 * time.Second
	// relayProbe is the silence after which a client is asked for a sign of life, relayDead the one after which it
	// is detached. Together with the tick they stay under the promised 45 s.
	relayProbe = 15 * time.Second
	relayDead  = 38 * time.Second
	relayTick  = 3 * time.Second
)

func (c *call) relayCommand() *cobra.Command {
	return &cobra.Command{Use: "relay [NAME]", Short: "speak wire frames on standard input and output, for `perdure connect`", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.r.Term != nil {
				return usage("it is what `perdure connect` runs at the far end", "relay speaks frames, not to a terminal")
			}
			name := ""
			if len(args) > 0 {
				d, err := c.workspace(args)
				if err != nil {
					return err
				}
				name = d.Name
			}
			if name != "" && c.who.inside == name {
				return refused("", "this is the session of %s", name)
			}
			c.exit = c.s.relay(cmd.Context(), c.r, name)
			return nil
		}}
}

// relay is one connection of a client that resumes: it does what an attachment does, by frames.
type relay struct {
	s     *Server
	r     *Request
	conn  *wire.Conn
	told  atomic.Bool  // the client knows how it ended
	heard atomic.Int64 // when the client's last frame came, in Unix nanoseconds

	hello  wire.Hello
	attach wire.Attach

	keys   chan chunk // what is typed while no session is joined
	saying string     // what the next session that is joined is shown, once

	mu      sync.Mutex
	host    *wire.Conn   // the session's, nil while none is joined
	pending []typedInput // typed while none is, and taken by no prompt
	offered int          // how many of these the prompt has seen
	waiting int          // bytes of them
	typed   uint64       // end of the input that prompts or sessions have taken
	sent    uint64       // end of the input that went to the session's host, in one piece with what it has taken
	going   *string      // where the client wants to go
	leave   func()       // ends the session's part, for going

	poke            chan struct{} // something is pending
	joined, settled chan struct{} // of the time without a session: closed when it ends, and when prompt has ended
}

// relay speaks frames with a client until its session ends or it leaves.
func (s *Server) relay(ctx context.Context, r *Request, name string) Exit {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := &relay{s: s, r: r, keys: make(chan chunk), poke: make(chan struct{}, 1)}
	l.conn = wire.NewConn(struct {
		io.Reader
		io.Writer
	}{r.In, r.Out})
	l.heard.Store(time.Now().UnixNano())
	greeted := make(chan error, 1)
	go func() { // ends with the channel, which the door closes: a Read of it can't be called back
		defer cancel()
		defer func() {
			if p := recover(); p != nil { // a peer's bytes must never end the server
				s.log.Error("panic", "in", "relay", "value", fmt.Sprint(p))
			}
		}()
		err := l.greet()
		greeted <- err
		if err == nil {
			l.read(ctx)
		}
	}()
	select {
	case err := <-greeted:
		if err != nil {
			return Exit{Status: report(fmt.Errorf("relay: %w", err), false, r.Err, r.Err)}
		}
	case <-time.After(relayGreeting):
		return Exit{Status: report(errors.New("relay: no client spoke in time"), false, r.Err, r.Err)}
	case <-ctx.Done():
		return Exit{Status: statusFailed}
	}
	s.wg.Go(func() { l.watch(ctx, cancel) })
	l.ask(ctx)
	return l.run(ctx, name)
}

// greet takes in who the client is.
func (l *relay) greet() error {
	if _, err := l.conn.Handshake(); err != nil {
		return err
	}
	for i := range 2 {
		f, err := l.conn.Read()
		if err != nil {
			return err
		}
		switch f := f.(type) {
		case wire.Hello:
			l.hello = f
		case wire.Attach:
			l.attach = f
			l.attach.ReadOnly = f.ReadOnly || l.r.Rights.readOnly
		default:
			return fmt.Errorf("%T is out of order", f)
		}
		if _, attach := f.(wire.Attach); attach != (i == 1) {
			return errors.New("Hello and Attach are out of order")
		}
	}
	if l.hello.Client == "" || len(l.hello.Client) > 128 || l.attach.Cols > maxCols || l.attach.Rows > maxRows || len(l.attach.Term) > maxTermName || l.attach.Term != "" && !printable(l.attach.Term) {
		return errors.New("a Hello or an Attach out of bounds")
	}
	l.typed = l.hello.Input
	return nil
}

// watch ends the relay when its client is gone without a word.
func (l *relay) watch(ctx context.Context, cancel func()) {
	tick := time.NewTicker(relayTick)
	defer tick.Stop()
	var asking atomic.Bool
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		silence := time.Since(time.Unix(0, l.heard.Load()))
		if silence > relayDead {
			l.s.log.Info("relay ended: the client is gone", "client", l.r.Peer)
			cancel()
			return
		}
		if silence > relayProbe && asking.CompareAndSwap(false, true) {
			go func() { // a write that is stuck ends with the channel
				defer asking.Store(false)
				_ = l.conn.Write(wire.Ping{})
			}()
		}
	}
}

// read takes the client's frames to where they belong.
func (l *relay) read(ctx context.Context) {
	for {
		f, err := l.conn.Read()
		if err != nil && !errors.Is(err, wire.ErrFrame) {
			return
		}
		l.heard.Store(time.Now().UnixNano())
		switch f := f.(type) {
		case wire.Ping:
			err = l.conn.Write(wire.Pong(f))
		case wire.Input:
			l.input(f)
		case wire.OutputAck, wire.Resize, wire.Signal:
			l.toHost(f)
		case wire.Go:
			l.wantsTo(ctx, f.To)
		}
		if err != nil || ctx.Err() != nil {
			return
		}
	}
}

func (l *relay) toHost(f wire.Frame) {
	l.mu.Lock()
	host := l.host
	if z, ok := f.(wire.Resize); ok {
		l.attach.Cols, l.attach.Rows, l.attach.XPixel, l.attach.YPixel = z.Cols, z.Rows, z.XPixel, z.YPixel
	}
	l.mu.Unlock()
	if host != nil {
		_ = host.Write(f) // a host that is gone shows where it is read from
	}
}

// maxPending bounds what is typed before a session is joined, in bytes. A client has less under way.
const maxPending = 256 << 10

// typedInput is what a client typed, and when it came.
type typedInput struct {
	wire.Input
	at time.Time
}

func (f typedInput) end() uint64 { return f.Offset + uint64(len(f.Data)) }

// input goes to the session, or waits for the prompt that comes before it, or for the session after that.
func (l *relay) input(f wire.Input) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.host != nil && l.going == nil {
		l.toSession(f)
		return
	}
	end := max(l.typed, l.sent)
	if n := len(l.pending); n > 0 {
		end = l.pending[n-1].end()
	}
	known := end - min(f.Offset, end)
	if f.Offset > end || known >= uint64(len(f.Data)) || l.waiting+len(f.Data) > maxPending {
		return // twice, or it will be sent again
	}
	f.Offset, f.Data = end, f.Data[known:]
	l.pending = append(l.pending, typedInput{f, time.Now()})
	l.waiting += len(f.Data)
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

// prompt gives what is typed to whoever asks, until a session is joined. It owns the phase's settled channel.
func (l *relay) prompt(ctx context.Context, joined <-chan struct{}, settled chan<- struct{}) {
	defer close(settled)
	for {
		l.mu.Lock()
		var f typedInput
		have := l.offered < len(l.pending)
		if have {
			f = l.pending[l.offered]
		}
		l.mu.Unlock()
		if !have {
			select {
			case <-l.poke:
				continue
			case <-joined:
			case <-ctx.Done():
			}
			return
		}
		l.mu.Lock()
		l.offered++ // before it is taken: whoever does counts it back
		l.mu.Unlock()
		select {
		case l.keys <- chunk{data: f.Data, at: f.at, take: func() { l.take(f.end()) }}:
		case <-joined:
			return
		case <-ctx.Done():
			return
		}
	}
}

// take ends the input up to an offset: a prompt used or dropped it. What no prompt takes is the session's, and until
// then the client's to send again.
func (l *relay) take(end uint64) {
	l.mu.Lock()
	for len(l.pending) > 0 && l.pending[0].end() <= end {
		l.waiting -= len(l.pending[0].Data)
		l.pending = l.pending[1:]
		l.offered--
	}
	l.typed = max(l.typed, end)
	l.mu.Unlock()
	_ = l.conn.Write(wire.InputAck{Offset: end}) // the client may be gone
}

// ask begins a time without a session.
func (l *relay) ask(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.host, l.offered, l.joined, l.settled = nil, 0, make(chan struct{}), make(chan struct{})
	go l.prompt(ctx, l.joined, l.settled) // begin waits for it, or ctx has ended
}

// begin ends it: what nobody asked for is the session's.
func (l *relay) begin(host *wire.Conn, leave func()) {
	close(l.joined)
	<-l.settled
	l.mu.Lock()
	defer l.mu.Unlock()
	l.host, l.leave, l.sent = host, leave, l.typed
	for _, f := range l.pending {
		l.toSession(f.Input)
	}
	l.pending, l.offered, l.waiting = nil, 0, 0
}

// toSession hands input to the host; mu is held, so that what waited goes before what comes.
func (l *relay) toSession(f wire.Input) {
	if l.host.Write(f) == nil && f.Offset <= l.sent { // a host that is gone shows where it is read from
		l.sent = max(l.sent, f.Offset+uint64(len(f.Data)))
	}
}

// left counts what went to a session as taken, once its client has gone elsewhere. Else whoever asks next would wait
// for input that the client has sent already.
func (l *relay) left() {
	l.mu.Lock()
	l.typed = max(l.typed, l.sent)
	end := l.typed
	l.mu.Unlock()
	_ = l.conn.Write(wire.InputAck{Offset: end}) // the client may be gone
}

// leaveTime is what a session's host has to take what was typed before its client goes elsewhere.
const leaveTime = time.Second

// wantsTo goes where the client wants to. The session is left for the next one that needs a person only if there is one.
func (l *relay) wantsTo(ctx context.Context, to string) {
	if to != "@next" {
		l.goTo(to)
		return
	}
	l.s.wg.Go(func() {
		name, err := l.find(ctx, to)
		if err == nil {
			l.goTo(name)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.host != nil {
			_ = l.host.Write(wire.Notice{Text: "perdure: " + handoff.Escape(err.Error()), Seconds: noticeSeconds}) // a host that is gone shows where it is read from
		}
	})
}

// goTo leaves the session for another, once its host has what was typed.
func (l *relay) goTo(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leave == nil || l.going != nil {
		return
	}
	l.going = &to
	if l.typed >= l.sent {
		l.leave()
		return
	}
	time.AfterFunc(leaveTime, l.leave)
}

// drawn writes text for people as the client's terminal shows it.
type drawn struct{ c *wire.Conn }

func (d drawn) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), wire.MaxPayload/2)
		if err := d.c.Write(wire.Redraw{Data: rest[:n]}); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// keyReader is the prompt's keys as a stream, for the picker.
type keyReader struct {
	ctx  context.Context
	keys chan chunk
	rest []byte
}

func (k *keyReader) Read(p []byte) (int, error) {
	if len(k.rest) == 0 {
		select {
		case c := <-k.keys:
			c.take()
			k.rest = c.data
		case <-k.ctx.Done():
			return 0, io.EOF
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

// fault tells the client why its relay ends, and gives the status that the exec ends with.
func (l *relay) fault(err error) Exit {
	p := asProblem(err)
	message := p.Error()
	if p.hint != "" {
		message += "\n" + p.hint
	}
	code := p.code
	switch p.status {
	case statusMissing:
		code = "not-found"
	case statusRefused:
		code = "refused"
	}
	_ = l.conn.Write(wire.Fault{Code: code, Message: strings.ToValidUTF8(message, "?")}) // the client may be gone
	return Exit{Status: p.status}
}

// ended is the session that the client resumes, where it is over by now.
func (l *relay) ended(sp *space) (*workspace.Session, error) {
	if l.hello.Session == "" {
		return nil, nil
	}
	if sess := sp.live(); sess != nil && sess.ID == l.hello.Session {
		return nil, nil
	}
	sess, err := l.s.findSession(sp.name, l.hello.Session)
	if err != nil {
		return nil, err
	}
	if sess.State == workspace.Live { // the workspace's folder knows better than the index
		sp.set(sess)
		return nil, nil
	}
	return sess, nil
}
