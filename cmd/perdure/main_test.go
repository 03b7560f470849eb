package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	// Under the race detector each process would wait a second at its end, and these tests run thousands.
	if os.Getenv("GORACE") == "" {
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	testscript.Main(m, map[string]func(){"perdure": main, "perdure-panics": panickingDemo, "perdure-sandboxed": sandboxed, "claude": fakeClaude, "gemini": fakeClaude})
}

// TestScript runs testdata/script/*.txtar, each with a home and a state folder of its own.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			home := e.WorkDir + "/home"
			e.Setenv("HOME", home)
			e.Setenv("PERDURE_STATE", e.WorkDir+"/state")
			e.Setenv("GORACE", os.Getenv("GORACE"))
			for _, k := range []string{"PERDURE_SOCKET", "PERDURE_SESSION", "PERDURE_WORKSPACE", "PERDURE_SSH", "XDG_STATE_HOME"} {
				e.Setenv(k, "")
			}
			exe, err := exec.LookPath("perdure")
			if err != nil {
				return err
			}
			e.Setenv("PERDURE", exe) // for scripts that change the PATH
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": cmdStatus, "server": cmdServer},
	})
}

// cmdStatus runs a command and checks its exit status: status N COMMAND ARG...
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND ARG...")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, not %s", got, args[0])
	}
}

// cmdServer runs a server for the rest of the script, without a port: server
func cmdServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: server")
	}
	cmd := exec.Command(ts.Getenv("PERDURE"), "serve", "--listen", "none")
	cmd.Dir = ts.Getenv("WORK")
	for _, name := range []string{"HOME", "PATH", "PERDURE_STATE", "TMPDIR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Env = append(cmd.Env, "SHELL=/bin/sh")
	out, err := cmd.StderrPipe()
	ts.Check(err)
	cmd.Stdout = cmd.Stderr
	ts.Check(cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "perdure: ready on ") {
			read := make(chan struct{})
			go func() {
				defer close(read)
				_, _ = io.Copy(io.Discard, out)
			}()
			ts.Defer(func() {
				_ = cmd.Process.Signal(os.Interrupt)
				<-read
				_ = cmd.Wait()
			})
			return
		}
	}
	ts.Fatalf("the server ended before it was ready")
}

func TestTakeGlobals(t *testing.T) {
	for _, c := range []struct{ in, rest, state, on string }{
		{"auth --goal x", "auth --goal x", "", ""},
		{"--on box auth", "auth", "", "box"},
		{"auth --on=me@box:2 --state /s -x", "auth -x", "/s", "me@box:2"},
		{"auth --only x", "auth --only x", "", ""},
		{"auth --on", "error", "", ""},
	} {
		a := &app{}
		rest, err := a.takeGlobals(strings.Fields(c.in))
		got := strings.Join(rest, " ")
		if err != nil {
			got = "error"
		}
		if got != c.rest || a.state != c.state || a.on != c.on {
			t.Errorf("%q: got %q, %q, %q", c.in, got, a.state, a.on)
		}
	}
}

func TestSplitDashes(t *testing.T) {
	before, after := splitDashes([]string{"a", "--", "b", "--"})
	if !slices.Equal(before, []string{"a"}) || !slices.Equal(after, []string{"--", "b", "--"}) {
		t.Errorf("got %q and %q", before, after)
	}
	before, after = splitDashes([]string{"a"})
	if !slices.Equal(before, []string{"a"}) || len(after) != 0 {
		t.Errorf("got %q and %q", before, after)
	}
}

func TestReadsInput(t *testing.T) {
	for in, want := range map[string]bool{"record auth --claim -": true, "record --claim=-": true, "diff auth -1": false, "ls": false, "snapshot -m a-": false} {
		if got := readsInput(strings.Fields(in)); got != want {
			t.Errorf("%q: %v", in, got)
		}
	}
}

func TestCheckListen(t *testing.T) {
	for in, want := range map[string]bool{":2222": true, "none": true, "127.0.0.1:0 [::1]:22": true, "none :1": false, "2222": false, "localhost": false, "::1:22": false} {
		if err := checkListen("--listen", strings.Fields(in)); (err == nil) != want {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestStateFolder(t *testing.T) {
	t.Setenv("HOME", "/h")
	t.Setenv("PERDURE_STATE", "")
	t.Setenv("XDG_STATE_HOME", "relative")
	a := &app{}
	want := func(dir, source string) {
		t.Helper()
		if v, err := a.stateValue(); err != nil || fmt.Sprint(v.Value) != dir || v.Source != source {
			t.Errorf("got %v, %v; want %s from %s", v, err, dir, source)
		}
	}
	want("/h/.local/state/perdure", "default")
	t.Setenv("XDG_STATE_HOME", "/x")
	want("/x/perdure", "XDG_STATE_HOME")
	t.Setenv("PERDURE_STATE", "/p")
	want("/p", "PERDURE_STATE")
	a.state = "/s/"
	want("/s", "--state")
}
