package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// inFolder lists the processes that work in a folder, whatever they made of their group, session and environment.
func inFolder(t *testing.T, dir string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil || len(all) == 0 {
		t.Fatal("no /proc: ", err)
	}
	for _, cwd := range all {
		if at, err := os.Readlink(cwd); err == nil && (at == dir || strings.HasPrefix(at, dir+"/")) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(cwd), "cmdline"))
			found = append(found, fmt.Sprintf("%s %q", cwd, line))
		}
	}
	return found
}

// limitedBox has a workspace whose check is a script outside of its tree, with a record of its success.
func limitedBox(t *testing.T, settings string, env ...string) (b *box, script string) {
	t.Helper()
	b = newBox(t)
	b.kill()
	script = b.dir + "/check.sh"
	b.write(script, "exit 0\n")
	b.write(b.dir+"/config.toml", settings)
	b.env = append(b.env, append(env, "PERDURE_CONFIG="+b.dir+"/config.toml")...)
	b.serve("127.0.0.1:0")
	b.want(0, "new", "app", "--check", "sh "+script, "--check-timeout", "30s")
	b.want(0, "handoff", "record", "app", "--passed", "check", "--next", "x", "--wait")
	return b, script
}

// Case 25 and attack 18: whatever a check does, it ends at its limit, nothing of it survives, the report names the
// limit, and the verdict is inconclusive, never a failure. Once the check behaves, the halt ends.
func TestACheckEndsAtTheBoxsLimits(t *testing.T) {
	b, script := limitedBox(t, "[checks]\nprocesses = 64\nmemory = \"100MiB\"\n")
	for _, c := range []struct{ name, script, found, note string }{
		{"forks without end", "b() { b | b & }\nb\nsleep 1000\n", "process limit", "at most 64 are allowed"},
		{"leaves its session and environment without end", "while :; do env -i PATH=$PATH setsid sleep 1000 & done\n", "process limit", "at most 64 are allowed"},
		{"takes memory", "{ head -c 300000000 /dev/zero; sleep 1000; } | tail\n", "memory limit", "at most 100 MiB are allowed"},
		{"prints ten gigabytes, deaf to TERM", "trap '' TERM\necho begun\nhead -c 10000000000 /dev/zero\n", "output limit", "MiB of output"},
		{"is killed", "sh -c 'kill -9 $$'\nexit 1\n", "killed", "from outside"},
	} {
		b.write(script, c.script)
		found := b.verify(13)
		b.named(found, "inconclusive", "check", c.found)
		b.named(found, "inconclusive", "check", c.note)
		if left := inFolder(t, b.app); len(left) > 0 {
			t.Errorf("%s: left are %s", c.name, left)
		}
		if out := b.want(13, "handoff", "repair", "app", "--explain", "check: it is to be mended", "--passed", "check", "--next", "x", "--wait"); !strings.Contains(out, c.found) {
			t.Errorf("%s: a repair says %s", c.name, out)
		}
		b.want(4, "start", "app")
	}
	b.write(script, "env -i PATH=$PATH setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1000; done' &\nexit 0\n")
	b.named(b.verify(0), "note", "check", "left behind were ended")
	if left := inFolder(t, b.app); len(left) > 0 {
		t.Errorf("a daemon is left: %s", left)
	}
	b.want(0, "start", "app")
}

// A timeout counts for what is deaf to it too.
func TestACheckThatIgnoresTermEndsAtItsTimeout(t *testing.T) {
	b, script := limitedBox(t, "")
	b.want(0, "set", "app", "--check-timeout", "1s")
	b.write(script, "trap '' TERM HUP INT\nwhile :; do sleep 1000; done\n")
	b.named(b.verify(13), "inconclusive", "check", "timeout")
	if left := inFolder(t, b.app); len(left) > 0 {
		t.Errorf("left are %s", left)
	}
}

// kill -9 of the server ends its checks, whatever they made of their group, session and environment; and so does an
// orderly end.
func TestTheServersEndEndsItsChecks(t *testing.T) {
	for name, end := range map[string]func(*box){
		"killed":      (*box).kill,
		"interrupted": func(b *box) { _ = b.server.Process.Signal(os.Interrupt); _ = b.server.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			b, script := limitedBox(t, "")
			up := b.dir + "/up"
			if err := syscall.Mkfifo(up, 0o600); err != nil {
				t.Fatal(err)
			}
			b.write(script, "env -i PATH=$PATH setsid sh -c 'trap \"\" TERM HUP; echo $$ > "+up+"; while :; do sleep 1000; done' &\nsleep 1000\n")
			verify := exec.Command(b.bin, "handoff", "verify", "app")
			verify.Dir, verify.Env = b.app, b.env
			if err := verify.Start(); err != nil {
				t.Fatal(err)
			}
			pid, err := os.ReadFile(up) // waits for the writer
			if err != nil {
				t.Fatal(err)
			}
			end(b)
			if !ends(strings.TrimSpace(string(pid))) {
				t.Errorf("process %s lives", pid)
			}
			var exit *exec.ExitError
			if err := verify.Wait(); !errors.As(err, &exit) {
				t.Errorf("the verification ended with %v", err)
			}
			b.write(script, "exit 0\n")
			b.serve("127.0.0.1:0")
			b.verify(0)
		})
	}
}

// The canary: no check sees the server's secrets, whatever their names begin with, save those that the workspace names.
func TestNoCheckSeesTheServersSecrets(t *testing.T) {
	names := []string{"NODE_AUTH_TOKEN", "npm_config__authToken", "CARGO_REGISTRY_TOKEN", "GOAUTH", "GITHUB_TOKEN", "DOCKER_AUTH_CONFIG", "XDG_RUNTIME_DIR", "LC_SECRET", "SSH_AUTH_SOCK"}
	var env []string
	for _, n := range names {
		env = append(env, n+"=canary-"+n)
	}
	b, script := limitedBox(t, "", append(env, "NODE_ENV=test", "GOPROXY=https://me:canary-proxy@proxy.example.com")...)
	seen := b.dir + "/seen"
	b.write(script, "{ env; tr '\\0' '\\n' < /proc/$PPID/environ; } > "+seen+"\n")
	look := func() string {
		b.verify(0)
		data, err := os.ReadFile(seen)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if got := look(); strings.Contains(got, "canary") || !strings.Contains(got, "NODE_ENV=test\n") {
		t.Errorf("the check saw %s", got)
	}
	b.want(0, "set", "app", "--check-env", "NODE_AUTH_TOKEN")
	if got := look(); !strings.Contains(got, "NODE_AUTH_TOKEN=canary-NODE_AUTH_TOKEN\n") || strings.Contains(got, "CARGO_REGISTRY_TOKEN") {
		t.Errorf("with one allowed, the check saw %s", got)
	}
}
