package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

type inboxEntry struct{ ID, Record, State, Verdict string }

func (b *box) inbox(name string) (list []inboxEntry) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.want(0, "inbox", name, "--json")), &list); err != nil {
		b.t.Fatal(err)
	}
	return list
}

// forgetStore takes the store and its backups away from a server that is down.
func (b *box) forgetStore() {
	b.t.Helper()
	for _, name := range []string{"store", "store.id", "store.backups"} {
		if err := os.RemoveAll(b.dir + "/state/" + name); err != nil {
			b.t.Fatal(err)
		}
	}
}

// One record was delivered as often as it was sent at the same time.
func TestARecordIsDeliveredOnceHoweverOftenItIsSent(t *testing.T) {
	b := twoBox(t)
	b.want(0, "handoff", "record", "side", "--passed", "TestAdd", "--next", "go on", "--wait")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { b.run("deliver", "app", "--from", "side") })
	}
	all.Wait()
	if list := b.inbox("app"); len(list) != 1 {
		t.Errorf("delivered %d times: %+v", len(list), list)
	}
}

// The server is killed at a random moment of a delivery, and every other time the store is lost as well: whoever sends
// again finds it delivered, or delivers it, and it is there once, unverified.
func TestADeliverySurvivesKillsAndTheStoresLoss(t *testing.T) {
	b := twoBox(t)
	rnd := rand.New(rand.NewPCG(3, 8))
	const rounds = 8
	for i := range rounds {
		b.want(0, "handoff", "record", "side", "--passed", "TestAdd", "--next", "go on", "--wait")
		cmd := exec.Command(b.bin, "deliver", "app", "--from", "side")
		cmd.Dir, cmd.Env = b.app, b.env
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rnd.IntN(80)) * time.Millisecond) // the moment is what is varied; none decides the test
		b.kill()
		_ = cmd.Wait()
		if i%2 == 1 {
			b.forgetStore()
		}
		b.serve("127.0.0.1:0")
		if promised := strings.Contains(out.String(), "delivered"); promised && len(b.inbox("app")) != i+1 {
			t.Fatalf("round %d: a delivery that was promised is gone: %+v", i, b.inbox("app"))
		}
		if text, status := b.run("deliver", "app", "--from", "side"); status != 0 && !strings.Contains(text, "already") {
			t.Fatalf("round %d: %d %s", i, status, text)
		}
		list := b.inbox("app")
		if len(list) != i+1 || list[i].State != "unverified" {
			t.Fatalf("round %d: %+v", i, list)
		}
	}
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"inbox", "app"}, {"show", "app"}, {"brief", "app"}, {"handoff", "log", "app"}, {"handoff", "log", "side"}} {
		if text := b.want(0, args...); !strings.Contains(text, "unverified") {
			t.Errorf("%q doesn't say that they are unverified:\n%s", args, text)
		}
	}
}

// A server that is killed while a delivery is verified leaves it unverified, and it is accepted once, later.
func TestAnAcceptThatIsKilledDecidesNothing(t *testing.T) {
	b := twoBox(t)
	gate := b.dir + "/gate"
	check := "echo run >>" + b.dir + "/ran; until [ -e " + gate + " ]; do sleep 0.02; done; go test ./..."
	b.write(gate, "")
	b.want(0, "set", "app", "--check", check)
	b.want(0, "set", "side", "--check", check)
	b.want(0, "handoff", "record", "side", "--passed", "TestAdd", "--next", "go on", "--wait")
	b.want(0, "deliver", "app", "--from", "side")
	id := b.inbox("app")[0].ID
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	b.forget()
	cmd := exec.Command(b.bin, "accept", id)
	cmd.Dir, cmd.Env = b.app, b.env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for b.ran("run") == 0 { // it is being verified
		time.Sleep(10 * time.Millisecond)
	}
	b.kill()
	_ = cmd.Wait()
	b.forgetStore()
	b.serve("127.0.0.1:0")
	if got := b.inbox("app")[0]; got.State != "unverified" || got.Verdict != "" {
		t.Errorf("after the kill: %+v", got)
	}
	b.write(gate, "")
	b.want(0, "accept", id)
	b.want(4, "accept", id)
	for _, side := range []string{"app", "side"} {
		if got := b.inbox(side)[0]; got.State != "accepted" || got.Verdict != "holds" {
			t.Errorf("%s sees %+v", side, got)
		}
	}
}

// A merge is refused while the receiver's session works, and touches nothing.
func TestAMergeIsRefusedWhileTheReceiverWorks(t *testing.T) {
	b := twoBox(t)
	b.want(0, "set", "app", "--", "sh", "-c", "while sleep 0.1; do echo at work; done")
	id := b.send("b_test.go", suiteOf("TestSide"))
	b.want(0, "start", "app")
	b.want(0, "wait", "app", "--for", "text=at work", "--timeout", "1m")
	before := b.state()
	if out := b.want(4, "accept", id, "--merge"); !strings.Contains(out, "working") {
		t.Errorf("refused for another reason: %s", out)
	}
	if after := b.state(); after != before {
		t.Errorf("a refused merge changed the repository:\n%s", after)
	}
	b.want(0, "stop", "app")
	b.want(0, "accept", id, "--merge")
}

// Halts that nothing was wrong behind were counted by nobody.
func TestDoctorCountsNeedlessHalts(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "go test ./...")
	b.want(0, "handoff", "record", "app", "--passed", "TestAdd", "--passed", "TestZero", "--next", "go on", "--wait")
	says := func(want string) {
		t.Helper()
		if out, _ := b.run("doctor", "--listen", "none"); !strings.Contains(out, want) {
			t.Errorf("doctor doesn't say %q:\n%s", want, out)
		}
	}
	says("0 in the last 7 days, 0 of them needless")
	b.write(b.app+"/new.go", "package app\n")
	b.want(11, "handoff", "verify", "app")
	says("1 in the last 7 days, 0 of them needless") // nobody knows yet
	if err := os.Remove(b.app + "/new.go"); err != nil {
		t.Fatal(err)
	}
	b.want(0, "handoff", "verify", "app")
	says("1 in the last 7 days, 1 of them needless")
	b.write(b.app+"/new.go", "package app\n")
	b.want(11, "handoff", "verify", "app")
	b.want(0, "handoff", "repair", "app", "--carry")
	says("2 in the last 7 days, 2 of them needless")
	b.write(b.app+"/a.go", "package app\n\nfunc Add(a, b int) int { return a - b }\n")
	b.want(12, "handoff", "verify", "app")
	b.want(0, "handoff", "override", "app", "--because", "it is known")
	says("3 in the last 7 days, 2 of them needless")
}
