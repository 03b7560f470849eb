package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"
	"golang.org/x/term"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("os/signal.signal_recv"), goleak.IgnoreTopFunction("os/signal.loop"))
}

func TestRunPlain(t *testing.T) {
	env := make(chan map[string]string, 1)
	socket := serve(t, func(c *channel) { env <- c.env; echo(c) })
	var out, errOut bytes.Buffer
	status, err := Run(context.Background(), Options{Socket: socket, Args: []string{"cat", "a b"}, Env: []string{"REFUSED=1", "PERDURE_CWD=/x"},
		Stdin: strings.NewReader("in"), Stdout: &out, Stderr: &errOut})
	if err != nil || status != 7 || out.String() != "cat 'a b'\nin" || errOut.String() != "err" {
		t.Fatalf("got %d, %v, %q, %q", status, err, &out, &errOut)
	}
	if e := <-env; e["PERDURE_CWD"] != "/x" {
		t.Errorf("the environment is %v", e)
	}
}

// A command that is done doesn't wait for an input that goes on.
func TestRunLeavesTheInput(t *testing.T) {
	socket := serve(t, func(c *channel) { c.exit(0) })
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if status, err := Run(context.Background(), Options{Socket: socket, Args: []string{"x"}, Stdin: r}); status != 0 || err != nil {
		t.Fatalf("got %d, %v", status, err)
	}
	fmt.Fprint(w, "next")
	buf := make([]byte, 8)
	if n, _ := r.Read(buf); string(buf[:n]) != "next" {
		t.Fatalf("the input was taken: %q is left", buf[:n])
	}
}

func TestRunSignals(t *testing.T) {
	socket := serve(t, func(c *channel) {
		fmt.Fprint(c, "up")
		c.exitSignal(<-c.signals)
	})
	r, w := io.Pipe()
	go func() {
		buf := make([]byte, 2)
		_, _ = io.ReadFull(r, buf)
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
	}()
	status, err := Run(context.Background(), Options{Socket: socket, Args: []string{"x"}, Stdout: w})
	if err != nil || status != 130 {
		t.Fatalf("got %d, %v", status, err)
	}
}

func TestUnreachable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := serve(t, func(c *channel) { c.Close() })
	for _, o := range []Options{
		{Socket: filepath.Join(dir, "none")},
		{Socket: file},
		{Socket: broken},
		{Host: "box", SSH: filepath.Join(dir, "no-ssh")},
		{Host: "box", SSH: "sh -c 'exit 255'"},
		{Host: "box", SSH: "'"},
	} {
		o.Args = []string{"ls"}
		if _, err := Run(context.Background(), o); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	up := make(chan struct{})
	socket := serve(t, func(c *channel) { close(up); _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-up; cancel() }()
	r, w, _ := os.Pipe()
	defer r.Close()
	defer w.Close()
	if _, err := Run(ctx, Options{Socket: socket, Args: []string{"x"}, Stdin: r}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestRunSystem(t *testing.T) {
	var out bytes.Buffer
	script := `sh -c 'for a; do printf "[%s]" "$a"; done; exit 12' ssh -F none`
	status, err := Run(context.Background(), Options{Host: "me@box:2222", SSH: script, Args: []string{"show", "a b"}, Stdout: &out})
	want := "[-F][none][-T][-o][SendEnv=COLORTERM LANG LC_*][-p][2222][me@box][show 'a b']"
	if err != nil || status != 12 || out.String() != want {
		t.Fatalf("got %d, %v, %s", status, err, &out)
	}
	if _, err := Run(context.Background(), Options{Host: "-x"}); !errors.Is(err, ErrHost) {
		t.Fatalf("got %v", err)
	}
}

// openPty is a terminal and what is typed at it and shown on it.
func openPty(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close(); keys.Close() })
	if err := pty.Setsize(keys, &pty.Winsize{Cols: 100, Rows: 30, X: 1000, Y: 600}); err != nil {
		t.Fatal(err)
	}
	return keys, tty
}

// A terminal is raw while the command runs, follows the window, and is as it was afterwards.
func TestRunTerminal(t *testing.T) {
	keys, tty := openPty(t)
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	socket := serve(t, func(c *channel) {
		fmt.Fprintf(c, "%dx%d %dx%d", c.pty.Cols, c.pty.Rows, c.pty.XPixel, c.pty.YPixel)
		buf := make([]byte, 1)
		_, _ = io.ReadFull(c, buf) // raw: a single key, an interrupt too, arrives without a newline
		fmt.Fprintf(c, " %d", buf[0])
		_ = pty.Setsize(keys, &pty.Winsize{Cols: 50, Rows: 10})
		_ = syscall.Kill(os.Getpid(), syscall.SIGWINCH) // it isn't our controlling terminal
		w := <-c.sizes
		fmt.Fprintf(c, " %dx%d.", w.Cols, w.Rows)
		c.exit(3)
	})
	shown := make(chan string, 1)
	go func() {
		var all []byte
		buf := make([]byte, 256)
		for !bytes.HasSuffix(all, []byte(".")) {
			n, err := keys.Read(buf)
			if err != nil {
				break
			}
			if all = append(all, buf[:n]...); string(all) == "100x30 1000x600" {
				_, _ = keys.Write([]byte{3})
			}
		}
		shown <- string(all)
	}()
	status, err := Run(context.Background(), Options{Socket: socket, Args: []string{"attach"}, Stdin: tty, Stdout: tty, TTY: true})
	if err != nil || status != 3 {
		t.Fatalf("got %d, %v", status, err)
	}
	if got := <-shown; got != "100x30 1000x600 3 50x10." {
		t.Errorf("shown: %q", got)
	}
	if after, err := term.GetState(int(tty.Fd())); err != nil || *after != *before {
		t.Errorf("the terminal is not as it was: %v", err)
	}
}

// A server that breaks off can't tidy up: we do.
func TestBrokenTerminalIsRestored(t *testing.T) {
	keys, tty := openPty(t)
	before, _ := term.GetState(int(tty.Fd()))
	socket := serve(t, func(c *channel) { fmt.Fprint(c, "\x1b[?25l"); c.Close() })
	_, err := Run(context.Background(), Options{Socket: socket, Args: []string{"attach"}, Stdin: tty, Stdout: tty, TTY: true})
	if !errors.Is(err, ErrUnreachable) {
		t.Fatalf("got %v", err)
	}
	if after, err := term.GetState(int(tty.Fd())); err != nil || *after != *before {
		t.Errorf("the terminal is not as it was: %v", err)
	}
	_ = keys.SetReadDeadline(time.Now().Add(time.Minute))
	var shown []byte
	for buf := make([]byte, 4096); !bytes.Contains(shown, []byte("\x1b[?25h")); {
		n, err := keys.Read(buf)
		if err != nil {
			t.Fatalf("the cursor stays hidden: %q", shown)
		}
		shown = append(shown, buf[:n]...)
	}
}

func TestNoTerminal(t *testing.T) {
	socket := serve(t, func(c *channel) { c.exit(0) })
	if _, err := Run(context.Background(), Options{Socket: socket, Stdin: strings.NewReader(""), Stdout: io.Discard, TTY: true}); !errors.Is(err, errNoTerminal) {
		t.Fatalf("got %v", err)
	}
}

// A signal that ends us gives the terminal back first.
func TestSignalRestoresTheTerminal(t *testing.T) {
	_, tty := openPty(t)
	before, _ := term.GetState(int(tty.Fd()))
	socket := serve(t, func(c *channel) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, c)
	})
	status, err := Run(context.Background(), Options{Socket: socket, Args: []string{"attach"}, Stdin: tty, Stdout: tty, TTY: true})
	if err != nil || status != 143 {
		t.Fatalf("got %d, %v", status, err)
	}
	if after, err := term.GetState(int(tty.Fd())); err != nil || *after != *before {
		t.Errorf("the terminal is not as it was: %v", err)
	}
}
