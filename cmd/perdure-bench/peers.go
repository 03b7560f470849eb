package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"

	"perdure/cmd/perdure-bench/wan"
	"perdure/workspace/screen"
)

// peers is a far machine that perdure's server and an ordinary sshd run on, across a network that can be shaped, or
// this machine where net is nil.
type peers struct {
	net  *wan.Network
	addr string // of the far machine
	dir  string
	bin  string
	port map[string]string // of "perdure" and "sshd"
	runs []*exec.Cmd
}

const (
	benchRows, benchCols = 30, 100
	sshPort              = "2022"
)

// newPeers builds the machine in a folder of its own; without a name it is this one, reached by the loopback. close
// removes it.
func newPeers(ctx context.Context, name string) (*peers, error) {
	dir, err := os.MkdirTemp("", "perdure-bench-")
	if err != nil {
		return nil, err
	}
	p := &peers{dir: dir, bin: filepath.Join(dir, "perdure"), addr: "127.0.0.1", port: map[string]string{"sshd": sshPort}}
	if name != "" {
		p.addr = wan.FarAddress
		p.net, err = wan.New(fmt.Sprintf("pb%s%d", name, os.Getpid()%10000))
	}
	if err == nil {
		err = p.build(ctx)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *peers) build(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", p.bin, "perdure/cmd/perdure").CombinedOutput(); err != nil {
		return fmt.Errorf("build perdure: %w: %s", err, out)
	}
	for _, f := range []string{"key", "host"} {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(p.dir, f)).CombinedOutput(); err != nil {
			return fmt.Errorf("make a key: %w: %s", err, out)
		}
	}
	config := fmt.Sprintf("Port %s\nListenAddress %s\nHostKey %s/host\nAuthorizedKeysFile %s/key.pub\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n", sshPort, p.addr, p.dir, p.dir)
	if err := os.WriteFile(filepath.Join(p.dir, "sshd"), []byte(config), 0o600); err != nil {
		return err
	}
	_ = os.MkdirAll("/run/sshd", 0o755) // sshd as root wants it, and says so if it is missing
	sshd := p.far("/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(p.dir, "sshd"))
	if err := p.start(sshd); err != nil {
		return err
	}
	server := p.far(p.bin, "serve", "--listen", p.addr+":0", "--authorized-keys", filepath.Join(p.dir, "key.pub"))
	out, err := server.StderrPipe()
	if err != nil {
		return err
	}
	server.Stdout = server.Stderr
	if err := p.start(server); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := regexp.MustCompile(`ready on [\d.]+:(\d+)`).FindStringSubmatch(lines.Text()); m != nil {
			p.port["perdure"] = m[1]
			go func() {
				for lines.Scan() { // it must not wait for us
				}
			}()
			return nil
		}
	}
	return errors.New("the server ended before it was ready")
}

func (p *peers) start(cmd *exec.Cmd) error {
	p.runs = append(p.runs, cmd)
	return cmd.Start()
}

// far and near are commands on either machine.
func (p *peers) far(argv ...string) *exec.Cmd {
	if p.net != nil {
		argv = wan.Command(p.net.Far, argv...)
	}
	return p.command(argv)
}

func (p *peers) near(argv ...string) *exec.Cmd {
	if p.net != nil {
		argv = wan.Command(p.net.Near, argv...)
	}
	return p.command(argv)
}

func (p *peers) command(argv []string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = p.dir
	cmd.Env = []string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh", "PERDURE_STATE=" + p.dir + "/state", "LC_ALL=C.UTF-8", "TERM=xterm-256color", "PERDURE_SSH=" + p.ssh("")}
	return cmd
}

func (p *peers) ssh(port string) string {
	line := "ssh -F /dev/null -i " + p.dir + "/key -o IdentitiesOnly=yes -o LogLevel=ERROR -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
	if port != "" {
		line += " -p " + port
	}
	return line
}

func (p *peers) close() {
	if p.port["perdure"] != "" {
		_ = p.far(p.bin, "rm", "bench").Run() // it may not be there
	}
	for _, cmd := range slices.Backward(p.runs) {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	if p.net != nil {
		p.net.Close()
	}
	os.RemoveAll(p.dir)
}

// argv is how each peer runs a shell line on the far machine.
func (p *peers) argv(peer, line string) []string {
	user := "root@" + p.addr
	switch peer {
	case "ssh":
		return append(strings.Fields(p.ssh(sshPort)), "-t", user, line)
	case "mosh":
		return []string{"mosh", "--predict=adaptive", "--ssh=" + p.ssh(sshPort), user, "--", "sh", "-c", line}
	}
	return []string{p.bin, "connect", "perdure@" + p.addr + ":" + p.port["perdure"], "bench"}
}

// viewer is a peer's client in a terminal whose screen we follow.
type viewer struct {
	cmd *exec.Cmd
	tty *os.File

	mu   sync.Mutex
	s    *screen.Screen
	more chan struct{}
}

func (p *peers) view(peer, line string) (*viewer, error) {
	if peer == "perdure" {
		if out, err := p.far(p.bin, "new", "bench", "--dir", p.work(), "--", "sh", "-c", line).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("make the workspace: %w: %s", err, out)
		}
	}
	v := &viewer{cmd: p.near(p.argv(peer, line)...), s: screen.New(benchCols, benchRows, screen.Options{}), more: make(chan struct{}, 1)}
	var err error
	if v.tty, err = pty.StartWithSize(v.cmd, &pty.Winsize{Cols: benchCols, Rows: benchRows}); err != nil {
		return nil, err
	}
	go v.follow()
	return v, nil
}

func (v *viewer) follow() {
	buf := make([]byte, 32<<10)
	for {
		n, err := v.tty.Read(buf)
		v.mu.Lock()
		_, _ = v.s.Write(buf[:n])
		v.mu.Unlock()
		select {
		case v.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (v *viewer) screen() screen.View {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.s.View()
}

// until waits until the screen is so, and says how long it took.
func (v *viewer) until(ctx context.Context, long time.Duration, so func(screen.View) bool) (time.Duration, error) {
	began := time.Now()
	late := time.NewTimer(long)
	defer late.Stop()
	for {
		if so(v.screen()) {
			return time.Since(began), nil
		}
		select {
		case <-v.more:
		case <-late.C:
			return long, fmt.Errorf("not within %v; the screen: %q", long, strings.TrimSpace(strings.Join(v.screen().Rows, "\n")))
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (v *viewer) close() {
	_ = v.cmd.Process.Kill()
	v.tty.Close()
	_ = v.cmd.Wait()
}

// quantiles prints what counts of a row of times.
func quantiles(name string, d []time.Duration, note string) {
	if len(d) == 0 {
		fmt.Printf("  %-8s  nothing measured  %s\n", name, note)
		return
	}
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1))].Round(time.Millisecond / 10) }
	fmt.Printf("  %-8s  median %-9v 90%% %-9v worst %-9v  n=%d  %s\n", name, at(0.5), at(0.9), at(1), len(d), note)
}

func congestionControl() string {
	data, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(data))
}

func havePeers() (list []string) {
	list = []string{"perdure", "ssh"}
	if _, err := exec.LookPath("mosh"); err == nil {
		return append(list, "mosh")
	}
	fmt.Println("  mosh is not installed: not measured")
	return list
}

// work is a folder for the workspace.
func (p *peers) work() string {
	dir := filepath.Join(p.dir, "work")
	_ = os.MkdirAll(dir, 0o700) // what can't be made is told by whoever uses it
	return dir
}
