package workspace

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Resize is a size that a session's terminal took on.
type Resize struct {
	Offset     uint64 // of the journal: what was printed from here on was printed at this size
	At         time.Time
	Cols, Rows int // cells
}

// Resizes lists the sizes that the session's terminal took on after its first, oldest first. Lines that aren't whole,
// which a killed host may leave, are passed over. A session that was never resized has none.
func (s *Session) Resizes() ([]Resize, error) {
	f, err := os.Open(filepath.Join(s.Dir, "sizes"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the sizes: %w", err)
	}
	defer f.Close()
	var found []Resize
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r Resize
		var nanos int64
		n, _ := fmt.Sscanf(lines.Text(), "%d %d %d %d", &r.Offset, &nanos, &r.Cols, &r.Rows)
		if n != 4 || r.Cols < 1 || r.Rows < 1 {
			continue
		}
		r.At = time.Unix(0, nanos)
		found = append(found, r)
	}
	return found, lines.Err()
}
