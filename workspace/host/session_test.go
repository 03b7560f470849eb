package host

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"perdure/workspace/wire"
)

func TestASessionIsAttachedToTypedIntoAndEnds(t *testing.T) {
	s := start(t, `echo ready; read x; echo "got $x"; exit 7`)
	c := s.attach(wire.Attach{Resume: true})
	c.until("ready")
	c.typed("hello\n")
	c.until("got hello")
	c.drain()
	if c.exit == nil || c.exit.Code != 7 || c.exit.Signal != "" {
		t.Errorf("the attachment was told %+v", c.exit)
	}
	s.end()
	if e := s.exit(); e.Code != 7 || e.Terminated || e.Offset != uint64(len(s.journal())) {
		t.Errorf("exit.json: %+v", e)
	}
	if _, err := os.Lstat(filepath.Join(s.dir, "s")); !os.IsNotExist(err) {
		t.Errorf("the socket: %v", err)
	}
}

// What a flood prints is the journal's, byte for byte, for whoever attaches in its midst.
func TestTheSeamOfAnAttachmentIsExactUnderFlood(t *testing.T) {
	s := start(t, `i=0; while [ ! -e enough ]; do echo "line $i with some words"; i=$((i+1)); done`)
	var clients []*client
	for range 5 {
		c := s.attach(wire.Attach{History: 100})
		for c.at < 2000 || len(c.seen) == 0 {
			if _, err := c.next(); err != nil {
				break
			}
		}
		clients = append(clients, c)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "enough"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	for _, c := range clients {
		go func() { c.drain(); done <- struct{}{} }()
	}
	for range clients {
		<-done
	}
	s.end()
	whole := s.journal()
	for i, c := range clients {
		if c.at != uint64(len(whole)) || !bytes.HasSuffix(whole, c.seen) {
			t.Errorf("client %d ended at %d of %d with other bytes", i, c.at, len(whole))
		}
	}
}

func TestAViewerThatReadsNothingStopsNobody(t *testing.T) {
	s := start(t, `read x; head -c 8000000 /dev/zero | tr '\0' 'a'; echo done`)
	stalled := s.attach(wire.Attach{})
	_ = stalled // it never reads again
	other := s.attach(wire.Attach{Resume: true})
	other.typed("\n")
	other.drain()
	if other.exit == nil || other.exit.Code != 0 {
		t.Fatalf("exit %+v", other.exit)
	}
	stalled.c.Close()
	s.end()
	if e := s.exit(); e.Offset < 8000000 {
		t.Errorf("the session printed %d bytes", e.Offset)
	}
}

func TestAReadOnlyAttachmentTypesSizesAndSignalsNothing(t *testing.T) {
	s := start(t, `trap 'echo INT' INT; echo ready; read x; stty size; exit 3`)
	w := s.attach(wire.Attach{Resume: true, ReadOnly: true, Cols: 40, Rows: 10})
	w.until("ready")
	w.typed("watcher\n")
	w.write(wire.Signal{Name: "INT"})
	w.write(wire.Stop{Signal: "KILL"})
	w.write(wire.Resize{Cols: 33, Rows: 11})
	w.write(wire.Ping{N: 1})
	for f, err := w.next(); f != (wire.Pong{N: 1}); f, err = w.next() {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := s.attach(wire.Attach{Resume: true})
	c.typed("typist\n")
	c.drain()
	s.end()
	if got := string(s.journal()); !strings.Contains(got, "24 80") || strings.Contains(got, "watcher") || strings.Contains(got, "INT") {
		t.Errorf("the session saw %q", got)
	}
}

// More than any buffer holds, typed at a program that reads nothing for longer than a write used to wait.
func TestTypedInputWaitsForABusyProgram(t *testing.T) {
	s := start(t, `stty raw -echo; echo ready; sleep 3; head -c 3000000 | cksum`)
	c := s.attach(wire.Attach{Resume: true})
	c.until("ready")
	text := strings.Repeat("0123456789abcde\n", 3000000/16)
	go func() {
		for i := 0; i < len(text); i += 30000 {
			if c.w.Write(wire.Input{Offset: wire.NoOffset, Data: []byte(text[i:min(i+30000, len(text))])}) != nil {
				return
			}
		}
	}()
	c.drain()
	s.end()
	cmd := exec.Command("cksum")
	cmd.Stdin = strings.NewReader(text)
	want, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := s.journal(); !bytes.Contains(got, bytes.TrimSpace(want)) {
		t.Errorf("the program read %q, typed was %q", got, want)
	}
}

// A process that left the session, its group and its terminal still ends with it.
func TestNothingSurvivesTheSession(t *testing.T) {
	s := start(t, `setsid sh -c 'trap "" HUP TERM; sleep 10000 & sleep 10000' </dev/null >/dev/null 2>&1 & (setsid sleep 10000 &) ; echo ready; read x`)
	c := s.attach(wire.Attach{Resume: true})
	c.until("ready")
	c.typed("\n")
	c.drain()
	s.end()
	if left := s.marked(); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
}

// The box goes down: the host ends its session in order and writes that it was told to.
func TestATerminatedHostEndsItsSessionAndSaysSo(t *testing.T) {
	for name, script := range map[string]string{
		"heeds the hangup":   `trap 'echo bye; exit 0' HUP; echo ready; while :; do sleep 0.05; done`,
		"ignores everything": `trap '' HUP TERM INT; echo ready; while :; do sleep 0.05; done`,
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, script)
			c := s.attach(wire.Attach{Resume: true})
			c.until("ready")
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			c.drain()
			s.end()
			if e := s.exit(); !e.Terminated || c.exit == nil {
				t.Errorf("exit.json %+v, told %+v", e, c.exit)
			}
			if left := s.marked(); len(left) > 0 {
				t.Errorf("still there: %v", left)
			}
		})
	}
}

// kill -9 at any byte: the journal is a true beginning of what was printed.
func TestKilledHostLeavesATrueJournal(t *testing.T) {
	s := start(t, `i=0; while :; do echo "line $i"; i=$((i+1)); done`)
	c := s.attach(wire.Attach{Resume: true})
	c.until("line 500")
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.drain()
	_ = s.cmd.Wait()
	for _, pid := range s.marked() { // where hang-ups are ignored, as below nohup, it would go on for ever
		if n, err := strconv.Atoi(pid); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
	got := s.journal()
	var want bytes.Buffer
	for i := 0; want.Len() < len(got); i++ {
		fmt.Fprintf(&want, "line %d\r\n", i)
	}
	if !bytes.HasPrefix(want.Bytes(), got) || !bytes.HasPrefix(got, c.seen) {
		t.Errorf("%d bytes in the journal, %d seen", len(got), len(c.seen))
	}
}

func TestGarbageOnTheSocketEndsOnlyItself(t *testing.T) {
	s := start(t, `echo ready; read x; exit 5`)
	c := s.attach(wire.Attach{Resume: true})
	c.until("ready")
	preamble := string(preambleOf(t))
	for _, junk := range []string{"", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("\xff", 1<<16), preamble + "\x01\xff\xff\xff\xff", preamble + strings.Repeat("\x00", 64)} {
		g, err := net.Dial("unix", filepath.Join(s.dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		_ = g.SetDeadline(time.Now().Add(patience))
		_, _ = g.Write([]byte(junk)) // the host may close first
		g.Close()
	}
	c.typed("\n")
	c.drain()
	s.end()
	if e := s.exit(); e.Code != 5 {
		t.Errorf("exit %+v", e)
	}
}

// preambleOf is what an honest client sends first.
func preambleOf(t *testing.T) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	go func() { _, _ = wire.NewConn(b).Handshake(); b.Close() }()
	buf := make([]byte, 6)
	if _, err := a.Read(buf); err != nil {
		t.Fatal(err)
	}
	return buf
}
