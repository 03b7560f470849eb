package client

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// input reads a file without holding on to it: a read that waits is ended by stop, and takes nothing. A plain
// read of a terminal can't be ended, and would swallow the first key meant for the shell that follows us;
// making the file non-blocking would change it for that shell too.
type input struct {
	f          *os.File
	wake, poke *os.File
	once       sync.Once
}

func newInput(f *os.File) (*input, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &input{f: f, wake: r, poke: w}, nil
}

// Read is io.EOF after stop.
func (in *input) Read(p []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(in.f.Fd()), Events: unix.POLLIN}, {Fd: int32(in.wake.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case fds[1].Revents != 0:
			return 0, io.EOF
		case fds[0].Revents != 0:
			return in.f.Read(p)
		}
	}
}

// stop ends the reading, now and for good. It may be called more than once.
func (in *input) stop() { in.once.Do(func() { in.poke.Close() }) }

// close frees the pipe. Nobody may be in Read any more.
func (in *input) close() {
	in.stop()
	in.wake.Close()
}
