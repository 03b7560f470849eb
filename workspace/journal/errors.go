package journal

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by Append after Close, and by Wait once the journal
	// is closed and has nothing after the offset.
	ErrClosed = errors.New("journal closed")

	// ErrLocked is wrapped by Open if another writer has the journal.
	ErrLocked = errors.New("journal has another writer")
)

// A TrimmedError says that the bytes asked for were removed because the journal
// exceeded its MaxBytes.
type TrimmedError struct {
	Start uint64 // the oldest offset there is
}

// Error names the oldest offset.
func (e *TrimmedError) Error() string {
	return fmt.Sprintf("trimmed: the journal begins at %d", e.Start)
}

// A CorruptError says that bytes in the middle of a journal are damaged or
// missing.
type CorruptError struct {
	Path   string // the segment
	Offset uint64 // the first byte that can't be read
	Next   uint64 // where reading can go on, 0 if nowhere
}

// Error names the file and the offset.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d", e.Path, e.Offset)
}

// A VersionError says that a segment has a format this package doesn't read.
type VersionError struct {
	Path   string
	Ours   uint32 // the version this package reads and writes
	Theirs uint32 // the segment's
}

// Error names both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has journal version %d, this perdure reads version %d", e.Path, e.Theirs, e.Ours)
}
