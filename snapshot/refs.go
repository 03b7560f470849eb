package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
)

// writeRef makes a new ref, on disk when it returns. The name is a new one, so
// that nobody else writes it.
func writeRef(dir, ref, id string) error {
	path := filepath.Join(dir, ref)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write ref: %w", err)
	}
	if err := replaceSynced(path, []byte(id+"\n")); err != nil {
		return fmt.Errorf("write ref: %w", err)
	}
	// The folder of the workspace's refs may be new too.
	return syncDir(filepath.Dir(filepath.Dir(path)))
}

// replaceSynced replaces a file by way of the .lock name that git itself uses,
// and is on disk when it returns.
func replaceSynced(path string, data []byte) error {
	temp := path + ".lock"
	os.Remove(temp) // a dead writer's: the caller is the only one
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	hook("before-rename")
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
		return err
	}
	return syncDir(filepath.Dir(path))
}
