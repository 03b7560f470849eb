package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// demoBox is a machine in the small, all in one folder: a home, a state folder, a key, a repository and a server.
type demoBox struct {
	root, repo string
	exe        string // this executable
	env        []string
	server     *exec.Cmd
	serverDone chan struct{}

	mu  sync.Mutex
	log []byte // the end of what the server printed after its ready line
}

// demoLog bounds what is kept of the server's log, in bytes.
const demoLog = 4 << 10

// demoRootLen is the longest root under which sockets still fit into the 104 bytes of a unix address.
const demoRootLen = 32

func newDemoBox() (*demoBox, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this binary: %w", err)
	}
	// Whatever the story starts, and whatever is orphaned in it, becomes our child and can be ended (prctl(2)).
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the subreaper: %w", err)
	}
	root, err := demoRoot()
	if err != nil {
		return nil, err
	}
	b := &demoBox{root: root, repo: filepath.Join(root, "shop"), exe: exe}
	if err := b.furnish(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(root))
	}
	return b, nil
}

// demoRoot makes the folder of it all, where the sockets' paths don't get too long.
func demoRoot() (string, error) {
	root, err := os.MkdirTemp("", "perdure-demo-")
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err == nil && len(root) > demoRootLen {
		if short, shortErr := os.MkdirTemp("/tmp", "perdure-demo-"); shortErr == nil {
			return short, os.Remove(root)
		}
	}
	return root, err
}

// agentScript is the stand-in for an agent: a shell, which the story types to as a model would.
const agentScript = `#!/bin/sh
unset ENV HISTFILE
PS1='agent$ ' PS2='> ' TERM=dumb
export PS1 PS2 TERM
exec sh
`

// furnish makes the folders, the environment, the agent, and a key to come in by.
func (b *demoBox) furnish() error {
	for _, dir := range []string{"home/.config/go/telemetry", "bin", "tmp", "shop"} {
		if err := os.MkdirAll(filepath.Join(b.root, dir), 0o700); err != nil {
			return err
		}
	}
	if err := os.Symlink(b.exe, filepath.Join(b.root, "bin", "perdure")); err != nil {
		return err
	}
	b.env = b.environ()
	if err := os.WriteFile(filepath.Join(b.root, "bin", "agent"), []byte(agentScript), 0o700); err != nil {
		return err
	}
	// Sessions start through the login shell, and many a system's profile sets PATH anew.
	profile := "PATH=" + shellWord(b.path()) + "; export PATH\n"
	if err := os.WriteFile(filepath.Join(b.root, "home/.profile"), []byte(profile), 0o600); err != nil {
		return err
	}
	// Left on, the go command may leave a process behind that uploads its counters.
	if err := os.WriteFile(filepath.Join(b.root, "home/.config/go/telemetry/mode"), []byte("off"), 0o600); err != nil {
		return err
	}
	return b.writeKey()
}

func (b *demoBox) path() string {
	return filepath.Join(b.root, "bin") + string(filepath.ListSeparator) + os.Getenv("PATH")
}

// environ is the caller's environment less whatever could lead the story out of its folder: perdure's own variables,
// git's, the go command's, and those of a terminal multiplexer. Only the build cache is shared, since a cold one costs
// half a minute.
func (b *demoBox) environ() []string {
	set := []string{
		"HOME=" + b.root + "/home", "TMPDIR=" + b.root + "/tmp", "SHELL=/bin/sh", "LC_ALL=C", "TERM=xterm-256color",
		"PATH=" + b.path(), "PERDURE_STATE=" + b.root + "/state",
		"GOCACHE=" + b.goCache(), "GOPATH=" + b.root + "/gopath", "GOENV=off", "GOWORK=off", "GOFLAGS=-buildvcs=false", "GOTOOLCHAIN=local",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=demo", "GIT_AUTHOR_EMAIL=demo@example.com",
		"GIT_COMMITTER_NAME=demo", "GIT_COMMITTER_EMAIL=demo@example.com",
	}
	drop := []string{"GO", "CGO_", "GIT_", "PERDURE_", "SSH_", "XDG_", "TMUX", "STY", "LC_", "LANG", "BASH_ENV", "ENV", "PS1", "PS2", "PWD", "OLDPWD", "SHOP_", "CDPATH", "NOTIFY_SOCKET"}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		goRoot := name == "GOROOT" || name == "GOPROXY"
		dropped := slices.ContainsFunc(drop, func(head string) bool { return strings.HasPrefix(name, head) })
		taken := slices.ContainsFunc(set, func(own string) bool { return strings.HasPrefix(own, name+"=") })
		if goRoot || (!dropped && !taken) {
			set = append(set, kv)
		}
	}
	return set
}

// goCache is the person's build cache, where the go command has it, or one of the box's own where they have none (no
// HOME, or a read-only one). The go command isn't asked: it would write into the home while it answers.
func (b *demoBox) goCache() string {
	dir := os.Getenv("GOCACHE")
	if user, err := os.UserCacheDir(); dir == "" && err == nil {
		dir = filepath.Join(user, "go-build")
	}
	// One that isn't there yet would be left behind; one that can't be written to would fail every build.
	if !filepath.IsAbs(dir) || unix.Access(dir, unix.W_OK|unix.X_OK) != nil {
		return filepath.Join(b.root, "gocache")
	}
	return dir
}

// writeKey makes the key that the ssh client of the story has and its server trusts.
func (b *demoBox) writeKey() error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "demo")
	if err != nil {
		return err
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.root, "key"), pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.root, "authorized_keys"), ssh.MarshalAuthorizedKey(line), 0o600)
}

// sshConfig is all that the ssh client reads: -F keeps it from the person's own files and the system's.
func (b *demoBox) sshConfig(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("the server's address: %w", err)
	}
	text := fmt.Sprintf(`Host box
HostName %s
Port %s
IdentityFile %[3]s/key
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile %[3]s/known_hosts
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking accept-new
PasswordAuthentication no
KbdInteractiveAuthentication no
ControlMaster no
ControlPath none
LogLevel ERROR
`, host, port, b.root)
	return os.WriteFile(filepath.Join(b.root, "ssh_config"), []byte(text), 0o600)
}

var demoReady = regexp.MustCompile(`ready on (127\.0\.0\.1:\d+)`)

// serve starts the server and returns its ready line.
func (b *demoBox) serve(ctx context.Context, args ...string) (string, error) {
	out, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(b.root, "bin", "perdure"), append([]string{"serve"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = b.root, b.env, w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is ours to handle
	err = cmd.Start()
	w.Close()
	if err != nil {
		out.Close()
		return "", fmt.Errorf("start the server: %w", err)
	}
	b.server, b.serverDone = cmd, make(chan struct{})
	go func() {
		defer close(b.serverDone)
		_ = cmd.Wait() // that it ended is what its clients notice
	}()
	ready := make(chan string, 1)
	go b.follow(out, ready)
	limit := time.NewTimer(demoPatience)
	defer limit.Stop()
	select {
	case line := <-ready:
		if line == "" {
			return "", fmt.Errorf("expected the server's ready line; it ended: %s", b.serverLog())
		}
		return line, b.sshConfig(demoReady.FindStringSubmatch(line)[1])
	case <-limit.C:
		return "", fmt.Errorf("expected the server's ready line within %s", demoPatience)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// follow reads what the server prints: its ready line, and then the end of all else.
func (b *demoBox) follow(out io.ReadCloser, ready chan<- string) {
	defer out.Close()
	defer close(ready)
	told := false
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if !told && demoReady.MatchString(line) {
			told = true
			ready <- strings.TrimSpace(line)
		} else {
			b.mu.Lock()
			b.log = append(b.log, line...)
			b.log = b.log[max(0, len(b.log)-demoLog):]
			b.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

func (b *demoBox) serverLog() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(string(b.log))
}

// run runs a command in the repository, with nothing to read, and returns all that it printed and its status.
func (b *demoBox) run(ctx context.Context, name string, args ...string) (string, int, error) {
	return b.runTicking(ctx, nil, name, args...)
}

// runTicking is run that calls tick each second.
func (b *demoBox) runTicking(ctx context.Context, tick func(time.Duration), name string, args ...string) (string, int, error) {
	path := name
	if name == "perdure" {
		path = filepath.Join(b.root, "bin", name)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, demoPatience, fmt.Errorf("expected %s to end within %s", name, demoPatience))
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = b.repo, b.env, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return "", 0, fmt.Errorf("run %s: %w", name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	began, second := time.Now(), time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if ctx.Err() != nil {
				return out.String(), 0, context.Cause(ctx)
			}
			if err != nil && !errors.As(err, &exit) {
				return out.String(), 0, fmt.Errorf("run %s: %w", name, err)
			}
			return out.String(), cmd.ProcessState.ExitCode(), nil
		case <-second.C:
			if tick != nil {
				tick(time.Since(began))
			}
		}
	}
}

// close ends every process of the story and removes its folder.
func (b *demoBox) close() error {
	if b.server != nil {
		_ = b.server.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-b.serverDone:
		case <-time.After(demoGrace):
			_ = b.server.Process.Kill()
			<-b.serverDone
		}
	}
	err := endDescendants(demoGrace)
	return errors.Join(err, os.RemoveAll(b.root))
}
