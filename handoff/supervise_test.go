package handoff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perdure/handoff/results"
)

// within lists the processes that work in a folder, however they were started.
func within(dir string) []string {
	var found []string
	for _, p := range processes() {
		proc := fmt.Sprintf("/proc/%d/", p.pid)
		at, err := os.Readlink(proc + "cwd")
		if err == nil && !p.dead && p.pid != os.Getpid() && (at == dir || strings.HasPrefix(at, dir+"/")) {
			line, _ := os.ReadFile(proc + "cmdline")
			found = append(found, fmt.Sprintf("%d %q", p.pid, line))
		}
	}
	return found
}

// A process that leaves the check's group, session, parent and environment ends with the check all the same.
func TestNothingOfACheckSurvives(t *testing.T) {
	for name, cmd := range map[string]string{
		"in the background":               "sh daemon &",
		"in a session of its own":         "setsid sh daemon &",
		"without the check's environment": "env -i PATH=$PATH setsid sh daemon &",
		"forked twice":                    "(env -i PATH=$PATH setsid sh -c 'sh daemon & exit' &)",
		"stopped":                         "env -i PATH=$PATH setsid sh stopped &",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"daemon": "echo x > up\ntrap '' TERM HUP\nwhile :; do sleep 1000; done\n", "stopped": "echo x > up\nkill -STOP $$\n"})
			run := runIn(t, dir, CheckSpec{Cmd: "mkfifo up; " + cmd + "\nread -r x < up", Timeout: time.Minute})
			if run.Problem != "" || run.Exit != 0 || !strings.Contains(run.Note, "left behind were ended") {
				t.Errorf("%+v", run)
			}
			if left := within(dir); len(left) > 0 {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// Whatever a check does, it ends at its limits, and the problem names the limit.
func TestACheckEndsAtItsLimits(t *testing.T) {
	limits := Limits{Processes: 60, Memory: 100 << 20}
	for name, c := range map[string]struct {
		cmd, problem, note string
		timeout            time.Duration
	}{
		"deaf to TERM":           {"trap '' TERM; while :; do sleep 1; done", ProblemTimeout, "ended after 100ms", 100 * time.Millisecond},
		"forks without end":      {"b() { b | b & }; b; sleep 1000", ProblemProcesses, "at most 60", time.Minute},
		"sessions without end":   {"b() { env -i PATH=$PATH setsid sh -c 'sleep 1000' & }; while :; do b; done", ProblemProcesses, "at most 60", time.Minute},
		"takes memory":           {"{ head -c 300000000 /dev/zero; sleep 1000; } | tail", ProblemMemory, "at most 100 MiB", time.Minute},
		"takes memory elsewhere": {"env -i PATH=$PATH setsid sh -c '{ head -c 300000000 /dev/zero; sleep 1000; } | tail' & sleep 1000", ProblemMemory, "at most 100 MiB", time.Minute},
		"prints without end":     {"yes", ProblemOutput, "64 MiB of output", time.Minute},
		"prints ten gigabytes":   {"trap '' TERM; head -c 10000000000 /dev/zero", ProblemOutput, "64 MiB of output", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			r := testRunner(t.TempDir())
			r.Limits = limits
			run := r.Run(context.Background(), CheckSpec{Label: "check", Cmd: c.cmd, Timeout: c.timeout})
			if run.Problem != c.problem || !strings.Contains(run.Note, c.note) || len(run.Results) > 0 || len(run.Tail) > tailSize {
				t.Errorf("%+v", run)
			}
			if left := within(r.Dir); len(left) > 0 {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// What is shown of a flood is its end, not the end of what was kept.
func TestTheTailOfAFloodIsItsEnd(t *testing.T) {
	run := runIn(t, t.TempDir(), CheckSpec{Cmd: "trap 'echo this was the last; exit 1' TERM; while :; do head -c 1000000 /dev/zero | tr '\\0' x; echo; done"})
	if run.Problem != ProblemOutput || !strings.HasSuffix(run.Tail, "this was the last") {
		t.Errorf("%s: %q", run.Problem, run.Tail[max(0, len(run.Tail)-40):])
	}
}

func TestACheckWithinItsLimitsIsLeftAlone(t *testing.T) {
	r := testRunner(t.TempDir())
	r.Limits = Limits{Processes: 60, Memory: 100 << 20}
	run := r.Run(context.Background(), CheckSpec{Label: "check", Cmd: "for i in 1 2 3 4 5; do sleep 0.1 & done; wait; [ $(ulimit -c) = 0 ]"})
	if run.Problem != "" || run.Note != "" || run.Results["check"] != results.Pass {
		t.Errorf("%+v", run)
	}
}

// Memory that processes share is counted once: workers forked from one big process are many builds' way.
func TestSharedMemoryIsCountedOnce(t *testing.T) {
	cmd := exec.Command("python3", "-c", `
import os, sys
x = bytearray(64 << 20)
for i in range(0, len(x), 4096): x[i] = 1
for _ in range(7):
    if os.fork() == 0: break
sys.stdout.write("up\n"); sys.stdout.flush(); sys.stdin.read()`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	if _, err := io.ReadFull(out, make([]byte, 8*len("up\n"))); err != nil {
		t.Fatal(err)
	}
	all := processes()
	tree := below(all, cmd.Process.Pid)
	tree = append(tree, all[slices.IndexFunc(all, func(p process) bool { return p.pid == cmd.Process.Pid })])
	resident := int64(0)
	for _, p := range tree {
		resident += p.resident
	}
	if taken := memoryOf(tree); len(tree) != 8 || resident < 500<<20 || taken < 64<<20 || taken > 200<<20 {
		t.Errorf("%d processes: %d MiB resident, %d MiB taken", len(tree), resident>>20, taken>>20)
	}
}

// A check that kills its supervisor gives no answer, and what still carries its mark ends.
func TestACheckThatKillsItsSupervisor(t *testing.T) {
	dir := t.TempDir()
	run := runIn(t, dir, CheckSpec{Cmd: "echo $PERDURE_CHECK; kill -9 $PPID; sleep 1000", Timeout: time.Minute})
	if run.Problem != ProblemKilled || !strings.Contains(run.Note, "supervisor") {
		t.Errorf("%+v", run)
	}
	if left := within(dir); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
	if parent, err := ownCgroup(); err == nil {
		if _, err := os.Stat(filepath.Join(parent, "perdure-check-"+run.Tail)); run.Tail == "" || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its cgroup is left: %v", err)
		}
	}
}

func TestACheckWithoutASupervisorIsNotRun(t *testing.T) {
	dir := t.TempDir()
	if run := (&Runner{Dir: dir}).Run(context.Background(), CheckSpec{Label: "c", Cmd: "touch ran"}); run.Problem != ProblemMissing {
		t.Errorf("%+v", run)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Error("it was run all the same")
	}
}

// Where the machine has a writable cgroup of version 2, a check has one to itself, which goes with it.
func TestACheckHasACgroupWhereThereIsOne(t *testing.T) {
	if err := Cgroup(); err != nil {
		t.Skip("no cgroup: ", err)
	}
	run := runIn(t, t.TempDir(), CheckSpec{Cmd: "cat /proc/self/cgroup; false"})
	_, rest, ok := strings.Cut(run.Tail, "perdure-check-")
	if !ok {
		t.Fatalf("%+v", run)
	}
	parent, err := ownCgroup()
	if err != nil {
		t.Fatal(err)
	}
	mark, _, _ := strings.Cut(rest, "\n")
	if _, err := os.Stat(filepath.Join(parent, "perdure-check-"+mark)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cgroup is left: %v", err)
	}
}

func TestFindCgroup(t *testing.T) {
	const whole = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
	for _, c := range []struct{ mounts, own, want string }{
		{whole, "0::/user.slice/a.service\n", "/sys/fs/cgroup/user.slice/a.service"},
		{"1 1 0:5 / /proc rw - proc proc rw\n30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "4:memory:/x\n0::/\n", "/sys/fs/cgroup/unified"},
		{"30 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/1/sub\n", "/sys/fs/cgroup/sub"},
		{"30 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/other\n", ""},
		{whole, "4:memory:/x\n", ""},
		{"30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "0::/\n", ""},
	} {
		if got, err := findCgroup([]byte(c.mounts), []byte(c.own)); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q in %q: %q, %v", c.own, c.mounts, got, err)
		}
	}
}

func TestParseStat(t *testing.T) {
	line := "77 (a) S (b) ) R 5 6 7 0 -1 4194304 1 0 0 0 2 3 0 0 20 0 1 0 100 4096000 250 184467 1 1 0"
	p, ok := parseStat([]byte(line))
	if want := (process{pid: 77, parent: 5, group: 6, resident: 250 * int64(os.Getpagesize())}); !ok || p != want {
		t.Errorf("%+v", p)
	}
	if _, ok := parseStat([]byte("77 (cut")); ok {
		t.Error("a cut line was read")
	}
}

// secrets are names of variables in which tools take credentials.
var secrets = []string{"NODE_AUTH_TOKEN", "NPM_TOKEN", "npm_config__authToken", "npm_config__auth", "npm_config_//registry/:_authToken", "CARGO_REGISTRY_TOKEN", "CARGO_REGISTRIES_OWN_TOKEN",
	"GOAUTH", "GITHUB_TOKEN", "GH_TOKEN", "DOCKER_AUTH_CONFIG", "DOCKER_PASSWORD", "AWS_SECRET_ACCESS_KEY", "RUSTUP_TOKEN", "XDG_RUNTIME_DIR", "XDG_SECRET", "LC_SECRET", "SSL_CERT_PASSWORD",
	"PYENV_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_API_KEY", "CGO_SECRET", "PKG_CONFIG_SECRET", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "PERDURE_SESSION"}

// The canary: no check sees a secret of the server's environment, neither its own nor the supervisor's, unless the
// workspace names it.
func TestNoCheckSeesASecret(t *testing.T) {
	for _, name := range secrets {
		t.Setenv(name, "canary")
	}
	t.Setenv("GOPROXY", "https://me:canary@proxy.example.com")
	t.Setenv("npm_config_registry", "https://canary@registry.example.com/")
	t.Setenv("CARGO_HOME", "/cargo")
	t.Setenv("DOCKER_HOST", "ssh://me@box")
	const cmd = "env; tr '\\0' '\\n' < /proc/$PPID/environ; false"
	run := runIn(t, t.TempDir(), CheckSpec{Cmd: cmd})
	if strings.Contains(run.Tail, "canary") || !strings.Contains(run.Tail, "CARGO_HOME=/cargo\n") || !strings.Contains(run.Tail, "DOCKER_HOST=ssh://me@box\n") {
		t.Error(run.Tail)
	}
	run = runIn(t, t.TempDir(), CheckSpec{Cmd: cmd, Env: []string{"NODE_AUTH_TOKEN", "GOPROXY", "SSH_AUTH_SOCK"}})
	if !strings.Contains(run.Tail, "NODE_AUTH_TOKEN=canary\n") || !strings.Contains(run.Tail, "GOPROXY=https://me:canary@") || strings.Contains(run.Tail, "SSH_AUTH_SOCK") || strings.Contains(run.Tail, "GH_TOKEN") {
		t.Errorf("named ones: %s", run.Tail)
	}
}

// What the runner asks a tool besides, it asks within the check's limits and environment, and nothing of it survives.
func TestWhatIsAskedBesidesIsContainedToo(t *testing.T) {
	t.Setenv("NODE_AUTH_TOKEN", "canary")
	dir, bin := t.TempDir(), t.TempDir()
	write(t, bin, map[string]string{"go": "#!/bin/sh\nenv > \"$PWD/asked\"\nenv -i PATH=$PATH setsid sleep 1000 &\necho go1.99\n"})
	if err := os.Chmod(bin+"/go", 0o700); err != nil {
		t.Fatal(err)
	}
	r := testRunner(dir)
	r.Path = bin + ":" + os.Getenv("PATH")
	run := r.Run(context.Background(), CheckSpec{Label: "c", Cmd: `echo '{"Action":"pass","Package":"m","Test":"TestA"}'`})
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if run.Tool != "go1.99" || err != nil || strings.Contains(string(asked), "canary") || !strings.Contains(string(asked), markName) {
		t.Errorf("%+v: %v, %s", run, err, asked)
	}
	if left := within(dir); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
}

// When the process that runs checks is killed, its checks end, and the folder that they were given goes.
func TestTheRunnersDeathEndsItsChecks(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	if err := syscall.Mkfifo(dir+"/up", 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"daemon": "trap '' TERM\necho $$ $1 > up\nexec sleep 1000\n"})
	self := exec.Command("/proc/self/exe", runnerMode, dir, `env -i PATH=$PATH setsid sh daemon $PPID & exec sleep 1000`)
	self.Env = append(os.Environ(), "TMPDIR="+tmp)
	if err := self.Start(); err != nil {
		t.Fatal(err)
	}
	up, err := os.ReadFile(dir + "/up") // waits for the writer
	if err != nil {
		t.Fatal(err)
	}
	pid, supervisor := 0, 0
	if _, err := fmt.Sscan(string(up), &pid, &supervisor); err != nil {
		t.Fatal(err)
	}
	gone, over := ends(t, pid), ends(t, supervisor)
	if shims, err := os.ReadDir(tmp); err != nil || len(shims) != 1 {
		t.Errorf("before: %v, %v", shims, err)
	}
	self.Process.Kill()
	_ = self.Wait()
	gone()
	over()
	if shims, err := os.ReadDir(tmp); err != nil || len(shims) > 0 {
		t.Errorf("left: %v, %v", shims, err)
	}
}

// ends returns what waits for the end of a process that isn't a child.
func ends(t *testing.T, pid int) (wait func()) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		defer unix.Close(fd)
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Minute/time.Millisecond))
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if n != 1 || err != nil {
				t.Errorf("process %d lives: %v", pid, err)
			}
			return
		}
	}
}
