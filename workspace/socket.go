package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// maxSocket is the longest path of a unix socket that every system takes, less its NUL, in bytes.
const maxSocket = 103

// SocketPath is the path itself, or, where it is too long for a unix socket, a short one in a private folder of this
// user's, the same each time, so that whoever dials finds whoever listens.
func SocketPath(path string) (string, error) {
	if len(path) <= maxSocket {
		return path, nil
	}
	base := filepath.Join(os.TempDir(), fmt.Sprintf("perdure-%d", os.Getuid()))
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for the socket: %w", err)
	}
	fi, err := os.Lstat(base)
	if err != nil {
		return "", fmt.Errorf("make a folder for the socket: %w", err)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !fi.IsDir() || fi.Mode().Perm()&0o077 != 0 || (ok && int(st.Uid) != os.Getuid()) {
		return "", fmt.Errorf("%s is not a private folder of this user", base)
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(base, hex.EncodeToString(sum[:8])+".sock"), nil
}
