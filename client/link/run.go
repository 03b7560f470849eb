package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"perdure/workspace/wire"
)

// state is all of a link that changes.
type state struct {
	workspace string
	session   string
	attach    wire.Attach
	in        input
	at        uint64 // offset of the next output byte
	known     bool   // at is one of session's
	whole     bool   // the screen shows what at says; not so within a redraw
	ackDue    time.Time
	acked     uint64
	resized   bool
	going     *string
	failed    error // of a call of the handler's in a post

	cur      *conn
	tries    []*conn // being made
	number   uint64
	up       bool      // Up was called
	down     bool      // the connection in force is out of time, or there is none
	downAt   time.Time // when that was noticed, for the pace of attempts
	next     time.Time // of the next attempt
	dialTime time.Duration
	problem  string
	heard    time.Time // when anything was heard
	redials  int
	since    time.Time
	rtt      estimate
	told     State

	wall time.Time // of the last look at the clocks
	mono time.Time
}

// errEnded ends the loop with the session.
var errEnded = errors.New("ended")

// Run keeps the conversation going until the session ends, the link fails for good, or ctx ends.
func (l *Link) Run(ctx context.Context) (Result, error) {
	var conns sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer conns.Wait()
	defer close(l.ended)
	defer cancel()
	routes := l.o.Routes
	if routes == nil {
		routes = watchRoutes
	}
	changed := routes(ctx)
	r := &runner{Link: l, ctx: ctx, conns: &conns}
	now := time.Now()
	l.state.wall, l.state.mono, l.state.heard = now.Round(0), now, now
	r.dial(now, true, true)
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return r.result, ctx.Err()
		case fn := <-l.posts:
			fn()
			err, l.state.failed = l.state.failed, nil
		case in := <-l.frames:
			err = r.take(in)
		case <-changed:
			r.shaken(time.Now())
		case <-timer.C:
		}
		if err == nil {
			err = r.work(time.Now())
		}
		if errors.Is(err, errEnded) {
			r.result.Undelivered = l.state.in.end() - l.state.in.base
			return r.result, nil
		}
		if err != nil {
			return r.result, err
		}
		timer.Reset(r.pause(time.Now()))
	}
}

// runner is a link at work.
type runner struct {
	*Link
	ctx    context.Context
	conns  *sync.WaitGroup
	result Result
}

// take handles what a connection told.
func (r *runner) take(in incoming) error {
	s := &r.state
	now := time.Now()
	if in.err != nil {
		return r.over(in.c, in.err, now)
	}
	if fault, ok := in.f.(wire.Fault); ok && fault.Code == "fenced" {
		in.c.cancel() // a newer connection of ours is in force, or is about to be
		return nil
	}
	if in.c != s.cur {
		if !r.making(in.c) {
			return nil // it was replaced: whatever it says came by another way
		}
		if err := r.adopt(in.c, now); err != nil {
			return err
		}
	}
	in.c.heard, s.heard = now, now
	return r.frame(in.c, in.f, now)
}

func (r *runner) making(c *conn) bool {
	for _, t := range r.state.tries {
		if t == c {
			return true
		}
	}
	return false
}

// adopt puts a connection that speaks in force, and ends all others.
func (r *runner) adopt(c *conn, now time.Time) error {
	s := &r.state
	if s.cur != nil {
		s.cur.cancel()
	}
	for _, t := range s.tries {
		if t != c {
			t.cancel()
		}
	}
	s.tries, s.cur, s.problem = nil, c, ""
	c.speaks, c.heard = true, now
	s.dialTime = now.Sub(c.started)
	s.since = now
	s.in.sent = max(s.in.base, c.taken)
	s.resized = true // the window may have changed since Attach was written
	r.ping(c, now)   // how far is it?
	if !s.up {
		s.up = true
		return r.o.Handler.Up()
	}
	s.redials++
	return nil
}

// over notes that a connection has ended.
func (r *runner) over(c *conn, err error, now time.Time) error {
	s := &r.state
	c.cancel()
	var final *FinalError
	switch {
	case c == s.cur:
		s.cur = nil
	case r.making(c):
		r.drop(c)
	default:
		return nil // it was replaced
	}
	if errors.As(err, &final) || c.first && !s.up {
		return err
	}
	s.problem = firstLine(err.Error())
	if c.speaks {
		s.next = now // the first attempt starts at once
	}
	return nil
}

func (r *runner) drop(c *conn) {
	var rest []*conn
	for _, t := range r.state.tries {
		if t != c {
			rest = append(rest, t)
		}
	}
	r.state.tries = rest
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// frame handles a frame of the connection in force.
func (r *runner) frame(c *conn, f wire.Frame, now time.Time) error {
	s, h := &r.state, r.o.Handler
	switch f := f.(type) {
	case wire.Ping:
		c.send(wire.Pong(f))
	case wire.Pong:
		if c.waiting && f.N == c.ping {
			c.waiting, c.fast = false, false
			if took := now.Sub(c.pinged); took < s.rtt.dead(false) { // else it was away, not slow
				s.rtt.sample(took)
			}
		}
	case wire.Session:
		fresh := f.ID != s.session
		s.session, s.workspace, s.known = f.ID, f.Workspace, s.known && !fresh
		c.redraws = fresh || c.joined || !c.resumes
		c.joined = true
		return h.Session(f.ID, f.Workspace, fresh)
	case wire.Attached:
		return r.attached(c, f)
	case wire.Redraw:
		return h.Redraw(f.Data)
	case wire.Output:
		return r.output(f, now)
	case wire.Skipped:
		s.whole = !r.o.Terminal
		return h.Skipped(f.Bytes)
	case wire.InputAck:
		s.in.acked(f.Offset)
		c.typed = time.Time{}
		if s.in.sent > s.in.base {
			c.typed = now
		}
	case wire.Tty:
		return h.Tty(f)
	case wire.EchoAck:
		return h.Echoed(f.Offset)
	case wire.Exited:
		r.result.Code, r.result.Signal = int(f.Code), f.Signal
		return errEnded
	case wire.Fault:
		return fault(f)
	}
	return nil
}

// attached takes in where the session is.
func (r *runner) attached(c *conn, f wire.Attached) error {
	s := &r.state
	s.in.rewind(f.InputOffset)
	gap := s.known && f.Gap > 0
	if r.o.Terminal && (c.redraws || gap) {
		s.whole = false // until the redraw is here
	}
	s.at, s.acked, s.known = f.Offset, f.Offset, true
	if gap {
		return r.o.Handler.Skipped(f.Gap)
	}
	return nil
}

// output takes in what is new of a piece of output.
func (r *runner) output(f wire.Output, now time.Time) error {
	s := &r.state
	data := f.Data
	if f.Offset < s.at {
		known := min(s.at-f.Offset, uint64(len(data)))
		data = data[known:]
	} else {
		s.at = f.Offset // what is missing was told as skipped
	}
	s.whole = true
	if len(data) == 0 && s.at <= s.acked {
		return nil
	}
	if err := r.o.Handler.Output(data); err != nil {
		return err
	}
	s.at += uint64(len(data))
	if s.at-s.acked >= ackBytes {
		r.ackNow()
	} else if s.ackDue.IsZero() {
		s.ackDue = now.Add(ackDelay)
	}
	return nil
}

const (
	// ackBytes and ackDelay bound how late output is acknowledged.
	ackBytes = 8 << 10
	ackDelay = 40 * time.Millisecond
)

func (r *runner) ackNow() {
	s := &r.state
	if s.cur != nil && s.cur.send(wire.OutputAck{Offset: s.at}) {
		s.acked, s.ackDue = s.at, time.Time{}
	}
}

// fault is a relay's last word.
func fault(f wire.Fault) error {
	status := 1
	switch f.Code {
	case "usage":
		status = 2
	case "not-found":
		status = 3
	case "refused":
		status = 4
	}
	message, hint, _ := strings.Cut(f.Message, "\n")
	return &FinalError{Status: status, Err: fmt.Errorf("%s", message), Hint: hint}
}
