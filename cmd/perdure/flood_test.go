package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"
)

// flooders are clients that mean no good: each has a connection for as long as it likes.
var flooders = map[string]func(ctx context.Context, c net.Conn, rnd *rand.Rand){
	"half-open": func(ctx context.Context, _ net.Conn, _ *rand.Rand) { <-ctx.Done() },
	"slow": func(ctx context.Context, c net.Conn, _ *rand.Rand) {
		for _, b := range []byte("SSH-2.0-slow as can be, one byte at a time, and never a line's end") {
			if _, err := c.Write([]byte{b}); err != nil || ctx.Err() != nil {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	},
	"garbage": func(_ context.Context, c net.Conn, rnd *rand.Rand) {
		junk := make([]byte, 1+rnd.IntN(64<<10))
		for i := range junk {
			junk[i] = byte(rnd.Uint32())
		}
		_, _ = c.Write(junk)
	},
	"a banner, then a lying packet": func(_ context.Context, c net.Conn, _ *rand.Rand) {
		_, _ = c.Write([]byte("SSH-2.0-x\r\n\xff\xff\xff\xff\x00\x14"))
		_, _ = c.Read(make([]byte, 4096))
	},
	"hangs up at once": func(context.Context, net.Conn, *rand.Rand) {},
}

// Half-open, slow and garbage connections by the hundred, and a real user throughout, who notices nothing; the server
// grows no more than such connections may cost. PERDURE_FLOOD is how often the user comes meanwhile.
func TestAUserNoticesNothingOfAFlood(t *testing.T) {
	rounds := 10
	if n, err := strconv.Atoi(os.Getenv("PERDURE_FLOOD")); err == nil && n > 0 {
		rounds = n
	}
	b := newBox(t)
	b.want(0, "new", "app", "--", "cat")
	ctx, cancel := context.WithCancel(context.Background())
	var flood sync.WaitGroup
	n := 0
	for _, act := range flooders {
		for range 40 {
			n++
			number := n
			from := &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n%8+1))}
			flood.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(number), 1))
				d := net.Dialer{LocalAddr: from}
				for ctx.Err() == nil {
					c, err := d.DialContext(ctx, "tcp", "127.0.0.1:"+b.port)
					if err != nil {
						continue
					}
					gone := context.AfterFunc(ctx, func() { c.Close() })
					short, stop := context.WithTimeout(ctx, 2*time.Second)
					act(short, c, rnd)
					stop()
					gone()
					c.Close()
				}
			})
		}
	}
	x := b.attach() // a session that goes on all the while
	half := 0       // the server's memory once it has what so many connections cost
	for i := range rounds {
		out, err := b.ssh(context.Background(), "app@127.0.0.1", fmt.Sprintf("echo round %d", i)).CombinedOutput()
		if err != nil || string(out) != fmt.Sprintf("round %d\n", i) {
			t.Errorf("round %d: %v\n%s", i, err, out)
		}
		x.send(fmt.Sprintf("typed-%d\r", i))
		x.expect(fmt.Sprintf("typed-%d\r\n", i))
		if i == rounds/2 {
			half = resident(t, b.server.Process.Pid)
		}
	}
	after := resident(t, b.server.Process.Pid)
	cancel()
	flood.Wait()
	x.kill()
	if after > half+half/2 {
		t.Errorf("in the second half the server grew from %d to %d KiB", half, after)
	}
}

// resident is a process's memory in KiB (proc(5), VmRSS).
func resident(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(data)
	if m == nil {
		t.Fatal("no VmRSS")
	}
	n, _ := strconv.Atoi(string(m[1])) // digits
	return n
}
