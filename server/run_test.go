package server

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"
)

// A whole server in this process, used as people use it and then told to end, leaves no goroutine and no lock; the
// sessions' hosts live on, and a second server adopts them.
func TestAServerThatEndsLeavesNothingBehindButItsHosts(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	dir := t.TempDir()
	bin := filepath.Join(dir, "perdure")
	invoke(t, nil, "go", "build", "-o", bin, "perdure/cmd/perdure")
	state, work := filepath.Join(dir, "state"), filepath.Join(dir, "work")
	must(t, os.Mkdir(work, 0o700))
	must(t, os.WriteFile(filepath.Join(work, "f"), []byte("1"), 0o600))
	env := append(os.Environ(), "PERDURE_STATE="+state, "PERDURE_WORKSPACE=", "SHELL=/bin/sh")
	t.Setenv("SHELL", "/bin/sh")

	end := serveHere(t, state, bin)
	invoke(t, env, bin, "new", "app", "--dir", work, "--check", "test -e f")
	invoke(t, env, bin, "handoff", "record", "app", "--passed", "check", "--next", "go on", "--wait")
	follow, stop := context.WithCancel(context.Background())
	events := exec.CommandContext(follow, bin, "events", "--follow")
	events.Env = env
	must(t, events.Start())
	attached := attachTo(t, env, bin)
	attached.until("fresh session")
	_, err := io.WriteString(attached.tty, "echo pid=$$\r")
	must(t, err)
	pid := attached.until(`pid=(\d+)`)
	invoke(t, env, bin, "handoff", "verify", "app")
	end() // with a client that is attached and one that follows
	attached.close()
	stop()
	_ = events.Wait() // it was told to end

	end = serveHere(t, state, bin)
	attached = attachTo(t, env, bin)
	_, err = io.WriteString(attached.tty, "echo again=$$\r")
	must(t, err)
	if again := attached.until(`again=(\d+)`); again != pid {
		t.Errorf("pid %s after the server's restart, was %s", again, pid)
	}
	attached.close()
	invoke(t, env, bin, "rm", "app")
	end()
	goleak.VerifyNone(t, ignore)
}

// serveHere runs a server in this process; what it returns ends it and waits.
func serveHere(t *testing.T, state, bin string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	said, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{State: state, Executable: bin, Stderr: out, Load: func() (Settings, error) {
			s := DefaultSettings()
			s.Listen = []string{"none"}
			return s, nil
		}})
		out.Close()
	}()
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "ready") {
	}
	if !strings.Contains(lines.Text(), "ready") {
		t.Fatalf("the server is not ready: %v", <-done)
	}
	said.Close() // what it says later is for nobody
	return func() {
		cancel()
		select {
		case err := <-done:
			must(t, err)
		case <-time.After(time.Minute):
			t.Fatal("the server does not end")
		}
	}
}

func invoke(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// tty is a client that is attached from a terminal.
type tty struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	seen bytes.Buffer
}

func attachTo(t *testing.T, env []string, bin string) *tty {
	t.Helper()
	cmd := exec.Command(bin, "attach", "app")
	cmd.Env = append(env, "TERM=xterm")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 100, Rows: 30})
	must(t, err)
	return &tty{t: t, cmd: cmd, tty: f}
}

// until reads until a pattern shows, and returns its last group.
func (c *tty) until(pattern string) string {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	buf := make([]byte, 4096)
	for {
		if m := re.FindSubmatch(c.seen.Bytes()); m != nil {
			return string(m[len(m)-1])
		}
		n, err := c.tty.Read(buf)
		if err != nil {
			c.t.Fatalf("%q never showed: %v\n%q", pattern, err, c.seen.String())
		}
		c.seen.Write(buf[:n])
	}
}

func (c *tty) close() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	c.tty.Close()
}
