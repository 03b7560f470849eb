package workspace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
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
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return found, nil // what follows the last newline isn't whole: "8" may be the beginning of "80"
		}
		if err != nil {
			return found, fmt.Errorf("read the sizes: %w", err)
		}
		var r Resize
		var nanos int64
		n, _ := fmt.Sscanf(line, "%d %d %d %d\n", &r.Offset, &nanos, &r.Cols, &r.Rows)
		if n != 4 || r.Cols < 1 || r.Rows < 1 {
			continue
		}
		r.At = time.Unix(0, nanos)
		found = append(found, r)
	}
}
