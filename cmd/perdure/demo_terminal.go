package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"

	"perdure/workspace/screen"
)

// demoPatience is how long the story waits for what must come: long enough for a cold build on a busy machine.
const demoPatience = 2 * time.Minute

// demoTerminal is the ssh client in a terminal of its own, as a person has it.
type demoTerminal struct {
	cmd  *exec.Cmd
	tty  *os.File
	read chan struct{} // closed when there is nothing more to read

	mu   sync.Mutex
	raw  []byte        // what came and wasn't looked at yet
	more chan struct{} // something came
}

// The size of the terminal, in columns and rows.
const demoCols, demoRows = 150, 40

// sshWords is the ssh client's command line.
func (b *demoBox) sshWords() []string {
	return []string{"ssh", "-F", filepath.Join(b.root, "ssh_config"), "loader@box"}
}

// attach starts ssh in a terminal.
func (b *demoBox) attach() (*demoTerminal, error) {
	words := b.sshWords()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = b.root, b.env
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: demoCols, Rows: demoRows})
	if err != nil {
		return nil, fmt.Errorf("run ssh in a terminal: %w", err)
	}
	x := &demoTerminal{cmd: cmd, tty: tty, read: make(chan struct{}), more: make(chan struct{}, 1)}
	go x.pump()
	return x, nil
}

func (x *demoTerminal) pump() {
	defer close(x.read)
	buf := make([]byte, 32<<10)
	for {
		n, err := x.tty.Read(buf)
		x.mu.Lock()
		x.raw = append(x.raw, buf[:n]...)
		x.mu.Unlock()
		select {
		case x.more <- struct{}{}:
		default:
		}
		if err != nil {
			return // EIO: ssh has ended
		}
	}
}

// overlay is a notice that lies over the screen for a while; it belongs to no output.
var overlay = regexp.MustCompile(`(?s)\x1b7\x1b\[\d+;1H.*?\x1b8`)

// passingLine is how each line of a verification's progress begins.
const passingLine = "perdure: verifying "

// plainText is what a stream to a terminal says: a line that was drawn over stands on its own.
func plainText(raw []byte) string {
	raw = overlay.ReplaceAll(raw, nil)
	raw = bytes.ReplaceAll(raw, []byte("\r\x1b[K"), []byte("\n"))
	lines := strings.Split(screen.Strip(raw), "\n")
	out := lines[:0]
	for _, line := range lines {
		if line != "" || (len(out) > 0 && out[len(out)-1] != "") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// until reads until the text matches, and returns all of it up to then; progress hears its last line meanwhile, and each
// second, for how long that has been going on.
func (x *demoTerminal) until(ctx context.Context, want *regexp.Regexp, progress func(line string, since time.Duration)) (string, error) {
	began, second := time.Now(), time.NewTicker(time.Second)
	defer second.Stop()
	for ended := false; ; {
		text, n := x.text()
		if want.MatchString(text) {
			x.take(n)
			return text, nil
		}
		since := time.Since(began)
		if ended || since > demoPatience {
			return text, fmt.Errorf("expected %q on the terminal within %s; ssh ended: %t; got: %s", want, demoPatience, ended, lastText(text))
		}
		progress(text[strings.LastIndexByte(text, '\n')+1:], since)
		select {
		case <-x.more:
		case <-second.C:
		case <-x.read:
			ended = true
		case <-ctx.Done():
			return text, ctx.Err()
		}
	}
}

// text is what came and wasn't taken, as plain text, and how many bytes that was.
func (x *demoTerminal) text() (string, int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return plainText(x.raw), len(x.raw)
}

func (x *demoTerminal) take(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.raw = x.raw[n:]
}

func lastText(text string) string {
	r := []rune(strings.TrimSpace(text))
	if len(r) == 0 {
		return "(nothing)"
	}
	return string(r[max(0, len(r)-600):])
}

func (x *demoTerminal) send(keys string) error {
	if _, err := io.WriteString(x.tty, keys); err != nil {
		return fmt.Errorf("type into the terminal: %w", err)
	}
	return nil
}

// wait waits for ssh to end by itself, and returns what it still printed and its exit status.
func (x *demoTerminal) wait(ctx context.Context) (string, int, error) {
	limit := time.NewTimer(demoPatience)
	defer limit.Stop()
	select {
	case <-x.read:
	case <-limit.C:
		text, _ := x.text()
		return text, 0, fmt.Errorf("expected ssh to end within %s; got: %s", demoPatience, lastText(text))
	case <-ctx.Done():
		return "", 0, ctx.Err()
	}
	_ = x.cmd.Wait() // its status is looked at below
	x.tty.Close()
	text, _ := x.text()
	return text, x.cmd.ProcessState.ExitCode(), nil
}

// kill ends ssh as a dead link does: without a word.
func (x *demoTerminal) kill() {
	_ = x.cmd.Process.Kill() // it may have ended
	<-x.read
	_ = x.cmd.Wait()
	x.tty.Close()
}
