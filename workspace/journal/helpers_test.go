package journal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		writeForEver(dir)
	}
	goleak.VerifyTestMain(m)
}

// fataler is what testing.TB and rapid.T have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func mustOpen(t fataler, dir string, o Options) *Journal {
	t.Helper()
	j, err := Open(dir, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return j
}

func mustAppend(t fataler, j *Journal, p []byte, at time.Time) uint64 {
	t.Helper()
	end, err := j.Append(p, at)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return end
}

func mustReader(t fataler, dir string) *Reader {
	t.Helper()
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatalf("open reader: %v", err)
	}
	return r
}

type bytesAt interface {
	ReadAt(p []byte, off uint64) (int, error)
}

// readAll reads from off to the end by reads of size bytes.
func readAll(t fataler, r bytesAt, off uint64, size int) []byte {
	t.Helper()
	var all []byte
	for buf := make([]byte, size); ; {
		n, err := r.ReadAt(buf, off)
		if errors.Is(err, io.EOF) && n == 0 {
			return all
		}
		if err != nil || n == 0 {
			t.Fatalf("read at %d: %d, %v", off, n, err)
		}
		all = append(all, buf[:n]...)
		off += uint64(n)
	}
}

// pattern is the stream's bytes from one offset to another, the same for any
// two tests.
func pattern(from, to uint64) []byte {
	b := make([]byte, 0, to-from)
	for o := from; o < to; o++ {
		b = append(b, byte(o*7+o>>8*13+o>>16))
	}
	return b
}

func equal(t fataler, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: %d bytes differ from the %d wanted", what, len(got), len(want))
	}
}

func closing(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
