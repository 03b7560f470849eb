package server

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress shows a person how far long work has got: one line, drawn over itself, on a terminal only, and only once the
// work has taken a while.
type progress struct {
	out  io.Writer // nil: nobody watches
	what string
	cols int // of the terminal, 0 if that isn't known

	mu    sync.Mutex
	begun time.Time
	drawn time.Time
}

// progressAfter is how long work takes before it is worth a line, progressEvery how often that is drawn.
const (
	progressAfter = 500 * time.Millisecond
	progressEvery = 100 * time.Millisecond
)

// bar is a progress line of the call, if it has a terminal.
func (c *call) bar(what string) *progress {
	p := &progress{what: what, begun: time.Now(), cols: c.r.style().Width}
	switch {
	case c.json || c.r.terminalName() == "dumb":
	case c.r.Term != nil:
		p.out = c.r.Out
	case c.r.Env["PERDURE_PROGRESS"] == "1": // its standard error is a terminal
		p.out = c.r.Err
	}
	return p
}

// set tells how many of how many are done. It may be called from several goroutines.
func (p *progress) set(done, total int) {
	if p.out == nil || total == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.begun) < progressAfter || now.Sub(p.drawn) < progressEvery {
		return
	}
	p.drawn = now
	const width = 30
	full := width * done / total
	bar := ""
	for i := range width {
		if i < full {
			bar += "#"
		} else {
			bar += "."
		}
	}
	fmt.Fprintf(p.out, "\r%s [%s] %d/%d\x1b[K", p.what, bar, done, total)
}

// done takes the line away.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out != nil && !p.drawn.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
