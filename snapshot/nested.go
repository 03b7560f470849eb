package snapshot

import (
	"bytes"
	"os"
	"path/filepath"
)

const (
	nestedNone = iota
	nestedRepo
	nestedOdd // there is a .git that is no repository
)

// nestedKind tells whether a folder is the root of another repository, by the
// same signs that git goes by.
func nestedKind(dir string) int {
	dot := filepath.Join(dir, ".git")
	info, err := os.Lstat(dot)
	if err != nil {
		return nestedNone
	}
	if info.Mode().IsRegular() {
		f, err := os.Open(dot)
		if err != nil {
			return nestedOdd
		}
		defer f.Close()
		head := make([]byte, 8)
		n, _ := f.Read(head)
		if bytes.HasPrefix(head[:n], []byte("gitdir: ")) {
			return nestedRepo
		}
		return nestedOdd
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dot, name)); err != nil {
			return nestedOdd
		}
	}
	return nestedRepo
}
