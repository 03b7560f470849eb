package link

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// settle is how long the network is given to finish what it changes, since changes come in bursts.
const settle = 150 * time.Millisecond

// watchRoutes tells of changed addresses, links and routes (rtnetlink(7)). Where the kernel tells nothing, neither
// does it: probes then find out.
func watchRoutes(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return out
	}
	groups := uint32(unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR | unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV6_ROUTE)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return out
	}
	f := os.NewFile(uintptr(fd), "netlink") // non-blocking, so that closing it ends a Read
	go func() {
		stop := context.AfterFunc(ctx, func() { f.Close() })
		defer stop()
		defer f.Close()
		readRoutes(ctx, f, out)
	}()
	return out
}

// readRoutes ends with ctx.
func readRoutes(ctx context.Context, f *os.File, out chan<- struct{}) {
	buf := make([]byte, 16<<10)
	for {
		// What it says doesn't matter: a probe tells whether it concerns us. ENOBUFS means that some were lost.
		if _, err := f.Read(buf); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return
		}
		select {
		case out <- struct{}{}:
		default:
		}
	}
}
