package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// minFree is the free space below which nothing is written: BadgerDB writes through mapped files, and a
	// page that finds no room on disk ends the process by SIGBUS, on opening too.
	minFree = 12 << 20
	// ballastSize is what a file beside the store holds back, to be let go when the disk fills: what is small and
	// has to be told (a session that ended, a halt) still finds room then.
	ballastSize = 16 << 20
)

func ballastPath(dir string) string { return dir + ".ballast" }

// Free is the room, in bytes, on the disk that holds the folder dir.
func Free(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("look at the free space: %w", err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// checkSpace refuses what would write to a full disk, once the ballast is gone too.
func checkSpace(dir string) error {
	free, err := Free(dir)
	if err != nil {
		return err
	}
	if free >= minFree {
		return nil
	}
	if os.Remove(ballastPath(dir)) == nil {
		if free, err = Free(dir); err != nil {
			return err
		}
		if free >= minFree {
			return nil
		}
	}
	return fmt.Errorf("%w: %d MiB are free on the disk of %s, %d are needed", ErrNoSpace, free>>20, dir, minFree>>20)
}

// Room is nil while there is room for more than what has to be written. It is ErrNoSpace from when the ballast
// was let go until there is room for it again: what can wait should then be refused.
func (s *Store) Room() error {
	free, err := Free(s.dir)
	if err != nil {
		return err
	}
	_, err = os.Lstat(ballastPath(s.dir))
	if free >= minFree+ballastSize || free >= minFree && err == nil {
		return nil
	}
	return fmt.Errorf("%w: %d MiB are free on the disk of %s", ErrNoSpace, free>>20, s.dir)
}

// Tend puts the ballast back where there is room again, and keeps the store's files to their owner: BadgerDB makes
// them with the modes that the umask leaves.
func (s *Store) Tend() error {
	if err := s.protect(); err != nil {
		return err
	}
	if _, err := os.Lstat(ballastPath(s.dir)); !errors.Is(err, fs.ErrNotExist) {
		return nil // there, or nothing that we could mend
	}
	free, err := Free(s.dir)
	if err != nil || free < minFree+2*ballastSize {
		return err
	}
	return makeBallast(ballastPath(s.dir))
}

// makeBallast takes the room for real: a file with holes would hold nothing back.
func makeBallast(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the ballast: %w", err)
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, ballastSize)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = nil
		block := make([]byte, 1<<20)
		for range ballastSize >> 20 {
			if _, err = f.Write(block); err != nil {
				break
			}
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("make the ballast: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}

func (s *Store) protect() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("look at the store: %w", err)
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return fmt.Errorf("look at the store: %w", err)
	}
	defer root.Close()
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() || fi.Mode().Perm()&0o077 == 0 {
			continue // gone meanwhile, or as it should be
		}
		if err := root.Chmod(e.Name(), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("protect the store: %w", err)
		}
	}
	return nil
}
