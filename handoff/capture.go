package handoff

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"sync"
)

// endSize is how much of the end of an output is kept beyond the limit.
const endSize = 16 * tailSize

// capture takes a check's output up to a limit, and beyond that only its end: the pipe is always drained, and the tail
// is what was printed last.
type capture struct {
	limit int
	full  chan struct{} // closed at the limit

	mu    sync.Mutex
	buf   bytes.Buffer
	over  bool
	end   []byte // what came last, beyond the limit
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
	room := c.limit - c.buf.Len()
	head := p[:min(room, len(p))]
	c.buf.Write(head)
	c.count(head)
	if len(p) <= room {
		return
	}
	if !c.over {
		c.over = true
		close(c.full)
	}
	c.end = append(c.end, p[len(head):]...)
	if over := len(c.end) - 2*endSize; over > 0 { // twice, so that little is moved
		c.end = append(c.end[:0], c.end[len(c.end)-endSize:]...)
	}
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

// bytes is the output up to the limit; call it when nothing writes any more.
func (c *capture) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Bytes()
}

// ending is the end of the output, which may be all of it; call it when nothing writes any more.
func (c *capture) ending() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		return c.buf.Bytes()
	}
	head := c.buf.Bytes()
	return append(slices.Clone(head[max(0, len(head)-endSize):]), c.end...)
}
