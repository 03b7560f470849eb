package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killGrace is how long a process group whose client has gone may take to end after SIGHUP.
const killGrace = 2 * time.Second

// signalNames are those of RFC 4254, section 6.9, and the few more that terminals know.
var signalNames = []string{"ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2"}

var terminalSignals = []string{"WINCH", "TSTP", "CONT", "STOP", "INFO"}

func knownSignal(name string) bool {
	return slices.Contains(signalNames, name) || slices.Contains(terminalSignals, name)
}

// exitSignalName is the name as the RFC wants it: others carry a domain.
func exitSignalName(name string) string {
	if slices.Contains(signalNames, name) {
		return name
	}
	return name + "@perdure"
}

// runExec runs a command with sh in dir, as the client asked: its bytes unchanged, in a process group of its own,
// with a pseudo-terminal if there is one in the request. env is the whole environment but for PATH and TERM. When
// ctx ends, the group is hung up on, then killed. It returns when the command has ended and its output is with the
// client; like sshd, it waits for whatever still holds that output open.
func runExec(ctx context.Context, r *Request, dir, path string, env []string, command string) Exit {
	if command == sftpCommand {
		return runSFTP(ctx, r, dir)
	}
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = slices.Clone(env)
	if path != "" {
		cmd.Env = append(cmd.Env, "PATH="+path)
	}
	if fi, err := os.Stat(dir); err != nil {
		return startFailed(r, err) // os/exec would blame the shell
	} else if !fi.IsDir() {
		return startFailed(r, fmt.Errorf("%s is not a directory", dir))
	}
	if r.Term != nil {
		return runTerminal(ctx, r, cmd)
	}
	return runPipes(ctx, r, cmd)
}

// startFailed reports a command that could not be started with the status that shells give.
func startFailed(r *Request, err error) Exit {
	_, _ = fmt.Fprintf(r.Err, "perdure: run the command: %v\n", err) // the client may be gone
	return Exit{Status: 126}
}

func runPipes(ctx context.Context, r *Request, cmd *exec.Cmd) Exit {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p, err := startWithPipes(cmd)
	if err != nil {
		return startFailed(r, err)
	}
	defer p.close()
	go p.feed(r.In) // ends with the channel: a Read of it can't be called back
	var copies sync.WaitGroup
	copies.Go(func() { forward(r.Out, p.out) })
	copies.Go(func() { forward(r.Err, p.err) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // exitOf looks at the state
		p.in.Close()
		copies.Wait()
	}()
	pgid := cmd.Process.Pid
	superviseGroup(ctx, r, ended, func(sig syscall.Signal) { _ = syscall.Kill(-pgid, sig) }, nil, p.close)
	return exitOf(cmd)
}

// superviseGroup passes signals and sizes on until the command has ended. When ctx ends it hangs up, then kills, then
// lets go of the output, which a process outside the group may hold open for ever.
func superviseGroup(ctx context.Context, r *Request, ended <-chan struct{}, kill func(syscall.Signal), resize func(Terminal), letGo func()) {
	resizes := r.Resizes
	if resize == nil {
		resizes = nil
	}
	for {
		select {
		case <-ended:
			return
		case name := <-r.Signals:
			if sig := unix.SignalNum("SIG" + name); sig != 0 {
				kill(sig)
			}
		case size := <-resizes:
			resize(size)
		case <-ctx.Done():
			kill(syscall.SIGHUP)
			kill(syscall.SIGCONT) // a stopped process would not hear the other
			grace := time.NewTimer(killGrace)
			defer grace.Stop()
			select {
			case <-ended:
			case <-grace.C:
				kill(syscall.SIGKILL)
				letGo()
				<-ended
			}
			return
		}
	}
}

// exitOf is how the command ended, once Wait has returned.
func exitOf(cmd *exec.Cmd) Exit {
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return Exit{Signal: strings.TrimPrefix(unix.SignalName(ws.Signal()), "SIG")}
	}
	return Exit{Status: cmd.ProcessState.ExitCode()}
}

// pipes are our ends of a command's standard streams.
type pipes struct{ in, out, err *os.File }

func startWithPipes(cmd *exec.Cmd) (*pipes, error) {
	var ours, theirs [3]*os.File
	defer func() {
		for _, f := range theirs {
			if f != nil {
				f.Close()
			}
		}
	}()
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			(&pipes{ours[0], ours[1], ours[2]}).close()
			return nil, err
		}
		if i == 0 {
			theirs[i], ours[i] = r, w
		} else {
			ours[i], theirs[i] = r, w
		}
	}
	p := &pipes{ours[0], ours[1], ours[2]}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	if err := cmd.Start(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *pipes) close() {
	for _, f := range []*os.File{p.in, p.out, p.err} {
		if f != nil {
			f.Close()
		}
	}
}

// feed gives the command what the client sends, and the end of it.
func (p *pipes) feed(in io.Reader) {
	defer func() { _ = recover() }() // in is the peer's; the command then sees the end of its input
	defer p.in.Close()
	_, _ = io.Copy(p.in, in) // a command that reads no further is no failure
}

// forward copies until the end, or until the client takes no more: then the reading end is closed, so that the
// command gets EPIPE instead of waiting for ever.
func forward(w io.Writer, f *os.File) {
	buf := make([]byte, 32<<10)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				f.Close()
				return
			}
		}
		if err != nil {
			return // the end: EOF of a pipe, EIO of a terminal, or closed by us
		}
	}
}
