package handoff

import (
	"bytes"
	"io"
	"regexp"
	"sync"
)

// capture takes a check's output up to a limit, then drops the rest, so that
// the pipe is always drained.
type capture struct {
	limit int
	full  chan struct{} // closed at the limit

	mu    sync.Mutex
	buf   bytes.Buffer
	over  bool
	tests int
	line  []byte // the open last line, bounded
	last  []byte
}

func newCapture(limit int) *capture {
	return &capture{limit: limit, full: make(chan struct{})}
}

func (c *capture) drain(r io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		c.take(buf[:n])
		if err != nil {
			return
		}
	}
}

func (c *capture) take(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	if c.buf.Len()+len(p) > c.limit {
		p = p[:c.limit-c.buf.Len()]
		c.over = true
		close(c.full)
	}
	c.buf.Write(p)
	c.count(p)
}

var endLine = regexp.MustCompile(`^\{.*"Action":"(pass|fail|skip)".*"Test":|^\s*--- (PASS|FAIL|SKIP): |^test .* \.\.\. (ok|FAILED|ignored)|^\S+::\S+ (PASSED|FAILED|SKIPPED)`)

// count follows the lines as they come. A line beyond 4 KiB is cut: only its
// beginning tells anything.
func (c *capture) count(p []byte) {
	for len(p) > 0 {
		head, rest, ended := bytes.Cut(p, []byte("\n"))
		if room := 4096 - len(c.line); room > 0 {
			c.line = append(c.line, head[:min(room, len(head))]...)
		}
		p = rest
		if !ended {
			return
		}
		if endLine.Match(c.line) {
			c.tests++
		}
		if len(bytes.TrimSpace(c.line)) > 0 && !bytes.HasPrefix(c.line, []byte(`{"`)) {
			c.last = append(c.last[:0], c.line...)
		}
		c.line = c.line[:0]
	}
}

func (c *capture) progress() (tests int, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tests, string(c.last)
}

// bytes is what was taken; call it when nothing writes any more.
func (c *capture) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Bytes()
}
