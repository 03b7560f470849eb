package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"
)

// blocked is a core that answers when its client goes, or when it is let go.
type blocked struct {
	started chan *Request
	free    chan struct{}
	ended   chan error
}

func newBlocked() *blocked {
	return &blocked{started: make(chan *Request, 128), free: make(chan struct{}), ended: make(chan error, 128)}
}

func (b *blocked) handle(ctx context.Context, r *Request) Exit {
	b.started <- r
	select {
	case <-ctx.Done():
	case <-b.free:
	}
	b.ended <- ctx.Err()
	return Exit{}
}

// enterWithKey opens a door with a key of its own and enters.
func enterWithKey(t *testing.T, c core, change func(*doorOptions)) (*testDoor, *gossh.Client, testKey) {
	t.Helper()
	d := openDoor(t, c, change)
	key := newTestKey(t)
	d.authorize(key.line(""))
	return d, d.enter("w", key), key
}

func openSession(t *testing.T, c *gossh.Client) gossh.Channel {
	t.Helper()
	ch, reqs, err := c.OpenChannel("session", nil)
	check(t, err)
	go gossh.DiscardRequests(reqs)
	return ch
}

// Attack 6: the caps hold, and cost nothing.
func TestCapsOfChannelsAndEnv(t *testing.T) {
	b := newBlocked()
	_, c, _ := enterWithKey(t, b, nil)
	first := openSession(t, c)
	accepted := 0
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 100_000 {
		if ok, err := first.SendRequest("env", true, gossh.Marshal(&struct{ N, V string }{"LC_" + strings.Repeat("X", 20), strings.Repeat("v", 40)})); err != nil {
			t.Fatal(err)
		} else if ok {
			accepted++
		}
	}
	opened := 1
	for range 1000 {
		ch, reqs, err := c.OpenChannel("session", nil)
		if err != nil {
			continue
		}
		opened++
		go gossh.DiscardRequests(reqs)
		defer ch.Close()
	}
	if opened != maxChannels {
		t.Errorf("%d channels, want %d", opened, maxChannels)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("%d bytes more", grown)
	}
	first.Close()
}

func TestEnvIsFiltered(t *testing.T) {
	b := newBlocked()
	d, c, _ := enterWithKey(t, b, nil)
	try := func(ch gossh.Channel, name, value string) bool {
		ok, err := ch.SendRequest("env", true, gossh.Marshal(&struct{ N, V string }{name, value}))
		check(t, err)
		return ok
	}
	ch := openSession(t, c)
	for name, want := range map[string]bool{"LANG": true, "LC_ALL": true, "COLORTERM": true, "LD_PRELOAD": false, "PERDURE_SESSION": false, "LC_a=b": false, "": false} {
		if try(ch, name, "x") != want {
			t.Errorf("%s: want %v", name, want)
		}
	}
	if try(ch, "LC_NUL", "a\x00b") {
		t.Error("a NUL passed")
	}
	n := 3
	for i := range 100 {
		if try(ch, "LC_"+string(rune('A'+i/26))+string(rune('A'+i%26)), "") {
			n++
		}
	}
	if n != maxEnvVars {
		t.Errorf("%d variables, want %d", n, maxEnvVars)
	}
	conn, err := net.Dial("unix", d.socket)
	check(t, err)
	sc, chans, reqs, err := gossh.NewClientConn(conn, d.socket, d.config("w"))
	check(t, err)
	local := gossh.NewClient(sc, chans, reqs)
	defer local.Close()
	if !try(openSession(t, local), "PERDURE_SESSION", "x") {
		t.Error("PERDURE_SESSION is refused on the local socket")
	}
	if try(openSession(t, local), "LC_BIG", strings.Repeat("x", maxEnvBytes)) {
		t.Error("more bytes than allowed")
	}
}

func ptyPayload(term string, cols, rows uint32) []byte {
	return gossh.Marshal(&struct {
		Term             string
		Cols, Rows, X, Y uint32
		Modes            string
	}{term, cols, rows, 0, 0, "\x00"})
}

// Attack 7: what nobody reads holds up nothing, and the newest size wins.
func TestUnreadSizesAndSignalsBlockNothing(t *testing.T) {
	b := newBlocked()
	_, c, _ := enterWithKey(t, b, nil)
	ch := openSession(t, c)
	ok, err := ch.SendRequest("pty-req", true, ptyPayload("xterm", 80, 24))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	ok, err = ch.SendRequest("shell", true, nil)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	r := <-b.started
	for i := range uint32(10_000) {
		_, err = ch.SendRequest("window-change", false, gossh.Marshal(&struct{ C, R, X, Y uint32 }{100 + i%100, 50, 0, 0}))
		check(t, err)
		_, err = ch.SendRequest("signal", false, gossh.Marshal(&struct{ S string }{"INT"}))
		check(t, err)
	}
	asked := time.Now()
	_, _, err = c.SendRequest("keepalive@openssh.com", true, nil)
	check(t, err)
	if took := time.Since(asked); took > time.Second {
		t.Error("keepalive answered after", took)
	}
	// A request that is answered comes after all those before it.
	if ok, err := ch.SendRequest("shell", true, nil); ok || err != nil {
		t.Error("a second request was accepted", err)
	}
	if size := <-r.Resizes; size.Cols != 199 || size.Term != "xterm" {
		t.Errorf("%+v is not the newest", size)
	}
	if n := len(r.Signals); n != maxSignals {
		t.Errorf("%d signals wait", n)
	}
	close(b.free)
}

// Attack 8: lengths that lie are refused, and others' sessions live.
func TestLyingPayloadsAreRefused(t *testing.T) {
	d, c, key := enterWithKey(t, newBlocked(), nil)
	other := d.enter("other", key)
	lie := binary.BigEndian.AppendUint32(nil, 0xFFFFFFFF)
	good := ptyPayload("xterm", 80, 24)
	payloads := [][]byte{nil, {1}, lie, append(lie, good...), append(good[:len(good):len(good)], 1), append(good[:len(good)-5:len(good)-5], lie...), ptyPayload("../x", 80, 24), ptyPayload("x\x1b[2J", 80, 24), ptyPayload(strings.Repeat("x", 65), 80, 24)}
	for i := range good {
		payloads = append(payloads, good[:i])
	}
	for _, kind := range []string{"pty-req", "env", "window-change", "signal", "break", "exec", "subsystem", "x11-req", "auth-agent-req@openssh.com"} {
		ch := openSession(t, c)
		for _, p := range payloads {
			if command, ok := onlyString(p); kind == "exec" && ok && command != "" {
				continue // an honest one
			}
			if kind == agentRequest && len(p) == 0 {
				continue // the same
			}
			if ok, err := ch.SendRequest(kind, true, p); ok || err != nil {
				t.Errorf("%s %x: accepted %v, %v", kind, p, ok, err)
			}
		}
		ch.Close()
	}
	if ok, err := openSession(t, other).SendRequest("shell", true, nil); !ok || err != nil {
		t.Error("another session suffers", err)
	}
}

func TestSizesAreBounded(t *testing.T) {
	for in, want := range map[[2]uint32][2]uint16{{0, 0}: {80, 24}, {1, 1}: {1, 1}, {0xFFFFFFFF, 0xFFFFFFFF}: {maxCols, maxRows}, {65536, 24}: {maxCols, 24}} {
		got, _, ok := takeSize(gossh.Marshal(&struct{ C, R, X, Y uint32 }{in[0], in[1], 0xFFFFFFFF, 0}))
		if !ok || got.Cols != want[0] || got.Rows != want[1] || got.XPixel != 0xffff {
			t.Errorf("%v: %+v", in, got)
		}
	}
}

// FuzzRequests gives one channel every kind of request.
func FuzzRequests(f *testing.F) {
	f.Add("pty-req", ptyPayload("xterm", 80, 24))
	f.Add("env", gossh.Marshal(&struct{ N, V string }{"LANG", "C"}))
	f.Add("signal", []byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, kind string, payload []byte) {
		s := &channel{id: &identity{}, env: map[string]string{}, resizes: make(chan Terminal, 1), signals: make(chan string, 1)}
		req := &gossh.Request{Type: kind, Payload: payload}
		s.starting(req)
		s.configure(req)
		s.running = make(chan struct{})
		s.configure(req)
		s.configure(req)
		if t2 := s.term; t2 != nil && (t2.Cols == 0 || t2.Cols > maxCols || t2.Rows == 0 || t2.Rows > maxRows) {
			t.Errorf("%+v", t2)
		}
	})
}

func TestForwardingAndOtherChannelsAreRefused(t *testing.T) {
	_, c, _ := enterWithKey(t, newBlocked(), nil)
	for _, kind := range []string{"direct-tcpip", "direct-streamlocal@openssh.com", "tun@openssh.com", "x11", ""} {
		if _, _, err := c.OpenChannel(kind, make([]byte, 64)); err == nil {
			t.Error(kind, "was opened")
		}
	}
	for _, kind := range []string{"tcpip-forward", "cancel-tcpip-forward", "streamlocal-forward@openssh.com"} {
		if ok, _, err := c.SendRequest(kind, true, make([]byte, 16)); ok || err != nil {
			t.Error(kind, ok, err)
		}
	}
}

func TestRestrictedKeyGetsNoTerminal(t *testing.T) {
	d := openDoor(t, newBlocked(), nil)
	key := newTestKey(t)
	d.authorize(key.line("restrict"))
	ch := openSession(t, d.enter("w", key))
	if ok, err := ch.SendRequest("pty-req", true, ptyPayload("xterm", 80, 24)); ok || err != nil {
		t.Error(ok, err)
	}
}

// The context of a request ends with its channel, and with its connection.
func TestContextEndsWithChannelAndConnection(t *testing.T) {
	b := newBlocked()
	_, c, _ := enterWithKey(t, b, nil)
	one, two := openSession(t, c), openSession(t, c)
	for _, ch := range []gossh.Channel{one, two} {
		if ok, err := ch.SendRequest("shell", true, nil); !ok || err != nil {
			t.Fatal(ok, err)
		}
		<-b.started
	}
	one.Close()
	if err := <-b.ended; err == nil {
		t.Error("not cancelled with the channel")
	}
	c.Close()
	if err := <-b.ended; err == nil {
		t.Error("not cancelled with the connection")
	}
}

func TestEndOfInputAndOrderOfTheEnd(t *testing.T) {
	_, c, _ := enterWithKey(t, coreFunc(func(_ context.Context, r *Request) Exit {
		_, _ = io.Copy(r.Out, r.In) // ends at the client's EOF
		return Exit{Signal: "SEGV"}
	}), nil)
	ch, reqs, err := c.OpenChannel("session", nil)
	check(t, err)
	if ok, err := ch.SendRequest("exec", true, gossh.Marshal(&struct{ C string }{"x"})); !ok || err != nil {
		t.Fatal(ok, err)
	}
	_, err = ch.Write([]byte("a\nb\r\n"))
	check(t, err)
	check(t, ch.CloseWrite())
	out, err := io.ReadAll(ch)
	if err != nil || !bytes.Equal(out, []byte("a\nb\r\n")) {
		t.Errorf("%q %v", out, err)
	}
	var kinds []string
	for req := range reqs {
		kinds = append(kinds, req.Type)
		if name, _, ok := takeString(req.Payload); req.Type == "exit-signal" && (!ok || name != "SEGV") {
			t.Error(name)
		}
	}
	if len(kinds) != 1 || kinds[0] != "exit-signal" {
		t.Error(kinds)
	}
}

func TestPanicInOneRequestEndsOnlyThat(t *testing.T) {
	d := openDoor(t, coreFunc(func(_ context.Context, r *Request) Exit {
		if r.Command == "bad" {
			var none *Request
			_ = none.User
		}
		return Exit{}
	}), nil)
	key := newTestKey(t)
	d.authorize(key.line(""))
	c := d.enter("w", key)
	if _, err := run(t, c, "bad"); err == nil {
		t.Error("status 0 of a panic")
	}
	if _, err := run(t, c, "good"); err != nil {
		t.Error(err)
	}
	d.log.expect(t, "panic")
}

// expect takes the log's text away once it holds what it should.
func (b *syncBuffer) expect(t *testing.T, text string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !strings.Contains(b.buf.String(), text) {
		t.Errorf("no %q in the log: %s", text, &b.buf)
	}
	b.buf.Reset()
}

// Attack 4, in the small: silent connections end at the grace time, and never keep another out.
func TestSilentConnectionsAreClosedAndShutOutNobody(t *testing.T) {
	d := openDoor(t, whoCore, func(o *doorOptions) {
		o.Startups, o.Grace, o.Forwarding = Startups{8, 100, 8}, Duration(500*time.Millisecond), true
	})
	key := newTestKey(t)
	d.authorize(key.line(""))
	var silent []net.Conn
	for range 40 {
		c, err := net.Dial("tcp", d.addr)
		check(t, err)
		defer c.Close()
		silent = append(silent, c)
	}
	d.enter("w", key)
	var wg sync.WaitGroup
	for _, c := range silent {
		wg.Go(func() {
			must(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
			if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Error("a silent connection lives")
			}
		})
	}
	wg.Wait()
}

// A peer that is gone without a word is detached.
func TestDeadPeerIsDetached(t *testing.T) {
	b := newBlocked()
	d := openDoor(t, b, func(o *doorOptions) {
		o.Keepalive, o.Dead = Duration(50*time.Millisecond), Duration(150*time.Millisecond)
	})
	key := newTestKey(t)
	d.authorize(key.line(""))
	raw, err := net.Dial("tcp", d.addr)
	check(t, err)
	defer raw.Close()
	stall := &stallingConn{Conn: raw, stalled: make(chan struct{})}
	sc, chans, reqs, err := gossh.NewClientConn(stall, d.addr, d.config("w", gossh.PublicKeys(key)))
	check(t, err)
	c := gossh.NewClient(sc, chans, reqs)
	ch := openSession(t, c)
	if ok, err := ch.SendRequest("shell", true, nil); !ok || err != nil {
		t.Fatal(ok, err)
	}
	<-b.started
	close(stall.stalled)
	select {
	case err := <-b.ended:
		if err == nil {
			t.Error("ended without being cancelled")
		}
	case <-time.After(10 * time.Second):
		t.Error("a dead peer stays attached")
	}
	c.Close()
}

// stallingConn is a connection whose writes vanish once it has stalled: to the server, a peer without power.
type stallingConn struct {
	net.Conn
	stalled chan struct{}
}

func (c *stallingConn) Write(p []byte) (int, error) {
	select {
	case <-c.stalled:
		return len(p), nil
	default:
		return c.Conn.Write(p)
	}
}

// A live peer that has nothing to say answers the keepalives, and stays for longer than a dead one would.
func TestQuietPeerStays(t *testing.T) {
	d := openDoor(t, whoCore, func(o *doorOptions) {
		o.Keepalive, o.Dead = Duration(50*time.Millisecond), Duration(500*time.Millisecond)
	})
	key := newTestKey(t)
	d.authorize(key.line(""))
	raw, err := net.Dial("tcp", d.addr)
	check(t, err)
	sc, chans, reqs, err := gossh.NewClientConn(raw, d.addr, d.config("w", gossh.PublicKeys(key)))
	check(t, err)
	defer sc.Close()
	go func() {
		for ch := range chans {
			_ = ch.Reject(gossh.Prohibited, "")
		}
	}()
	for range 15 {
		req, ok := <-reqs
		if !ok || req.Type != "keepalive@openssh.com" || !req.WantReply {
			t.Fatal("no keepalive", d.log)
		}
		check(t, req.Reply(false, nil))
	}
}
