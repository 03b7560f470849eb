package screen

import (
	"encoding/binary"

	"github.com/klauspost/compress/s2"
)

// history is the lines above a screen, oldest first, written out one after another in blocks. A full block is
// compressed: history is mostly kept, seldom read.
type history struct {
	limit  int // lines
	blocks []block
	size   int    // bytes of blocks
	gone   int    // lines at the start of blocks[0] that count no more
	open   []byte // the newest lines, each after its length
	starts []int32
	lines  int
	buf    []byte // to compress in
}

type block struct {
	data  []byte
	lines int
}

// Bounds of blocks and of the whole.
const (
	blockBytes      = 16 << 10
	blockLines      = 512
	maxHistoryBytes = 64 << 20 // lines beyond are dropped, oldest first, though they be fewer than the limit
)

// push adds a line, the newest, which appendTo writes.
func (h *history) push(appendTo func(b []byte) []byte) {
	start := len(h.open)
	// The length comes first but is known last: it takes the place of two bytes, or moves the line if it needs more.
	h.open = append(h.open, 0, 0)
	h.open = appendTo(h.open)
	n := len(h.open) - start - 2
	if n < 1<<14 {
		h.open[start], h.open[start+1] = byte(n)|0x80, byte(n>>7)
	} else {
		line := append([]byte(nil), h.open[start+2:]...)
		h.open = binary.AppendUvarint(h.open[:start], uint64(n))
		h.open = append(h.open, line...)
	}
	h.starts = append(h.starts, int32(start))
	h.lines++
	if len(h.open) >= blockBytes || len(h.starts) >= blockLines {
		h.seal()
	}
	h.trim()
}

// seal compresses the open block.
func (h *history) seal() {
	if need := s2.MaxEncodedLen(len(h.open)); cap(h.buf) < need {
		h.buf = make([]byte, need)
	}
	data := append([]byte(nil), s2.Encode(h.buf[:cap(h.buf)], h.open)...)
	h.blocks = append(h.blocks, block{data, len(h.starts)})
	h.size += len(data)
	h.open, h.starts = h.open[:0], h.starts[:0]
	if cap(h.open) > 2*blockBytes {
		h.open = nil // after one line that was huge
		h.buf = nil
	}
}

// trim drops the oldest lines beyond the bounds.
func (h *history) trim() {
	for h.lines > h.limit && len(h.blocks) == 0 {
		h.seal()
	}
	for len(h.blocks) > 0 && (h.lines > h.limit || h.size > maxHistoryBytes) {
		first := h.blocks[0]
		over := h.lines - h.limit
		if h.size > maxHistoryBytes {
			over = first.lines
		}
		if left := first.lines - h.gone; over < left {
			h.gone += over
			h.lines -= over
			return
		}
		h.lines -= first.lines - h.gone
		h.size -= len(first.data)
		h.gone = 0
		h.blocks[0] = block{}
		h.blocks = h.blocks[1:]
	}
}

func (h *history) clear() { *h = history{limit: h.limit} }

// each calls fn for the newest n lines, oldest first. A line is only lent.
func (h *history) each(n int, fn func(line []byte)) {
	skip := max(h.lines-n, 0) + h.gone
	for _, b := range h.blocks {
		if skip >= b.lines {
			skip -= b.lines
			continue
		}
		raw, err := s2.Decode(nil, b.data)
		if err != nil {
			continue // it was made here
		}
		skip = eachLine(raw, skip, fn)
	}
	eachLine(h.open, skip, fn)
}

// eachLine skips lines, calls fn for the others, and says how many are still to be skipped.
func eachLine(raw []byte, skip int, fn func(line []byte)) int {
	for len(raw) > 0 {
		n, w := binary.Uvarint(raw)
		if w <= 0 || n > uint64(len(raw)-w) {
			break
		}
		if skip > 0 {
			skip--
		} else {
			fn(raw[w : w+int(n)])
		}
		raw = raw[w+int(n):]
	}
	return skip
}

// pop takes the newest line out; ok is false where there is none. The line is only lent.
func (h *history) pop() (line []byte, ok bool) {
	if h.lines == 0 {
		return nil, false
	}
	if len(h.starts) == 0 {
		h.reopen()
	}
	start := h.starts[len(h.starts)-1]
	n, w := binary.Uvarint(h.open[start:])
	line = h.open[int(start)+w:][:n]
	h.open = h.open[:start]
	h.starts = h.starts[:len(h.starts)-1]
	if h.lines--; h.lines == 0 {
		h.gone = 0
		h.open, h.starts = h.open[:0], h.starts[:0]
	}
	return line, true
}

// unwrap ends the newest line: what follows is no longer its continuation.
func (h *history) unwrap() {
	if h.lines == 0 {
		return
	}
	if len(h.starts) == 0 {
		h.reopen()
	}
	start := h.starts[len(h.starts)-1]
	_, w := binary.Uvarint(h.open[start:])
	h.open[int(start)+w] &^= lineWrapped
}

// reopen makes the newest sealed block the open one.
func (h *history) reopen() {
	last := h.blocks[len(h.blocks)-1]
	h.blocks = h.blocks[:len(h.blocks)-1]
	h.size -= len(last.data)
	raw, err := s2.Decode(nil, last.data)
	if err != nil {
		raw = nil // it was made here
	}
	skip := 0
	if len(h.blocks) == 0 {
		skip, h.gone = h.gone, 0
	}
	h.open, h.starts = h.open[:0], h.starts[:0]
	eachLine(raw, skip, func(line []byte) {
		h.starts = append(h.starts, int32(len(h.open)))
		h.open = binary.AppendUvarint(h.open, uint64(len(line)))
		h.open = append(h.open, line...)
	})
}

// clone is a copy that goes its own way.
func (h *history) clone() *history {
	c := *h
	c.blocks = append([]block(nil), h.blocks...)
	c.open = append([]byte(nil), h.open...)
	c.starts = append([]int32(nil), h.starts...)
	c.buf = nil
	return &c
}

// remember puts a row into the history.
func (s *Screen) remember(r *row) {
	h := s.primary.hist
	h.push(func(b []byte) []byte { return s.appendLine(b, r, s.primary.cols) })
	s.primary.pull = min(s.primary.pull, h.lines)
}

// recall makes a line a row again.
func (s *Screen) recall(line []byte, cols int) *row {
	l := readLine(line, nil)
	r := &row{wrapped: l.flags&lineWrapped != 0, marks: mark(l.flags >> marksShift)}
	var cells []cell
	for {
		ch, ok := l.next()
		if !ok {
			break
		}
		c := cell{style: s.styleNumber(l.run.style)}
		if l.run.link != (link{}) {
			c.link, _ = s.links.lookup(l.run.link)
		}
		cells = s.appendRecalled(cells, ch, c)
	}
	r.used = len(cells)
	r.touched = r.used > 0
	for i := range cells {
		r.mixed = r.mixed || cells[i].text&(wide|padding) != 0
	}
	if l.flags&lineFilled != 0 {
		r.touched = true
		for c := (cell{style: s.styleNumber(l.fill)}); len(cells) < cols; {
			cells = append(cells, c)
		}
	}
	r.cells = cells
	return r
}

// appendRecalled adds the cells of one character; c has its style.
func (s *Screen) appendRecalled(cells []cell, ch char, c cell) []cell {
	c.text = padding
	if len(ch.text) > 0 {
		c.text = s.characterText(string(ch.text))
		if ch.columns == 2 {
			c.text |= wide
		}
	}
	cells = append(cells, c)
	if ch.columns == 2 && !ch.cut {
		c.text = padding
		cells = append(cells, c)
	}
	return cells
}

// characterText is what a cell holds for a character: its rune, or the number of the cluster.
func (s *Screen) characterText(text string) uint32 {
	first := uint32(0)
	for i, r := range text {
		if i > 0 {
			if n, ok := s.clusters.lookup(text); ok {
				return cluster | uint32(n)
			}
			break // the table is full: the marks are lost
		}
		first = uint32(r)
	}
	return first
}
