package server

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"perdure/handoff"
)

// What ctrl-C and ctrl-D send in a raw terminal.
const (
	ctrlC = 3
	ctrlD = 4
)

// awaitTick is how often a progress line is drawn.
const awaitTick = 200 * time.Millisecond

// progressScreen is what a terminal shows while the server works on what comes before a session.
type progressScreen struct {
	a          *attachment
	v          *verification
	doing      string
	began      time.Time
	drawn      time.Time // zero before the keys were shown
	maybe      *chunk    // one key, which is meant for this screen if nothing follows it
	maybeAlone <-chan time.Time
}

// await shows the progress of work under way until it ends. The person may leave it in the background (b, q) or look at
// the last screen (l), and neither cancels it: stay is false where they left. A key is meant for this screen only where
// it is typed after the screen was drawn, at the start of a line and alone; everything else waits for the session.
func (a *attachment) await(ctx context.Context, v *verification, doing, noun string) (stay bool, err error) {
	s := &progressScreen{a: a, v: v, doing: doing, began: time.Now()}
	tick := time.NewTicker(awaitTick)
	defer tick.Stop()
	typed, resizes := a.keys.c, a.r.Resizes
	for {
		if a.keys.full() {
			typed = nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-v.done:
			s.settle()
			s.clear()
			return true, nil
		case c, ok := <-typed:
			if !ok {
				typed = nil
				continue
			}
			s.key(c)
		case t, ok := <-resizes:
			if !ok {
				resizes = nil
				continue
			}
			a.r.Term = &t
		case <-s.maybeAlone:
			if s.act() {
				s.farewell(noun)
				return false, nil
			}
		case <-tick.C:
			s.draw()
		}
	}
}

// key keeps what was typed for the session, unless it may be meant for this screen.
func (s *progressScreen) key(c chunk) {
	k := s.a.keys
	free := s.maybe == nil && !s.drawn.IsZero() && c.at.After(s.drawn) && k.lineStart()
	s.settle()
	if !free || len(c.data) != 1 || bytes.IndexByte([]byte{'b', 'q', ctrlC, ctrlD, 'l'}, c.data[0]) < 0 || c.data[0] == 'l' && len(k.held) > 0 {
		k.hold(c)
		return
	}
	s.maybe, s.maybeAlone = &c, time.After(aloneFor)
}

// settle gives a key to the session that something followed.
func (s *progressScreen) settle() {
	if s.maybe != nil {
		s.a.keys.hold(*s.maybe)
	}
	s.maybe, s.maybeAlone = nil, nil
}

// act does what a key asks that was typed alone, and says whether the person leaves.
func (s *progressScreen) act() (leaves bool) {
	c := *s.maybe
	s.maybe, s.maybeAlone = nil, nil
	if c.take != nil {
		c.take()
	}
	s.clear()
	if c.data[0] != 'l' {
		return true
	}
	s.a.showLast(crlf{s.a.r.Out})
	s.drawn = time.Time{}
	s.draw()
	return false
}

func (s *progressScreen) farewell(noun string) {
	out := crlf{s.a.r.Out}
	fmt.Fprintf(out, "perdure: the %s of %s goes on; attach again to see how it ended\n", noun, s.a.d.Name)
	if n := s.a.keys.drop(); n > 0 {
		fmt.Fprintf(out, "perdure: %d bytes that were typed for the session are dropped\n", n)
	}
}

func (s *progressScreen) clear() {
	if !s.drawn.IsZero() {
		fmt.Fprint(s.a.r.Out, "\r\x1b[K")
	}
}

// draw shows the keys once, and under them how far the work is.
func (s *progressScreen) draw() {
	out := s.a.r.Out
	if s.drawn.IsZero() {
		s.drawn = time.Now() // before the write: who answers has seen it
		fmt.Fprintf(out, "\r\x1b[Kperdure: %s %s  [b] background  [l] last screen  [q] leave\r\n", s.doing, s.a.d.Name)
	}
	p := s.v.latest()
	line := fmt.Sprintf("  %s  %s  %d tests  %s", time.Since(s.began).Round(100*time.Millisecond), handoff.Escape(p.Label), p.Tests, handoff.Escape(p.Tail))
	if n := len(s.a.keys.held); n > 0 {
		line = fmt.Sprintf("  %d bytes typed wait for the session%s", n, line)
	}
	fmt.Fprint(out, "\r\x1b[K"+clip(line, int(s.a.r.Term.Cols)-1))
}

// clip cuts a line to a width in columns; progress lines are plain text, where a rune is a column at the least.
func clip(line string, cols int) string {
	r := []rune(line)
	if cols > 0 && len(r) > cols {
		return string(r[:cols])
	}
	return line
}
