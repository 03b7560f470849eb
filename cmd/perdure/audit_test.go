package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"
)

// Who attached, ran, forwarded or was refused is told by events, with the key's fingerprint and from where; never what
// a command line holds besides the program.
func TestWhoDidWhatIsTold(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--", "cat")
	fingerprint := strings.Fields(b.must("", "ssh-keygen", "-lf", b.dir+"/key.pub"))[1]
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello\n"))
			c.Close()
		}
	}()
	if out, err := b.ssh(context.Background(), "app@127.0.0.1", "TOKEN=hunter2 true --password hunter2").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := b.ssh(context.Background(), "-W", echo.Addr().String(), "app@127.0.0.1").Output(); err != nil || string(out) != "hello\n" {
		t.Fatalf("%q, %v", out, err)
	}
	x := b.attach()
	b.event("attached", 1)
	x.kill()
	b.event("detached", 1)
	key, err := os.ReadFile(b.dir + "/key.pub")
	if err != nil {
		t.Fatal(err)
	}
	b.write(b.dir+"/home/.ssh/authorized_keys", `perdure-no-commands,no-port-forwarding `+string(key))
	if out, err := b.ssh(context.Background(), "app@127.0.0.1", "rm -rf hunter2").CombinedOutput(); err == nil {
		t.Fatalf("it ran: %s", out)
	}
	if out, err := b.ssh(context.Background(), "-W", echo.Addr().String(), "app@127.0.0.1").Output(); err == nil {
		t.Fatalf("it forwarded: %s", out)
	}

	told := b.want(0, "events", "app", "--json")
	if strings.Contains(told, "hunter2") {
		t.Errorf("a secret is told:\n%s", told)
	}
	kinds := map[string][]string{}
	for line := range strings.Lines(told) {
		var e struct{ Kind, By, What, Why string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.By, fingerprint+" from 127.0.0.1:") {
			kinds[e.Kind] = append(kinds[e.Kind], e.What)
		}
	}
	for kind, want := range map[string]string{"attached": "", "detached": "", "ran": "true", "forwarded": "to " + echo.Addr().String(), "refused": "rm forward over tcp"} {
		if got, ok := kinds[kind]; !ok || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
	if t.Failed() {
		t.Log(told)
	}
}
