package link

import (
	"context"
	"math/rand/v2"
	"time"

	"perdure/workspace/wire"
)

const (
	// tick is the longest time between two looks at the clocks.
	tick = time.Second
	// probeEvery is how often an idle connection is asked for a sign of life.
	probeEvery = 3 * time.Second
	// jump is how far the clocks may disagree, or a tick be late, before the machine counts as having slept.
	jump = 2 * time.Second
	// firstMinute is the time of quick attempts.
	firstMinute = time.Minute
	// slowest is the longest pause between attempts after that.
	slowest = 30 * time.Second
	// patience is what the one of two attempts that may be slow gets; the other is renewed each second or so, since
	// what was sent into the void is sent again ever later.
	patience = 15 * time.Second
)

// estimate is a smoothed round trip (RFC 6298).
type estimate struct{ smooth, vary time.Duration }

func (e *estimate) sample(rtt time.Duration) {
	if e.smooth == 0 {
		e.smooth, e.vary = rtt, rtt/2
		return
	}
	e.vary += (abs(e.smooth-rtt) - e.vary) / 4
	e.smooth += (rtt - e.smooth) / 8
}

func abs(d time.Duration) time.Duration {
	if d < 0 {
		return -d
	}
	return d
}

// late is after how long an answer is late, dead after how long a new connection is made. Both grow with a slow link.
func (e *estimate) late() time.Duration { return max(time.Second, e.smooth+4*e.vary) }

func (e *estimate) dead(fast bool) time.Duration {
	if fast {
		return max(600*time.Millisecond, e.smooth+4*e.vary+200*time.Millisecond)
	}
	return min(6*time.Second, max(2500*time.Millisecond, 2*e.smooth+4*e.vary))
}

// work does what is due.
func (r *runner) work(now time.Time) error {
	s := &r.state
	r.lookAtClocks(now)
	if s.cur != nil {
		r.flush(now)
		r.probe(now)
	}
	r.redial(now)
	return r.say(now)
}

// lookAtClocks finds out that the machine slept: its monotonic clock stands still meanwhile, or the process did.
func (r *runner) lookAtClocks(now time.Time) {
	s := &r.state
	wall, mono := now.Round(0).Sub(s.wall), now.Sub(s.mono)
	if abs(wall-mono) > jump || mono > tick+jump {
		r.shaken(now)
	}
	s.wall, s.mono = now.Round(0), now
}

// shaken is called when something happened to the network or the machine: the connection must answer at once, and
// attempts start anew.
func (r *runner) shaken(now time.Time) {
	s := &r.state
	if c := s.cur; c != nil && s.up {
		c.fast = true
		if !c.waiting || now.Sub(c.pinged) > 200*time.Millisecond {
			r.ping(c, now)
		}
	}
	s.downAt, s.next = now, now
}

func (r *runner) ping(c *conn, now time.Time) {
	if c.send(wire.Ping{N: c.ping + 1}) {
		c.ping++
		c.pinged, c.waiting = now, true
	}
}

// flush sends what waits to be sent.
func (r *runner) flush(now time.Time) {
	s, c := &r.state, r.state.cur
	if s.resized && c.send(wire.Resize{Cols: s.attach.Cols, Rows: s.attach.Rows, XPixel: s.attach.XPixel, YPixel: s.attach.YPixel}) {
		s.resized = false
	}
	for {
		f, ok := s.in.next()
		if !ok || !c.send(f) {
			break
		}
		s.in.sent = f.Offset + uint64(len(f.Data))
		if c.typed.IsZero() {
			c.typed = now
		}
	}
	if s.going != nil && s.in.sent == s.in.end() && c.send(wire.Go{To: *s.going}) {
		s.going = nil
	}
	if !s.ackDue.IsZero() && !now.Before(s.ackDue) {
		r.ackNow()
	}
}

// probe asks an idle connection for a sign of life, and one that owes an answer again each second.
func (r *runner) probe(now time.Time) {
	c := r.state.cur
	since := now.Sub(c.pinged)
	switch {
	case !c.waiting && since >= probeEvery && now.Sub(c.heard) >= probeEvery-tick/2:
		r.ping(c, now)
	case !c.waiting && !c.typed.IsZero() && now.Sub(c.typed) > r.state.rtt.late():
		r.ping(c, now)
	}
}

// silence is for how long an answer is due.
func (c *conn) silence(now time.Time) time.Duration {
	due := time.Time{}
	if c.waiting {
		due = c.pinged
	}
	if !c.typed.IsZero() && (due.IsZero() || c.typed.Before(due)) {
		due = c.typed
	}
	if due.IsZero() {
		return 0
	}
	if c.heard.After(due) {
		due = c.heard // it lives, and the answer queues behind much else
	}
	return now.Sub(due)
}

// redial makes new connections while the one in force is out of time.
func (r *runner) redial(now time.Time) {
	s := &r.state
	if !s.up {
		return // the first is made in front of the person, who can interrupt it
	}
	c := s.cur
	if c != nil && c.silence(now) < s.rtt.dead(c.fast) {
		s.down = false
		for _, t := range s.tries { // the old one is back
			t.cancel()
		}
		s.tries = nil
		return
	}
	if !s.down {
		s.down, s.downAt = true, now
		s.next = now
	}
	if now.Before(s.next) {
		return
	}
	quick := now.Sub(s.downAt) < firstMinute
	if quick && len(s.tries) >= 2 || !quick && len(s.tries) >= 1 {
		r.giveUpOne(now)
	}
	r.dial(now, false, !r.anyPatient())
	if quick {
		s.next = now.Add(max(time.Second, min(2*s.dialTime, 5*time.Second)))
		return
	}
	pause := min(slowest, now.Sub(s.downAt)/8)
	s.next = now.Add(pause/2 + rand.N(pause))
}

func (r *runner) anyPatient() bool {
	for _, t := range r.state.tries {
		if t.patient {
			return true
		}
	}
	return false
}

// giveUpOne ends the attempt that had its time: the patient one after long, else the other.
func (r *runner) giveUpOne(now time.Time) {
	for _, t := range r.state.tries {
		if !t.patient || now.Sub(t.started) > patience || len(r.state.tries) == 1 {
			t.cancel()
			r.drop(t)
			return
		}
	}
}

// dial starts an attempt.
func (r *runner) dial(now time.Time, first, patient bool) {
	s := &r.state
	s.number++
	ctx, cancel := context.WithCancel(r.ctx)
	c := &conn{number: s.number, first: first, patient: patient, started: now, cancel: cancel, out: make(chan wire.Frame, outFrames), taken: s.in.base}
	hello := wire.Hello{Client: r.id, Number: c.number, Input: s.in.base, Terminal: r.o.Terminal, Skip: r.o.Skip}
	attach := s.attach
	attach.Resume, attach.From, attach.History = !r.o.Terminal, 0, historyLines
	if s.known {
		hello.Session, attach.From, attach.Resume = s.session, s.at, s.whole
		attach.History = 0
	}
	c.resumes = attach.Resume
	s.tries = append(s.tries, c)
	workspace := s.workspace
	r.conns.Go(func() { r.run(ctx, c, workspace, hello, attach) })
}

// report is the state as it is told.
func (s *state) report(now time.Time) State {
	t := State{Up: s.cur != nil && !s.down, Trying: len(s.tries) > 0, Problem: s.problem, Pending: s.in.end() - s.in.base, RTT: s.rtt.smooth, Redials: s.redials, Since: s.since}
	if c := s.cur; c != nil && t.Up && c.silence(now) > s.rtt.late() {
		t.Up = false
	}
	if !t.Up {
		t.Silence = now.Sub(s.heard)
	}
	return t
}

// say tells the handler where the state has changed, and each second while the link is down.
func (r *runner) say(now time.Time) error {
	s := &r.state
	if !s.up {
		return nil
	}
	t := s.report(now)
	same := t.Up == s.told.Up && (t.Up || t.Silence-s.told.Silence < tick/2 && t.Pending == s.told.Pending && t.Trying == s.told.Trying)
	if same {
		return r.o.Handler.Tick()
	}
	s.told = t
	return r.o.Handler.Link(t)
}

// pause is how long nothing need be done unless something happens.
func (r *runner) pause(now time.Time) time.Duration {
	s := &r.state
	wait := tick
	sooner := func(at time.Time) {
		if d := at.Sub(now); d < wait {
			wait = max(d, time.Millisecond)
		}
	}
	if !s.ackDue.IsZero() {
		sooner(s.ackDue)
	}
	if c := s.cur; c != nil {
		if c.waiting {
			sooner(c.pinged.Add(s.rtt.dead(c.fast)))
		}
		if !c.waiting {
			sooner(c.pinged.Add(probeEvery))
		}
		if !c.typed.IsZero() {
			sooner(c.typed.Add(s.rtt.late()))
			sooner(c.typed.Add(s.rtt.dead(c.fast)))
		}
	}
	if s.down {
		sooner(s.next)
		wait = min(wait, tick/2)
	}
	return max(wait, 5*time.Millisecond)
}
