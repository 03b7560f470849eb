package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Limits bound what snapshots take in. What a limit leaves out is listed in the
// snapshot, which is partial then.
type Limits struct {
	File     int64 `json:"file"`     // bytes of one file
	Snapshot int64 `json:"snapshot"` // bytes of new files in one snapshot, before compression
	Store    int64 `json:"store"`    // bytes of one repository's store on disk
	Free     int64 `json:"free"`     // bytes of disk space that are left alone
}

// DefaultLimits hold where nothing else is said.
var DefaultLimits = Limits{File: 512 << 20, Snapshot: 4 << 30, Store: 32 << 30, Free: 64 << 20}

// ErrNoSpace refuses a snapshot that would fill the disk.
var ErrNoSpace = errors.New("too little free disk space")

// SetLimits replaces the limits while the store is in use; a snapshot that is being taken keeps those it began with.
func (s *Store) SetLimits(l Limits) {
	s.limitsMu.Lock()
	defer s.limitsMu.Unlock()
	s.Limits = l
}

// budget is what a snapshot may add to a repository of the store.
func (s *Store) budget(repo string) (*budget, error) {
	s.limitsMu.Lock()
	l := s.Limits
	s.limitsMu.Unlock()
	var st unix.Statfs_t
	if err := unix.Statfs(s.root, &st); err != nil {
		return nil, fmt.Errorf("free space: %w", err)
	}
	free := int64(st.Bavail)*st.Bsize - l.Free
	if free < 0 {
		return nil, fmt.Errorf("%w: under %s are left where snapshots are kept", ErrNoSpace, byteCount(l.Free))
	}
	b := &budget{perFile: l.File, left: l.Snapshot, why: fmt.Sprintf("over the cap of %s of new files per snapshot", byteCount(l.Snapshot))}
	used, err := diskSize(filepath.Join(s.RepoPath(repo), "objects"))
	if err != nil {
		return nil, err
	}
	if room := max(l.Store-used, 0); room < b.left {
		b.left, b.why = room, fmt.Sprintf("the repository's store is at its cap of %s", byteCount(l.Store))
	}
	if free < b.left {
		b.left, b.why = free, "too little free disk space"
	}
	return b, nil
}

// diskSize is the sum of the sizes of all files below dir, in bytes.
func diskSize(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // repacked meanwhile
		}
		if err != nil {
			return err
		}
		if d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		return 0, fmt.Errorf("size of the store: %w", err)
	}
	return sum, nil
}

// generation changes with every pruning of a repository of the store: what
// was known to be held may be gone.
func generation(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "perdure", "generation"))
	if err != nil {
		return "0"
	}
	return string(text)
}
