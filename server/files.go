package server

import (
	"strconv"

	"golang.org/x/sys/unix"

	"net"
	"os"
	"path/filepath"

	"perdure/workspace"
)

// SocketPath is where the server of a state folder listens.
func SocketPath(state string) (string, error) {
	return workspace.SocketPath(filepath.Join(state, "server.sock"))
}

func anyReadable(files []string) bool {
	for _, f := range files {
		if fi, err := os.Stat(f); err == nil && fi.Size() > 0 {
			return true
		}
	}
	return false
}

func firstOr(list []string, or string) string {
	if len(list) > 0 {
		return list[0]
	}
	return or
}

// notifySystemd tells a unit of Type=notify that the server is ready (sd_notify(3)).
func notifySystemd(state string) {
	addr := os.Getenv("NOTIFY_SOCKET")
	if addr == "" {
		return
	}
	if addr[0] == '@' {
		addr = "\x00" + addr[1:]
	}
	c, err := net.Dial("unixgram", addr)
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(state)) // best effort: systemd's own timeout tells the rest
}

// monotonicMicros is CLOCK_MONOTONIC, in which systemd wants to know when a reload began.
func monotonicMicros() string {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return "0"
	}
	return strconv.FormatInt(t.Nano()/1000, 10)
}
