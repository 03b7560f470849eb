package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// secretSize is the size of a secret key, in bytes.
const secretSize = 32

// secretKey reads a key of this state folder's, mode 0600, and makes it where there is none. It is in no ledger, export
// or backup: without it what it was used for can't be compared any more, and says nothing to anybody.
func secretKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	switch {
	case err == nil && len(key) == secretSize:
		return key, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read a secret key: %w", err)
	}
	key = make([]byte, secretSize)
	_, _ = rand.Read(key) // never fails since Go 1.24
	if err := renameio.WriteFile(path, key, 0o600, renameio.WithTempDir(filepath.Dir(path)), renameio.IgnoreUmask()); err != nil {
		return nil, fmt.Errorf("make a secret key: %w", err)
	}
	return key, nil
}
