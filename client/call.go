package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/shlex"

	"perdure/client/link"
)

const (
	// preamble is how a relay begins; a login shell may print before it.
	preamble = "PRDR\x00"
	// maxNoise is how much it may print, in bytes.
	maxNoise = 256 << 10
	// maxWords is how much is kept of what ssh says on standard error.
	maxWords = 8 << 10
	// hangUpTime is what ssh gets to end by itself.
	hangUpTime = 80 * time.Millisecond
)

// caller runs ssh for a link.
type caller struct {
	host   string
	ssh    string // the ssh program with arguments, "" for "ssh"
	path   string // of perdure at the far end
	stderr io.Writer
}

// dial runs `perdure relay NAME` at the far end.
func (k *caller) dial(ctx context.Context, first bool, workspace string) (link.Stream, error) {
	argv, err := k.argv(first, workspace)
	if err != nil {
		return nil, err
	}
	c := &call{cmd: exec.Command(argv[0], argv[1:]...), first: first, early: first, host: k.host, words: &words{}, over: make(chan struct{})}
	if first {
		c.words.show = k.stderr // until the relay speaks
	} else {
		// Nothing of a later attempt may reach the terminal, which is the session's: no terminal, no questions. A
		// session of its own is also a process group, which ends as one.
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	c.cmd.Stderr = c.words
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("run ssh: %w", err)
	}
	if c.out, err = c.cmd.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("run ssh: %w", err)
	}
	c.cmd.WaitDelay = hangUpTime // a child of ssh's may hold its standard error open
	if err := c.cmd.Start(); err != nil {
		return nil, &link.FinalError{Status: 5, Err: fmt.Errorf("%w: run %s: %w", ErrUnreachable, argv[0], err)}
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := c.findPreamble(); err != nil {
		reason := c.Failure()
		c.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if reason != nil {
			return nil, reason
		}
		return nil, err
	}
	c.words.quiet()
	c.early = false
	return c, nil
}

// argv is ssh's command line. The first connection may ask and show; a later one is silent. None goes through a
// control master, which may be as stale as the connection that broke, nor opens the person's forwards a second time.
func (k *caller) argv(first bool, workspace string) ([]string, error) {
	user, host, port, err := splitHost(k.host)
	if err != nil {
		return nil, err
	}
	argv := []string{"ssh"}
	if strings.TrimSpace(k.ssh) != "" {
		if argv, err = shlex.Split(k.ssh); err != nil || len(argv) == 0 {
			return nil, fmt.Errorf("%w: PERDURE_SSH: %q is no command: %w", ErrUnreachable, k.ssh, err)
		}
	}
	argv = append(argv, "-T", "-S", "none", "-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes", "-o", "IPQoS=af21", "-o", "EscapeChar=none", "-o", "SendEnv=COLORTERM LANG LC_*")
	if !first {
		argv = append(argv, "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ConnectionAttempts=1")
	}
	if port != "" {
		argv = append(argv, "-p", port)
	}
	if strings.LastIndexByte(k.host, '@') >= 0 {
		host = user + "@" + host // without a user, ssh's configuration knows
	}
	path := k.path
	if path == "" {
		path = "perdure"
	}
	line := []string{path, "relay"}
	if workspace != "" {
		line = append(line, workspace)
	}
	return append(argv, host, Quote(line)), nil
}

// call is one run of ssh.
type call struct {
	cmd   *exec.Cmd
	first bool
	early bool // the first, and the relay hasn't spoken: whatever goes wrong is the person's to mend
	host  string
	in    io.WriteCloser
	out   io.ReadCloser
	head  []byte // what was read beyond the noise
	words *words

	once sync.Once
	over chan struct{} // closed when ssh has ended
}

func (c *call) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.out.Read(p)
}

func (c *call) Write(p []byte) (int, error) { return c.in.Write(p) }

// findPreamble reads over what a login shell printed.
func (c *call) findPreamble() error {
	var all []byte
	buf := make([]byte, 4096)
	for len(all) < maxNoise {
		n, err := c.out.Read(buf)
		all = append(all, buf[:n]...)
		if i := bytes.Index(all, []byte(preamble)); i >= 0 && len(all) >= i+len(preamble)+1 {
			c.head = all[i:]
			return nil
		}
		if err != nil {
			break
		}
	}
	if noise := lastLine(string(all)); noise != "" {
		return fmt.Errorf("%w, but said: %.200s", errNoRelay, noise)
	}
	return errNoRelay
}

var errNoRelay = errors.New("the far end didn't begin to speak perdure's protocol")

// Close ends ssh, politely at first.
func (c *call) Close() error {
	c.once.Do(func() {
		c.in.Close()
		c.signal(syscall.SIGTERM)
		killer := time.AfterFunc(hangUpTime, func() { c.signal(syscall.SIGKILL) })
		_ = c.cmd.Wait() // Failure looks at the state
		killer.Stop()
		close(c.over)
	})
	<-c.over
	return nil
}

func (c *call) signal(s syscall.Signal) {
	pid := c.cmd.Process.Pid
	if !c.first {
		pid = -pid
	}
	_ = syscall.Kill(pid, s) // it may have ended; it isn't waited for yet, so that its number is its own
}

// Failure tells why ssh ended. Only what would be the same the next time is final.
func (c *call) Failure() error {
	c.end()
	state := c.cmd.ProcessState
	if state == nil || !state.Exited() {
		return nil
	}
	text := c.words.text()
	shown := c.early && c.words.show != nil
	switch code := state.ExitCode(); code {
	case 0:
		return nil
	case sshFailed:
		return c.sshFailure(text)
	case 5: // no server there
		if !c.early {
			return errors.New(orText(text, "no server answers there"))
		}
		return &link.FinalError{Status: 5, Err: said(shown, text, fmt.Errorf("%w: %s", ErrUnreachable, c.host))}
	case 126, 127:
		return &link.FinalError{Status: 1, Err: said(shown, text, fmt.Errorf("perdure can't be run at %s (status %d)", c.host, code)), Hint: "name its path there with --remote-path"}
	case 1:
		if !c.early {
			return errors.New(orText(text, "the relay failed"))
		}
		fallthrough
	default:
		return &link.FinalError{Status: code, Err: said(shown, text, fmt.Errorf("the relay at %s ended with status %d", c.host, code))}
	}
}

// end gives ssh the moment it needs to end after its output has, and waits for it.
func (c *call) end() {
	c.once.Do(func() {
		killer := time.AfterFunc(time.Second, func() { c.signal(syscall.SIGKILL) })
		_ = c.cmd.Wait()
		killer.Stop()
		close(c.over)
	})
	<-c.over
}

// finalWords are ssh's words for failures that another attempt would meet again (OpenSSH's own; they aren't translated).
var finalWords = []string{"Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED", "Permission denied (", "Too many authentication failures",
	"no matching host key type", "no matching key exchange", "Bad configuration option"}

func (c *call) sshFailure(text string) error {
	err := fmt.Errorf("%w: %s: ssh gave up: %s", ErrUnreachable, c.host, orText(lastLine(text), "status 255"))
	if c.early {
		return &link.FinalError{Status: 5, Err: err}
	}
	for _, w := range finalWords {
		if strings.Contains(text, w) {
			return &link.FinalError{Status: 5, Err: err}
		}
	}
	return errors.New(orText(lastLine(text), "ssh gave up"))
}

// said is the error for what the far end has said by itself: nothing more, where the person has read it.
func said(shown bool, text string, err error) error {
	if shown && text != "" {
		return errSaid
	}
	if text != "" {
		return fmt.Errorf("%w: %s", err, strings.TrimPrefix(firstOf(text), "perdure: "))
	}
	return err
}

// errSaid is an error that the far end has explained to the person already.
var errSaid = errors.New("see above")

func orText(text, other string) string {
	if text = strings.TrimSpace(text); text == "" {
		return other
	}
	return text
}

func firstOf(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// words is the end of what ssh said, shown as it comes while there is somebody to show it to.
type words struct {
	mu   sync.Mutex
	show io.Writer
	kept []byte
	mute bool
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, p...)
	if over := len(w.kept) - maxWords; over > 0 {
		w.kept = w.kept[over:]
	}
	if w.show != nil && !w.mute {
		_, _ = w.show.Write(p) // a person who can't be told can't be helped
	}
	return len(p), nil
}

// quiet keeps the rest off the terminal.
func (w *words) quiet() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute, w.kept = true, nil
}

func (w *words) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.kept)
}
