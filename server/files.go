package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// maxSocketPath is what every system we run on takes in sockaddr_un, less the closing NUL.
const maxSocketPath = 103

// SocketPath is where the server of a state folder listens. A path too long for a unix socket is replaced by
// a short one in a folder of the user's own below the temporary directory, so that client and server agree.
func SocketPath(state string) (string, error) {
	return shortSocket(filepath.Join(state, "server.sock"))
}

func shortSocket(path string) (string, error) {
	if len(path) <= maxSocketPath {
		return path, nil
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("perdure-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for the socket: %w", err)
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("make a folder for the socket: %w", err)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !fi.IsDir() || fi.Mode().Perm()&0o077 != 0 || (ok && int(st.Uid) != os.Getuid()) {
		return "", fmt.Errorf("%s is not a private folder of this user", dir)
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(dir, hex.EncodeToString(sum[:8])+".sock"), nil
}

// writeAtomic replaces a file whole: temp, fsync, rename, so that a crash leaves the old one or the new one.
func writeAtomic(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
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
func notifySystemd() {
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
	_, _ = c.Write([]byte("READY=1")) // best effort: systemd's own timeout tells the rest
}
