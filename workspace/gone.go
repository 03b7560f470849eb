package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// goneBudget is how long a host that has hung up may take to end.
const goneBudget = 10 * time.Second

// watchHost takes hold of the host's process by a descriptor (pidfd_open(2)), which no other process can come to
// have, as it can a number. What it returns is called once: it waits for that process's end, and lets go.
func (s *Session) watchHost() (gone func(context.Context) error) {
	fd := -1
	if s.HostPid > 0 {
		if got, err := unix.PidfdOpen(s.HostPid, 0); err == nil {
			fd = got
		}
	}
	if fd < 0 { // gone already, or a kernel before 5.3
		return func(context.Context) error { return nil }
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	return func(ctx context.Context) error {
		defer f.Close()
		ctx, cancel := context.WithTimeout(ctx, goneBudget)
		defer cancel()
		for ctx.Err() == nil {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100) // readable at its end
			if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
				return nil
			}
		}
		return fmt.Errorf("the host, process %d, does not end: %w", s.HostPid, ctx.Err())
	}
}
