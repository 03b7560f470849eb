package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// peer is a tmux server of its own, with one detached session at a time.
type peer struct{ dir string }

// size is the size of every terminal here.
const (
	cols = 120
	rows = 40
)

func newPeer() (*peer, error) {
	if _, err := exec.LookPath("tmux"); err != nil {
		return nil, fmt.Errorf("tmux is the peer: %w", err)
	}
	dir, err := os.MkdirTemp("", "perdure-bench-")
	if err != nil {
		return nil, err
	}
	p := &peer{dir}
	if _, err := p.tmux("-f", "/dev/null", "new-session", "-d", "-s", "keep", "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows), "exec cat"); err != nil {
		p.close()
		return nil, err
	}
	_, err = p.tmux("set", "-g", "history-limit", "10000")
	return p, err
}

func (p *peer) close() {
	_, _ = p.tmux("kill-server") // it may be gone
	os.RemoveAll(p.dir)
}

func (p *peer) tmux(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-S", filepath.Join(p.dir, "s")}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// take prints a file in a new session, and says how long tmux took to take it in.
func (p *peer) take(path string) (time.Duration, error) {
	name := fmt.Sprintf("s%d", time.Now().UnixNano())
	script := fmt.Sprintf("stty raw -echo; read x; cat %s; printf '\\033]2;taken\\033\\\\'; exec cat", path)
	if _, err := p.tmux("new-session", "-d", "-s", name, "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows), script); err != nil {
		return 0, err
	}
	start := time.Now()
	if _, err := p.tmux("send-keys", "-t", name, "go", "C-j"); err != nil {
		return 0, err
	}
	for {
		title, err := p.tmux("display", "-p", "-t", name, "#{pane_title}")
		if err != nil {
			return 0, err
		}
		if title == "taken" {
			took := time.Since(start)
			_, err := p.tmux("kill-session", "-t", name)
			return took, err
		}
		if time.Since(start) > 5*time.Minute {
			return 0, fmt.Errorf("tmux took more than five minutes")
		}
	}
}

// weigh prints a file in a new session, and says by how many KiB tmux grew.
func (p *peer) weigh(path string) (int, error) {
	out, err := p.tmux("display", "-p", "#{pid}")
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(out)
	if err != nil {
		return 0, err
	}
	before, err := anonymous(pid)
	if err != nil {
		return 0, err
	}
	if _, err := p.tmux("new-session", "-d", "-s", "weigh", "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows), "cat "+path+"; exec cat"); err != nil {
		return 0, err
	}
	for last := ""; ; {
		n, err := p.tmux("display", "-p", "-t", "weigh", "#{history_size} #{cursor_y}")
		if err != nil {
			return 0, err
		}
		if n == last && !strings.HasPrefix(n, "0 ") {
			break
		}
		last = n
		time.Sleep(300 * time.Millisecond)
	}
	after, err := anonymous(pid)
	return after - before, err
}
