package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sshOptions are those of a client that knows nothing of this machine's configuration.
func sshOptions(key testKey) []string {
	return []string{
		"-F", "none", "-i", key.file, "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "IdentityAgent=none",
	}
}

func (d *testDoor) port() string {
	_, port, err := net.SplitHostPort(d.addr)
	check(d.t, err)
	return port
}

// ssh is the real client.
func (d *testDoor) ssh(user string, key testKey, args ...string) *exec.Cmd {
	d.t.Helper()
	return exec.Command("ssh", append(append(sshOptions(key), "-p", d.port(), user+"@127.0.0.1"), args...)...)
}

// openForExec is a door with one key whose execs really run.
func openForExec(t *testing.T) (*testDoor, testKey) {
	t.Helper()
	d := openDoor(t, nil, nil)
	key := newTestKey(t)
	d.authorize(key.line(""))
	return d, key
}

func randomBytes(t *testing.T, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	_, err := rand.Read(b)
	check(t, err)
	return b
}

func status(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if err == nil {
		return 0
	}
	if !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return exit.ExitCode()
}

func TestSSHExecPassesEverythingThrough(t *testing.T) {
	d, key := openForExec(t)
	t.Run("bytes both ways and the end of input", func(t *testing.T) {
		data := randomBytes(t, 1<<20)
		cmd := d.ssh("w", key, "cat")
		cmd.Stdin = bytes.NewReader(data)
		out, err := cmd.Output()
		if err != nil || !bytes.Equal(out, data) {
			t.Errorf("%d bytes of %d, %v", len(out), len(data), err)
		}
	})
	t.Run("exit status", func(t *testing.T) {
		if got := status(t, d.ssh("w", key, "exit 42").Run()); got != 42 {
			t.Error(got)
		}
	})
	t.Run("separate streams", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		cmd := d.ssh("w", key, "echo out; echo err >&2")
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil || stdout.String() != "out\n" || stderr.String() != "err\n" {
			t.Errorf("%q %q %v", &stdout, &stderr, err)
		}
	})
	t.Run("a signal", func(t *testing.T) {
		var stderr bytes.Buffer
		cmd := d.ssh("w", key, "kill -TERM $$")
		cmd.Stderr = &stderr
		if got := status(t, cmd.Run()); got != 255 {
			t.Error(got, stderr.String())
		}
	})
	t.Run("the end of input on a terminal", func(t *testing.T) {
		cmd := d.ssh("w", key, "-tt", "stty -echo; cat; echo done $TERM")
		cmd.Env = append(os.Environ(), "TERM=vt220")
		cmd.Stdin = strings.NewReader("no newline")
		out, err := cmd.Output()
		if err != nil || !strings.HasSuffix(string(out), "done vt220\r\n") {
			t.Errorf("%q %v", out, err)
		}
	})
}

func TestTerminalInRawModePassesBytes(t *testing.T) {
	d, key := openForExec(t)
	data := randomBytes(t, 64<<10)
	// Without an escape character: random bytes hold a newline and ~ now and then, which the client would eat.
	cmd := d.ssh("w", key, "-e", "none", "-tt", "stty raw -echo; echo ready; head -c 65536")
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	ready := make([]byte, len("ready\n"))
	_, err = io.ReadFull(out, ready)
	check(t, err)
	go func() { _, _ = in.Write(data) }()
	got, err := io.ReadAll(out)
	check(t, err)
	in.Close()
	if err := cmd.Wait(); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestFileToolsWork(t *testing.T) {
	d, key := openForExec(t)
	local := t.TempDir()
	data := randomBytes(t, 1<<20)
	check(t, os.WriteFile(filepath.Join(local, "f"), data, 0o600))
	ssh := "ssh " + strings.Join(sshOptions(key), " ") + " -p " + d.port()
	for name, argv := range map[string][]string{
		"scp -O": append(append([]string{"scp", "-O", "-P", d.port()}, sshOptions(key)...), "f", "w@127.0.0.1:"),
		"scp":    append(append([]string{"scp", "-P", d.port()}, sshOptions(key)...), "f", "w@127.0.0.1:"),
		"rsync":  {"rsync", "-e", ssh, "f", "w@127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(argv[0]); err != nil {
				t.Skip(err)
			}
			there := filepath.Join(d.work, "f")
			_ = os.Remove(there)
			command(t, local, argv...)
			got, err := os.ReadFile(there)
			if err != nil || !bytes.Equal(got, data) {
				t.Error("it differs there", err)
			}
			back := append(argv[:len(argv)-2:len(argv)-2], "w@127.0.0.1:f", "back")
			command(t, local, back...)
			got, err = os.ReadFile(filepath.Join(local, "back"))
			if err != nil || !bytes.Equal(got, data) {
				t.Error("it differs back here", err)
			}
			check(t, os.Remove(filepath.Join(local, "back")))
		})
	}
	t.Run("git", func(t *testing.T) {
		repo := filepath.Join(d.work, "repo")
		command(t, local, "git", "init", "-q", repo)
		check(t, os.WriteFile(filepath.Join(repo, "f"), data, 0o600))
		command(t, repo, "git", "add", "f")
		command(t, repo, "git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "one")
		command(t, local, "git", "-c", "core.sshCommand="+ssh, "clone", "-q", "ssh://w@127.0.0.1:"+d.port()+repo, "clone")
		got, err := os.ReadFile(filepath.Join(local, "clone", "f"))
		if err != nil || !bytes.Equal(got, data) {
			t.Error("the clone differs", err)
		}
	})
}

func command(t *testing.T, dir string, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
}

// TestExecGroupEndsWithTheClient: the command, its children, and one that ignores the hang-up.
func TestExecGroupEndsWithTheClient(t *testing.T) {
	for name, term := range map[string]*Terminal{"pipes": nil, "terminal": {Term: "xterm", Cols: 80, Rows: 24}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			in, typing := io.Pipe()
			defer typing.Close()
			out, printing := io.Pipe()
			r := &Request{In: in, Out: printing, Err: io.Discard, Term: term}
			done := make(chan Exit, 1)
			go func() {
				done <- runExec(ctx, r, t.TempDir(), os.Getenv("PATH"), nil, `trap "" HUP; sleep 1000 & echo $!; wait`)
				printing.Close()
			}()
			line := make([]byte, 32)
			n, err := out.Read(line)
			check(t, err)
			go func() { _, _ = io.Copy(io.Discard, out) }()
			pid := strings.TrimSpace(string(line[:n]))
			cancel()
			select {
			case exit := <-done:
				if exit.Signal != "KILL" {
					t.Error(exit)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it goes on")
			}
			waitGone(t, pid)
		})
	}
}

// waitGone waits for a process that is no child of ours to end.
func waitGone(t *testing.T, pid string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	check(t, err)
	fd, err := unix.PidfdOpen(number, 0)
	if err != nil {
		return // gone already
	}
	defer unix.Close(fd)
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000); n != 1 {
		t.Errorf("process %s lives: %v", pid, err)
	}
}

func TestExecFollowsSizeAndSignals(t *testing.T) {
	resizes, signals := make(chan Terminal, 1), make(chan string, 1)
	in, typing := io.Pipe()
	defer typing.Close()
	out, printing := io.Pipe()
	r := &Request{In: in, Out: printing, Err: printing, Term: &Terminal{Term: "xterm", Cols: 100, Rows: 30}, Resizes: resizes, Signals: signals}
	done := make(chan Exit, 1)
	go func() {
		done <- runExec(context.Background(), r, t.TempDir(), os.Getenv("PATH"), nil,
			`trap 'stty size; exec sleep 1000' WINCH; stty size; while :; do sleep 0.01; done`)
		printing.Close()
	}()
	lines := bufio.NewReader(out)
	read := func() string {
		line, err := lines.ReadString('\n') // a pty may hand over a line in pieces
		check(t, err)
		return line
	}
	if got := read(); got != "30 100\r\n" {
		t.Errorf("%q", got)
	}
	resizes <- Terminal{Cols: 120, Rows: 40}
	if got := read(); got != "40 120\r\n" {
		t.Errorf("%q", got)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	signals <- "KILL"
	if exit := <-done; exit.Signal != "KILL" {
		t.Error(exit)
	}
}

func TestExecThatCannotStartSaysWhy(t *testing.T) {
	var stderr bytes.Buffer
	r := &Request{In: strings.NewReader(""), Out: io.Discard, Err: &stderr}
	exit := runExec(context.Background(), r, filepath.Join(t.TempDir(), "gone"), "", nil, "true")
	if exit.Status != 126 || !strings.Contains(stderr.String(), "gone") {
		t.Error(exit, stderr.String())
	}
}

func TestExecOfSetsidChildThatHoldsTheOutput(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	out, printing := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := &Request{In: strings.NewReader(""), Out: printing, Err: io.Discard}
		runExec(ctx, r, t.TempDir(), os.Getenv("PATH"), nil, `setsid sh -c 'echo $$; exec sleep 1000' & exit 0`)
	}()
	line := make([]byte, 32)
	n, err := out.Read(line)
	check(t, err)
	cancel()
	<-done
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	check(t, err)
	_ = syscall.Kill(pid, syscall.SIGKILL) // it left the group: nohup and setsid are how one asks to stay
}
