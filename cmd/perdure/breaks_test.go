package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// box is a machine in the small: a home, a state folder, a key, a repository and the built binary.
type box struct {
	t             *testing.T
	dir, bin, app string
	env           []string
	port          string
	in            string // the network namespace of the server, "" for ours
	server        *exec.Cmd
}

func newBox(t *testing.T) *box {
	b := &box{t: t, dir: t.TempDir()}
	b.app = filepath.Join(b.dir, "app")
	var err error
	if b.bin, err = exec.LookPath("perdure"); err != nil { // this very test binary, as TestMain has it
		t.Fatal(err)
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(b.dir, "home")
	for _, d := range []string{home + "/.ssh", b.app} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh", "PERDURE_STATE=" + b.dir + "/state", "GOCACHE=" + strings.TrimSpace(string(cache)), "GOFLAGS=-buildvcs=false", "LC_ALL=C", "GORACE=" + os.Getenv("GORACE")}
	b.must("", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", b.dir+"/key")
	key, err := os.ReadFile(b.dir + "/key.pub")
	if err != nil {
		t.Fatal(err)
	}
	b.write(home+"/.ssh/authorized_keys", string(key))
	b.write(b.app+"/go.mod", "module example.com/app\n\ngo 1.24\n")
	b.write(b.app+"/a.go", "package app\n\nfunc Add(a, b int) int { return a + b }\n")
	b.write(b.app+"/a_test.go", "package app\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n\nfunc TestZero(t *testing.T) {\n\tif Add(0, 0) != 0 {\n\t\tt.Fatal()\n\t}\n}\n")
	b.must(b.app, "git", "init", "-q")
	b.must(b.app, "git", "add", "-A")
	b.must(b.app, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "begin")
	t.Cleanup(b.close)
	b.serve("127.0.0.1:0")
	return b
}

func (b *box) write(path, text string) {
	b.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) must(dir, name string, args ...string) string {
	b.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if b.env != nil {
		cmd.Env = b.env
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// run is a perdure command with its exit status.
func (b *box) run(args ...string) (string, int) {
	b.t.Helper()
	cmd := exec.Command(b.bin, args...)
	cmd.Dir, cmd.Env = b.app, b.env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (b *box) want(status int, args ...string) string {
	b.t.Helper()
	out, got := b.run(args...)
	if got != status {
		b.t.Fatalf("perdure %q: status %d, want %d\n%s", args, got, status, out)
	}
	return out
}

var ready = regexp.MustCompile(`ready on [\d.]+:(\d+)`)

func (b *box) serve(listen string) {
	b.t.Helper()
	argv := []string{b.bin, "serve", "--listen", listen}
	if b.in != "" {
		argv = append([]string{"ip", "netns", "exec", b.in}, argv...)
	}
	b.server = exec.Command(argv[0], argv[1:]...)
	b.server.Env = b.env
	r, w, err := os.Pipe()
	if err != nil {
		b.t.Fatal(err)
	}
	b.server.Stdout, b.server.Stderr = w, w
	if err := b.server.Start(); err != nil {
		b.t.Fatal(err)
	}
	w.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if m := ready.FindStringSubmatch(lines.Text()); m != nil {
			b.port = m[1]
			go func() { _, _ = io.Copy(io.Discard, r); r.Close() }()
			return
		}
	}
	b.t.Fatal("the server ended before it was ready")
}

func (b *box) kill() {
	_ = b.server.Process.Kill()
	_ = b.server.Wait()
}

// close removes the workspaces, so that no host outlives the test, and looks whether a process of this box does: one
// that was left is ended here, so that no other test is told of it.
func (b *box) close() {
	if out, status := b.run("ls", "--json"); status == 0 {
		var list []struct{ Name string }
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			b.t.Error(err)
		}
		for _, w := range list {
			b.run("rm", w.Name)
		}
	}
	b.kill()
	pids := slices.DeleteFunc(b.processes(), ends)
	if len(pids) > 0 {
		out, _ := exec.Command("ps", "-o", "pid,ppid,args", "-p", strings.Join(pids, ",")).Output()
		b.t.Errorf("processes survive:\n%s", out)
	}
	for _, p := range pids {
		if pid, err := strconv.Atoi(p); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// patience is what a process that ends by itself may take to.
const patience = 15 * time.Second

// ends says whether a process ends by itself within seconds, as a git whose server was killed does.
func ends(pid string) bool {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return true
	}
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	for late := time.Now().Add(patience); time.Now().Before(late); {
		ended, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000)
		if err != nil && !errors.Is(err, unix.EINTR) { // the runtime's own signals interrupt it
			return false
		}
		if ended > 0 {
			return true
		}
	}
	return false
}

// processes are those whose environment names this box's state folder: whatever perdure started for it.
func (b *box) processes() (pids []string) {
	envs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range envs {
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, []byte("="+b.dir+"/")) {
			continue
		}
		pids = append(pids, filepath.Base(filepath.Dir(path)))
	}
	return pids
}

func (b *box) ssh(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ssh", append([]string{"-F", "/dev/null", "-p", b.port, "-i", b.dir + "/key", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR",
		"-o", "StrictHostKeyChecking=accept-new", "-o", "UserKnownHostsFile=" + b.dir + "/known_hosts"}, args...)...)
	cmd.Env = b.env
	return cmd
}

// terminal is an ssh client in a pty.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	seen bytes.Buffer
	last string // all of what showed until what was expected
}

func (b *box) attach() *terminal {
	b.t.Helper()
	return b.inTerminal(b.ssh(context.Background(), "-t", "app@127.0.0.1"))
}

// direct attaches on the box, to the host itself.
func (b *box) direct() *terminal {
	b.t.Helper()
	cmd := exec.Command(b.bin, "attach", "app", "--direct")
	cmd.Env = b.env
	return b.inTerminal(cmd)
}

func (b *box) inTerminal(cmd *exec.Cmd) *terminal {
	b.t.Helper()
	return b.inWindow(cmd, 100)
}

func (b *box) inWindow(cmd *exec.Cmd, cols uint16) *terminal {
	b.t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: cols, Rows: 30})
	if err != nil {
		b.t.Fatal(err)
	}
	return &terminal{t: b.t, cmd: cmd, tty: tty}
}

// expect reads until the pattern shows and returns its first group.
func (x *terminal) expect(pattern string) string {
	x.t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.AfterFunc(time.Minute, func() { _ = x.cmd.Process.Kill() })
	defer late.Stop()
	buf := make([]byte, 4096)
	for {
		if m := re.FindSubmatch(x.seen.Bytes()); m != nil {
			x.last = x.seen.String()
			x.seen.Reset()
			return string(m[len(m)-1])
		}
		n, err := x.tty.Read(buf)
		if err != nil {
			seen := x.seen.String()
			x.t.Fatalf("%q never showed: %v\n%q", pattern, err, seen[max(0, len(seen)-4000):])
		}
		x.seen.Write(buf[:n])
	}
}

func (x *terminal) send(text string) {
	x.t.Helper()
	if _, err := io.WriteString(x.tty, text); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) kill() {
	_ = x.cmd.Process.Kill()
	_ = x.cmd.Wait()
	x.tty.Close()
}

// event waits until the log of app has so many events of this kind, by following it.
func (b *box) event(kind string, after int) {
	b.t.Helper()
	b.follow(kind, after, "app")
}

// follow waits for events of any workspace, or of the one that is named.
func (b *box) follow(kind string, after int, name ...string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.bin, append([]string{"events", "--follow", "--json"}, name...)...)
	cmd.Env = b.env
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var e struct{ Kind string }
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Kind == kind {
			if after--; after <= 0 {
				return
			}
		}
	}
	b.t.Fatalf("no event %s", kind)
}

func (b *box) session() (state string, pid, host int) {
	b.t.Helper()
	var w struct {
		Session struct {
			State string
			Pid   int
		}
	}
	if err := json.Unmarshal([]byte(b.want(0, "show", "app", "--json")), &w); err != nil {
		b.t.Fatal(err)
	}
	return w.Session.State, w.Session.Pid, parentOf(b.t, w.Session.Pid)
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	var state string
	var parent int
	rest := string(data[bytes.LastIndexByte(data, ')')+1:])
	if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
		t.Fatal(err)
	}
	return parent
}

// The main job: what is lost in turn is the client, the server and the session; what is found again is the same
// process, or verified work.
func TestWorkSurvivesEveryBreak(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "go test ./...")
	b.want(0, "handoff", "record", "app", "--passed", "TestAdd", "--passed", "TestZero", "--next", "go on", "--wait")

	x := b.attach()
	x.expect(`a fresh session starts`)
	x.send("echo pid=$$\r")
	pid := x.expect(`pid=(\d+)\r\n`)
	x.kill()
	b.event("snapshot", 3) // made, recorded, and the disconnect's
	if out := b.want(0, "snapshots", "app", "--json"); !strings.Contains(out, `"reason": "disconnect"`) {
		t.Errorf("no snapshot of the disconnect: %s", out)
	}

	b.kill()
	b.serve("127.0.0.1:" + b.port)
	x = b.attach()
	x.send("echo again=$$\r")
	if again := x.expect(`again=(\d+)\r\n`); again != pid {
		t.Errorf("pid %s, was %s", again, pid)
	}

	_, _, host := b.session()
	if err := syscall.Kill(host, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	x.expect(`session of app was lost`)
	x.kill()
	if state, _, _ := b.session(); state != "lost" {
		t.Errorf("the session is %s", state)
	}
	if out := b.want(0, "log", "app"); !strings.Contains(out, "again="+pid) {
		t.Errorf("the lost session's journal: %q", out)
	}
	x = b.attach()
	x.expect(`(?s)holds: record.*a fresh session starts`)
	x.send("echo verdict=$PERDURE_VERDICT pid=$$\r")
	if fresh := x.expect(`verdict=holds pid=(\d+)\r\n`); fresh == pid {
		t.Error("the same process after its host was killed")
	}
	x.send("exit 7\r")
	if err := x.cmd.Wait(); x.cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("the session's exit status: %v", err)
	}
}

// A record that was written before the last edit is caught, and stops the work until it is repaired.
func TestAStaleRecordHaltsUntilItIsRepaired(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "go test ./...")
	b.want(12, "handoff", "record", "app", "--failed", "TestAdd: known", "--next", "x", "--wait")
	b.want(0, "handoff", "record", "app", "--passed", "TestAdd", "--passed", "TestZero", "--next", "go on", "--wait")
	b.want(0, "handoff", "verify", "app")

	b.write(b.app+"/a.go", "package app\n\nfunc Add(a, b int) int { return a - b }\n")
	out := b.want(12, "handoff", "verify", "app")
	for _, want := range []string{"example.com/app.TestAdd", "a.go"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report does not name %s:\n%s", want, out)
		}
	}
	b.want(4, "start", "app")
	b.want(4, "handoff", "record", "app", "--finished", "--wait")
	b.want(4, "handoff", "repair", "app", "--carry")
	b.want(4, "handoff", "repair", "app", "--explain", "a.go: edited late", "--failed", "TestAdd: mine", "--passed", "TestZero", "--next", "fix", "--wait")
	b.want(0, "handoff", "repair", "app", "--explain", "a.go: edited late", "--explain", "example.com/app.TestAdd: broken by it", "--failed", "TestAdd: mine", "--passed", "TestZero", "--next", "fix", "--wait")
	b.want(0, "handoff", "verify", "app")
	b.want(0, "start", "app")
}

// A restore brings back every byte and mode, and the user's repository is untouched by all of it.
func TestARestoreIsIdenticalAndTheRepositoryUntouched(t *testing.T) {
	b := newBox(t)
	before := b.must(b.app, "sh", "-c", "git status --porcelain=v2; sha256sum .git/index .git/config; git for-each-ref")
	b.write(b.app+"/new file", "\x00binary\xff")
	if err := os.Chmod(b.app+"/new file", 0o700); err != nil {
		t.Fatal(err)
	}
	b.want(0, "new", "app")
	b.want(0, "snapshot", "app")
	b.want(0, "restore", "app", "latest", "--to", b.dir+"/back")
	b.must("", "diff", "-r", "-x", ".git", b.app, b.dir+"/back")
	if fi, err := os.Stat(b.dir + "/back/new file"); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("mode: %v, %v", fi.Mode(), err)
	}
	if err := os.Remove(b.app + "/new file"); err != nil {
		t.Fatal(err)
	}
	if after := b.must(b.app, "sh", "-c", "git status --porcelain=v2; sha256sum .git/index .git/config; git for-each-ref"); after != before {
		t.Errorf("the repository changed:\n%s\nwas\n%s", after, before)
	}
}

// A host that had hung up wrote its last screen into a folder that was being removed.
func TestStopReturnsOnceTheHostIsGone(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--", "sh", "-c", "seq 1 2000; cat")
	for range 5 {
		b.want(0, "start", "app")
		b.want(0, "wait", "app", "--for", "text=^2000$", "--timeout", "1m")
		b.want(0, "stop", "app")
		if out, err := exec.Command("pgrep", "-f", "host "+b.dir).Output(); err == nil {
			t.Fatalf("stop returned, and the host lives: %s", out)
		}
	}
}
