package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"perdure/server/store"
)

// Everything in the state folder of a server with a live session is its owner's alone. Objects and refs in the
// snapshot repositories may be links to files of the user's own repository: the folder that holds them is closed.
func TestEveryFileOfTheStateIsItsOwnersAlone(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "true")
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "go on", "--wait")
	b.want(0, "start", "app")
	state := b.dir + "/state"
	seen := map[string]bool{}
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if os.IsNotExist(err) {
			return nil // a temporary file
		}
		if err != nil {
			return err
		}
		seen[filepath.Base(path)] = true
		if fi.Mode()&fs.ModeSymlink == 0 && fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", strings.TrimPrefix(path, state), fi.Mode())
		}
		if strings.HasSuffix(path, ".git") && filepath.Dir(path) == state+"/snapshots" {
			return fs.SkipDir
		}
		return nil
	})
	mustDo(t, err)
	for _, want := range []string{"host_key", "server.sock", "server.lock", "store", "store.id", "session.json", "host.json", "journal", "brief.md", "snapshots"} {
		if !seen[want] {
			t.Errorf("no %s was looked at", want)
		}
	}
}

// Canaries in the client's environment and in what was typed without echo reach neither records, nor snapshots, nor
// events, nor the server's log, nor other sessions' environments.
func TestSecretsStayWhereTheyWere(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "true")
	b.want(0, "start", "app")
	const inEnv, typed = "canary-e7c1d0", "canary-t93bb2"
	b.env = append(b.env, "API_TOKEN="+inEnv)
	x := b.direct()
	x.send("stty -echo; printf 'pass'; echo word:; read secret; stty echo; echo got=${#secret}\r")
	x.expect(`(password:)`)
	x.send(typed + "\r")
	x.expect(`got=(\d+)`)
	x.send("env | grep -c API_TOKEN; echo env=done\r")
	x.expect(`0\r\n(env=done)`)
	x.kill()
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "go on", "--wait")
	b.want(0, "snapshot", "app")
	key, err := os.ReadFile(b.dir + "/state/host_key")
	mustDo(t, err)
	secrets := []string{inEnv, typed, strings.Split(string(key), "\n")[1]}
	b.noneIn(b.dir+"/state", secrets, "host_key")
	for _, args := range [][]string{{"handoff", "show", "app", "--json"}, {"show", "app", "--json"}, {"events", "--json"}, {"log", "app"}, {"brief", "app"}, {"config", "--json"}} {
		out := b.want(0, args...)
		for _, s := range secrets {
			if strings.Contains(out, s) {
				t.Errorf("%q shows %s", args, s)
			}
		}
	}
	b.must("", "sh", "-c", "for r in "+b.dir+"/state/snapshots/*.git; do git -C $r fsck --no-dangling; for o in $(git -C $r cat-file --batch-all-objects --batch-check='%(objectname)'); do git -C $r cat-file -p $o; done; done > "+b.dir+"/objects")
	b.noneIn(b.dir+"/objects", secrets)
}

// noneIn looks for secrets in every file below a path, but those named.
func (b *box) noneIn(root string, secrets []string, but ...string) {
	b.t.Helper()
	n := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		for _, name := range but {
			if d.Name() == name {
				return nil
			}
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		n++
		for _, s := range secrets {
			if bytes.Contains(data, []byte(s)) {
				b.t.Errorf("%s holds %s", path, s)
			}
		}
		return err
	})
	if err != nil || n == 0 {
		b.t.Errorf("looked at %d files: %v", n, err)
	}
}

// A disk that fills refuses with clear errors what can wait, says so in ls and in the events, and keeps sessions and
// server alive; a start on the full disk says why there is none; and with room again everything is there.
func TestAFullDiskIsAnErrorAndNothingIsLost(t *testing.T) {
	b := newBox(t)
	mustDo(t, b.server.Process.Signal(os.Interrupt))
	_ = b.server.Wait()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=128m,mode=0700"); err != nil {
		t.Skipf("needs a file system of its own: %v", err)
	}
	t.Cleanup(func() { mustDo(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	b.env = append(b.env, "PERDURE_STATE="+disk+"/state")
	b.serve("127.0.0.1:0")
	t.Cleanup(b.close) // before the disk goes
	b.want(0, "new", "app", "--check", "true")
	b.want(0, "start", "app")
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "before", "--wait")
	_, pid, _ := b.session()

	fillDisk(t, disk, 8<<20)
	b.write(b.app+"/more", "more")
	for _, args := range [][]string{{"snapshot", "app"}, {"handoff", "record", "app", "--passed", "check", "--next", "full", "--wait"}} {
		if out := b.want(1, args...); !strings.Contains(out, "too little free disk space") || !strings.Contains(out, "hint:") {
			t.Errorf("%q: %s", args, out)
		}
	}
	b.attentionIs("disk")
	b.follow("low_space", 1)
	fillDisk(t, disk, 0)
	b.want(1, "snapshot", "app")
	x := b.direct()
	x.send("echo alive=$((40+2))\r")
	x.expect(`alive=(42)`)
	x.kill()
	b.kill()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.bin, "serve", "--listen", "none")
	cmd.Env = b.env
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "too little free disk space") {
		t.Fatalf("a start on a full disk: %v\n%s", err, out)
	}
	eachFile(t, disk+"/filler*", os.Remove)
	b.serve("127.0.0.1:" + b.port)
	if state, now, _ := b.session(); state != "live" || now != pid {
		t.Errorf("the session is %s, pid %d, was %d", state, now, pid)
	}
	if out := b.want(0, "handoff", "show", "app"); !strings.Contains(out, "before") {
		t.Errorf("the record: %s", out)
	}
	b.want(0, "snapshot", "app")
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "after", "--wait")
	b.attentionIs("")
}

// attentionIs waits until ls says so of app.
func (b *box) attentionIs(why string) {
	b.t.Helper()
	got := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var list []struct{ Attention *struct{ Why string } }
		mustDo(b.t, json.Unmarshal([]byte(b.want(0, "ls", "--json")), &list))
		got = ""
		if len(list) > 0 && list[0].Attention != nil {
			got = list[0].Attention.Why
		}
		if got == why {
			return
		}
	}
	b.t.Errorf("attention %q, want %q", got, why)
}

// fillDisk takes room until only leave bytes are free.
func fillDisk(t *testing.T, disk string, leave uint64) {
	t.Helper()
	free, err := store.Free(disk)
	mustDo(t, err)
	f, err := os.Create(filepath.Join(disk, fmt.Sprintf("filler%d", leave)))
	mustDo(t, err)
	defer f.Close()
	if free > leave {
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(free-leave)); err != nil {
			t.Skipf("can't fill the disk: %v", err)
		}
	}
}
