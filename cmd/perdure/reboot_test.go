package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// reboot takes the box down as far as perdure can see: the server and every host get the signal, and the sessions'
// boot is another one than now. meanwhile happens while nothing runs.
func (b *box) reboot(sig syscall.Signal, meanwhile func()) {
	b.t.Helper()
	hosts, err := filepath.Glob(b.dir + "/state/workspaces/*/sessions/*/host.json")
	if err != nil || len(hosts) == 0 {
		b.t.Fatalf("hosts: %v, %v", hosts, err)
	}
	_ = b.server.Process.Signal(sig)
	_ = b.server.Wait()
	for _, path := range hosts {
		var h struct {
			Pid int `json:"host_pid"`
		}
		b.edit(path, &h, nil)
		if err := syscall.Kill(h.Pid, sig); err != nil {
			b.t.Fatal(err)
		}
		for alive(h.Pid) {
		}
		var f map[string]any
		b.edit(filepath.Dir(path)+"/session.json", &f, func() { f["boot"] = "another" })
	}
	meanwhile()
	b.serve("127.0.0.1:0")
}

// edit reads a JSON file into v and, if change is given, writes v back after it.
func (b *box) edit(path string, v any, change func()) {
	b.t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err == nil && change != nil {
		change()
		if data, err = json.Marshal(v); err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// alive is false for a process that is gone or only waits to be reaped.
func alive(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(data), ") Z ")
}

const idle = "echo up; exec sleep 100000"

func (b *box) recorded(name string) {
	b.t.Helper()
	b.want(0, "handoff", "record", name, "--passed", "check", "--next", "go on", "--wait")
}

// Workspaces come back in the order of their names, so once app is started those before it were passed over.
func TestAfterARebootVerifiedSessionsStartAgain(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"shutdown": syscall.SIGTERM, "power cut": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			for _, ws := range []string{"aa-never", "ab-edited", "app"} {
				dir := filepath.Join(b.dir, ws)
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				b.write(dir+"/f", "1")
				restart := map[bool]string{true: "never", false: "boot"}[ws == "aa-never"]
				b.want(0, "new", ws, "--dir", dir, "--check", "true", "--restart", restart, "--", "/bin/sh", "-c", idle)
				defer b.run("rm", ws)
				b.recorded(ws)
				b.want(0, "start", ws)
			}
			_, pid, _ := b.session()
			b.reboot(sig, func() { b.write(b.dir+"/ab-edited/f", "2") }) // by nobody knows whom
			b.event("started", 2)
			if state, again, _ := b.session(); state != "live" || again == pid {
				t.Errorf("app's session is %s, pid %d, was %d", state, again, pid)
			}
			for ws, want := range map[string]string{"aa-never": "stopped", "ab-edited": "halted"} {
				var w struct{ State string }
				if err := json.Unmarshal([]byte(b.want(0, "show", ws, "--json")), &w); err != nil || w.State != want {
					t.Errorf("%s is %s, want %s (%v)", ws, w.State, want, err)
				}
				if out := b.want(0, "events", ws, "--json"); strings.Count(out, `"started"`) != 1 {
					t.Errorf("%s: %s", ws, out)
				}
			}
		})
	}
}

// Edits that nobody but the session itself can have made: it gets its repair session unasked, and stays halted.
func TestAfterARebootASessionsOwnEditsGetARepairSession(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "true", "--", "/bin/sh", "-c", `echo up; read x && echo 2 >> a.go && echo edited; exec sleep 100000`)
	b.recorded("app")
	x := b.attach()
	x.expect("up")
	x.send("\r")
	x.expect("edited")
	b.reboot(syscall.SIGKILL, func() {}) // no snapshot was taken since the edit
	x.kill()
	b.event("started", 2)
	out := b.want(0, "show", "app", "--json")
	for _, want := range []string{`"state": "halted"`, `"repair": true`, `"state": "live"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
}
