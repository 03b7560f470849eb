package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// runTerminal runs a command on a pseudo-terminal of its own.
func runTerminal(ctx context.Context, r *Request, cmd *exec.Cmd) Exit {
	ptmx, tty, err := openTerminal()
	if err != nil {
		return startFailed(r, err)
	}
	defer ptmx.Close()
	setSize(ptmx, *r.Term)
	if r.Term.Term != "" {
		cmd.Env = append(cmd.Env, "TERM="+r.Term.Term)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	tty.Close()
	if err != nil {
		return startFailed(r, err)
	}
	go typeInto(ptmx, r.In) // ends with the channel: a Read of it can't be called back
	var copies sync.WaitGroup
	copies.Go(func() { forward(r.Out, ptmx) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // exitOf looks at the state
		copies.Wait()
	}()
	leader := cmd.Process.Pid
	kill := func(sig syscall.Signal) {
		if group := foreground(ptmx); group > 0 && group != leader {
			_ = syscall.Kill(-group, sig)
			if sig != syscall.SIGHUP && sig != syscall.SIGKILL && sig != syscall.SIGCONT {
				return // meant for the program at the front, as if it were typed
			}
		}
		_ = syscall.Kill(-leader, sig)
	}
	superviseGroup(ctx, r, ended, kill, func(t Terminal) { setSize(ptmx, t) }, func() { ptmx.Close() })
	return exitOf(cmd)
}

// openTerminal makes a pseudo-terminal whose master is non-blocking, so that closing it ends a Read (pty(7)).
func openTerminal() (ptmx, tty *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	ptmx = os.NewFile(uintptr(fd), "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		ptmx.Close()
		return nil, nil, fmt.Errorf("unlock the terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		ptmx.Close()
		return nil, nil, fmt.Errorf("name the terminal: %w", err)
	}
	name := fmt.Sprintf("/dev/pts/%d", number)
	slave, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		ptmx.Close()
		return nil, nil, fmt.Errorf("open the terminal: %w", err)
	}
	return ptmx, os.NewFile(uintptr(slave), name), nil
}

// control calls fn with the descriptor, which stays non-blocking and open meanwhile. File.Fd would promise neither.
func control(f *os.File, fn func(fd int)) {
	raw, err := f.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = raw.Control(func(fd uintptr) { fn(int(fd)) }) // fails only once closed
}

func setSize(ptmx *os.File, t Terminal) {
	control(ptmx, func(fd int) {
		// A failure leaves the old size, which the program can live with.
		_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: t.Rows, Col: t.Cols, Xpixel: t.XPixel, Ypixel: t.YPixel})
	})
}

// foreground is the process group that keys typed would reach, or 0.
func foreground(ptmx *os.File) (group int) {
	control(ptmx, func(fd int) {
		if g, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil {
			group = g
		}
	})
	return group
}

// typeInto gives the terminal what the client sends. A terminal has no end of input but the character for it, which
// only means that while the program reads lines; in raw mode it would be a byte the client never sent.
func typeInto(ptmx *os.File, in io.Reader) {
	defer func() { _ = recover() }() // in is the peer's; the program then gets no more input
	buf := make([]byte, 32<<10)
	last := byte('\n')
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if _, werr := ptmx.Write(buf[:n]); werr != nil {
				return
			}
			last = buf[n-1]
		}
		if err != nil {
			break
		}
	}
	var eof []byte
	control(ptmx, func(fd int) {
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil && t.Lflag&unix.ICANON != 0 && t.Cc[unix.VEOF] != 0 {
			eof = []byte{t.Cc[unix.VEOF]}
		}
	})
	if len(eof) == 1 && last != '\n' && last != '\r' {
		eof = append(eof, eof[0]) // the first only ends the line that was begun
	}
	_, _ = ptmx.Write(eof) // the program may have ended
}
