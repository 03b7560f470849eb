package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sentinel is what is known of a store outside of it.
type sentinel struct {
	ID     string `json:"id"`
	Schema int    `json:"schema"`
	Events uint64 `json:"events"` // the newest event's number when this was written
}

func sentinelPath(dir string) string { return dir + ".id" }

// readSentinel is nil where there is none.
func readSentinel(dir string) (*sentinel, error) {
	data, err := os.ReadFile(sentinelPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the store's sentinel: %w", err)
	}
	var m sentinel
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, sentinelPath(dir), err)
	}
	return &m, nil
}

// check tells, before BadgerDB touches the folder, what BadgerDB would paper over.
func (m *sentinel) check(dir string) error {
	if m.Schema > Schema {
		return &ErrSchema{Have: m.Schema, Want: Schema}
	}
	_, err := os.Stat(filepath.Join(dir, "MANIFEST"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s has no data, though %s says that it was in use", ErrCorrupt, dir, sentinelPath(dir))
	}
	if err != nil {
		return fmt.Errorf("look at the store: %w", err)
	}
	return nil
}

// writeSentinel replaces the sentinel whole and syncs it and its folder.
func (s *Store) writeSentinel() error {
	last, err := s.lastEvent()
	if err != nil {
		return fmt.Errorf("write the store's sentinel: %w", err)
	}
	data, err := json.Marshal(sentinel{ID: s.id, Schema: Schema, Events: last})
	if err != nil {
		return fmt.Errorf("write the store's sentinel: %w", err)
	}
	if err := replace(sentinelPath(s.dir), append(data, '\n')); err != nil {
		return fmt.Errorf("write the store's sentinel: %w", err)
	}
	return nil
}

func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".store-id-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it was renamed
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes what was renamed or removed in a folder last.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// tryLock tells a store that another process holds from a damaged one: BadgerDB gives the same kind of error
// for both. It takes the lock that BadgerDB takes, flock(2) on the folder.
func tryLock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("open the store: another process holds %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}
