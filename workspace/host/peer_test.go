package host

import (
	"strings"
	"testing"
	"time"

	"perdure/workspace/wire"
)

// greeted is an attachment of a client that numbers its input.
func (s *session) greeted(h wire.Hello, a wire.Attach) (*client, wire.Attached) {
	s.t.Helper()
	c := s.dial()
	c.write(h)
	c.write(a)
	f, err := c.w.Read()
	at, ok := f.(wire.Attached)
	if err != nil || !ok {
		s.t.Fatalf("got %#v, %v", f, err)
	}
	c.at = at.Offset
	return c, at
}

// What two connections of one client send is taken once, and the newer one ends the older.
func TestInputIsTakenOnceAndTheNewestConnectionWins(t *testing.T) {
	s := start(t, `stty raw -echo; echo ready; head -c 9`)
	old, _ := s.greeted(wire.Hello{Client: "a", Number: 1}, wire.Attach{Resume: true})
	old.until("ready")
	old.write(wire.Input{Offset: 0, Data: []byte("abc")})
	old.write(wire.Input{Offset: 1, Data: []byte("bcd")})
	old.write(wire.Input{Offset: 7, Data: []byte("beyond what came")})
	for acked := uint64(0); acked < 4; {
		f, err := old.next()
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := f.(wire.InputAck); ok {
			acked = a.Offset
		}
	}
	c, at := s.greeted(wire.Hello{Client: "a", Number: 2}, wire.Attach{Resume: true})
	if at.InputOffset != 4 {
		t.Errorf("the host has input up to %d", at.InputOffset)
	}
	for { // the older is told, and ended
		f, err := old.next()
		if err != nil {
			break
		}
		if fault, ok := f.(wire.Fault); ok && fault.Code != "fenced" {
			t.Errorf("got %#v", fault)
		}
	}
	late := s.dial()
	late.write(wire.Hello{Client: "a", Number: 1})
	if f, err := late.w.Read(); err != nil || f != wire.Frame(fenced) {
		t.Errorf("an older connection got %#v, %v", f, err)
	}
	c.write(wire.Input{Offset: 2, Data: []byte("cdefghi")})
	c.drain()
	s.end()
	if got := string(s.journal()); !strings.Contains(got, "abcdefghi") {
		t.Errorf("the program read %q", got)
	}
}

// A client is told of a password's terminal, and when its input was echoed.
func TestAClientHearsOfEchoAndOfPasswords(t *testing.T) {
	s := start(t, `echo ready; read a; stty -echo; echo secret; read b`)
	c, _ := s.greeted(wire.Hello{Client: "a", Number: 1}, wire.Attach{Resume: true})
	c.write(wire.Input{Offset: 0, Data: []byte("x\r")})
	var modes []wire.Tty
	echoed := uint64(0)
	for len(modes) < 2 || echoed < 2 {
		f, err := c.next()
		if err != nil {
			t.Fatalf("%v after %v, %d", err, modes, echoed)
		}
		switch f := f.(type) {
		case wire.Tty:
			modes = append(modes, f)
		case wire.EchoAck:
			echoed = f.Offset
		}
	}
	if modes[0] != (wire.Tty{Echo: true, Canonical: true}) || modes[1] != (wire.Tty{Canonical: true}) {
		t.Errorf("modes %v", modes)
	}
	c.write(wire.Input{Offset: 2, Data: []byte("y\r")})
	c.drain()
	s.end()
}

// The window grows on a link that answers at once, and shrinks on one where answers queue.
func TestTheWindowFollowsTheLink(t *testing.T) {
	now := time.Unix(1, 0)
	f := flow{window: firstWindow}
	at := uint64(0)
	round := func(took time.Duration) {
		start := at
		for f.room(at) > 0 {
			at += f.room(at)
			f.sent(at, now)
		}
		f.room(at)
		now = now.Add(took)
		f.ack(at, at, now)
		if f.acked != at || at == start {
			t.Fatalf("acked %d of %d", f.acked, at)
		}
	}
	for range 20 {
		round(10 * time.Millisecond)
	}
	if f.window != maxWindow {
		t.Errorf("the window is %d on a fast link", f.window)
	}
	for range 20 {
		round(2 * time.Second)
	}
	if f.window > 4*minWindow {
		t.Errorf("the window is %d on a link where answers take two seconds", f.window)
	}
}

// Output is skipped for a client that is far behind for five seconds, or that interrupts a flood, and never otherwise.
func TestOutputIsSkippedOnlyWhenItIsLate(t *testing.T) {
	now := time.Unix(1, 0)
	f := flow{window: minWindow, last: time.Second}
	const skip = 8 << 20
	if yes, _ := f.late(skip+1, 0, now.Add(time.Hour)); yes {
		t.Error("skipped for a client that wants all")
	}
	if yes, wait := f.late(skip+1, skip, now); yes || wait != behindTime {
		t.Errorf("%v, %v", yes, wait)
	}
	if yes, _ := f.late(skip, skip, now.Add(2*time.Second)); yes || !f.behind.IsZero() {
		t.Error("it caught up in between")
	}
	_, _ = f.late(skip+1, skip, now)
	if yes, _ := f.late(skip+1, skip, now.Add(behindTime)); !yes {
		t.Error("not skipped after five seconds")
	}
	f.attempt = now
	if yes, wait := f.late(1<<20, skip, now); yes || wait <= 0 {
		t.Error("a program gets a moment to end")
	}
	if yes, _ := f.late(1<<20, skip, now.Add(interruptTime)); !yes {
		t.Error("an interrupt isn't felt")
	}
}
