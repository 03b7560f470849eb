package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"
)

// sandboxed runs a command that may connect to nothing, as the sandboxes of coding agents do it: a filter of system
// calls (seccomp(2)) that answers connect with EPERM.
func sandboxed() {
	runtime.LockOSThread()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CONNECT, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(99)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(99)
	}
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = unix.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "sandbox:", err)
	os.Exit(99)
}

// dropFolder is that of app's live session, as the session knows it.
func (b *box) dropFolder() string {
	b.t.Helper()
	_, pid, _ := b.session()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		b.t.Fatal(err)
	}
	for kv := range strings.SplitSeq(string(data), "\x00") {
		if dir, ok := strings.CutPrefix(kv, "PERDURE_DROP="); ok {
			return dir
		}
	}
	b.t.Fatal("the session has no PERDURE_DROP")
	return ""
}

// An agent whose sandbox forbids sockets records, verifies and reads its brief all the same: by files, with an agent's
// rights and no more.
func TestASandboxedAgentReachesPerdure(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "go test -json ./...", "--goal", "add numbers", "--", "sh")
	b.want(0, "start", "app")
	drop := b.dropFolder()
	if fi, err := os.Stat(drop); err != nil || fi.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", fi, err)
	}
	env := append(slices.Clone(b.env), "PERDURE_WORKSPACE=app", "PERDURE_DROP="+drop)
	run := func(env []string, args ...string) (string, int) {
		t.Helper()
		cmd := exec.Command("perdure-sandboxed", append([]string{b.bin}, args...)...)
		cmd.Dir, cmd.Env = b.app, env
		out, err := cmd.CombinedOutput()
		if _, ok := err.(*exec.ExitError); err != nil && !ok {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, status := run(b.env, "brief", "app"); status != statusUnreachable || !strings.Contains(out, "operation not permitted") {
		t.Fatalf("the sandbox lets connect: %d %s", status, out)
	}
	for _, c := range []struct {
		status int
		want   string
		args   []string
	}{
		{0, "add numbers", []string{"brief"}},
		{12, "TestAdd", []string{"handoff", "record", "--failed", "TestAdd: no", "--finished"}},
		{0, "recorded", []string{"handoff", "record", "--passed", "TestAdd", "--next", "more", "--wait"}},
		{0, "holds", []string{"handoff", "verify"}},
		{0, `"do": "more"`, []string{"handoff", "show", "--json"}},
		{2, "unknown flag", []string{"snapshot", "--nonsense"}},
		{4, "only a person", []string{"rm", "app"}},
		{4, "needs a connection", []string{"events", "--follow"}},
		{3, "no workspace", []string{"show", "nobody"}},
	} {
		if out, status := run(env, c.args...); status != c.status || !strings.Contains(out, c.want) {
			t.Errorf("%v: %d %s", c.args, status, out)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.Command("perdure-sandboxed", b.bin, "mcp")
	cmd.Dir, cmd.Env = b.app, env
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, bad := tool(t, s, "handoff_verify", map[string]any{"quick": true}); bad || !strings.Contains(text, "holds") {
		t.Errorf("by MCP: %s", text)
	}
	s.Close()

	// What is no request stops nothing, and links are not followed.
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(drop, "x.ask"), []byte("{"), 0o600))
	must(os.Symlink(b.app+"/app.go", filepath.Join(drop, "y.ask")))
	must(os.Mkdir(filepath.Join(drop, "z.ask"), 0o700))
	if out, status := run(env, "brief"); status != 0 {
		t.Fatalf("after what is no request: %d %s", status, out)
	}

	// A server that is gone is said; one that comes back is reached again.
	b.kill()
	if out, status := run(env, "brief"); status != statusUnreachable {
		t.Fatalf("without a server: %d %s", status, out)
	}
	b.serve("127.0.0.1:0")
	if out, status := run(env, "brief"); status != 0 || !strings.Contains(out, "add numbers") {
		t.Fatalf("with a server again: %d %s", status, out)
	}
	b.want(0, "rm", "app")
	if _, err := os.Stat(drop); err == nil {
		t.Error("the folder outlives its workspace")
	}
}
