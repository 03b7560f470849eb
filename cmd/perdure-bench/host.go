package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// runHost measures what the host of an idle session weighs, and of one with full history. The argument is the perdure
// to measure; the first on PATH without.
func runHost(ctx context.Context, args []string) error {
	program := "perdure"
	if len(args) > 0 {
		program = args[0]
	}
	b, err := newBox(ctx, program)
	if err != nil {
		return err
	}
	defer b.close()
	if _, err := b.run("new", "bench", "--dir", b.dir, "--", "/bin/sh"); err != nil {
		return err
	}
	if _, err := b.run("start", "bench"); err != nil {
		return err
	}
	fmt.Printf("perdure-bench host %s\n\n", program)
	if err := b.weigh("idle"); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "lines"), typicalLines(), 0o600); err != nil {
		return err
	}
	if _, err := b.run("send", "bench", "--enter", "cat lines lines; echo al''l"); err != nil {
		return err
	}
	if _, err := b.run("wait", "bench", "--for", "text=^all", "--timeout", "60s"); err != nil {
		return err
	}
	return b.weigh("10,000 lines of history")
}

// box is a server with a state of its own.
type box struct {
	ctx        context.Context
	program    string
	state, dir string
	server     *exec.Cmd
}

func newBox(ctx context.Context, program string) (*box, error) {
	dir, err := os.MkdirTemp("", "perdure-bench-")
	if err != nil {
		return nil, err
	}
	b := &box{ctx: ctx, program: program, state: filepath.Join(dir, "state"), dir: filepath.Join(dir, "work")}
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return nil, err
	}
	b.server = b.command("serve", "--listen", "none")
	if err := b.server.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := b.run("ls"); err == nil {
			return b, nil
		} else if time.Now().After(end) {
			b.close()
			return nil, err
		}
	}
}

func (b *box) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.ctx, b.program, args...)
	cmd.Env = append(os.Environ(), "PERDURE_STATE="+b.state, "HOME="+filepath.Dir(b.state))
	return cmd
}

func (b *box) run(args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := b.command(args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("perdure %s: %w: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out), nil
}

func (b *box) close() {
	_, _ = b.run("stop", "bench") // there may be none
	_ = b.server.Process.Signal(os.Interrupt)
	_ = b.server.Wait()
	os.RemoveAll(filepath.Dir(b.state))
}

// weigh prints the host's anonymous memory once it rests.
func (b *box) weigh(what string) error {
	files, err := filepath.Glob(filepath.Join(b.state, "workspaces/bench/sessions/*/host.json"))
	if err != nil || len(files) != 1 {
		return errors.Join(err, fmt.Errorf("%d hosts", len(files)))
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	var h struct {
		PID int `json:"host_pid"`
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return err
	}
	time.Sleep(3 * time.Second) // it comes to rest
	kib, err := anonymous(h.PID)
	fmt.Printf("%-28s %6d KiB anonymous\n", what, kib)
	return err
}
