package screen

import (
	"bytes"
	"slices"

	"github.com/charmbracelet/x/ansi"
)

// Rendering is what a client's terminal of another size was given last, so that a change costs what changed. Its zero
// value is a terminal that was given nothing.
type Rendering struct {
	cols, rows int
	around     []byte // titles, palette, modes and which screen shows: a change of these draws all anew
	lines      [][]byte
}

// Render is bytes that bring a terminal of this size, which was given all renderings before, to what shows now: the
// part that has the cursor. Like a redraw it asks nothing and rings no bell.
func (s *Screen) Render(r *Rendering, cols, rows int) []byte {
	cols, rows = max(cols, 1), max(rows, 1)
	around := s.appendAround(nil)
	lines := s.croppedLines(cols, rows)
	if r.cols != cols || r.rows != rows || !bytes.Equal(around, r.around) {
		*r = Rendering{cols, rows, around, lines}
		return s.RedrawFor(cols, rows, 0)
	}
	b := []byte("\x1b[?25l\x1b[m")
	for y, line := range lines {
		if bytes.Equal(line, r.lines[y]) {
			continue
		}
		b = append(appendMove(b, 0, y), line...)
	}
	r.lines = lines
	return s.appendCroppedPlace(b, cols, rows)
}

// Stale says whether what was given was for another size.
func (r *Rendering) Stale(cols, rows int) bool { return r.cols != cols || r.rows != rows }

// Overlay is Screen.Overlay for a terminal that is given renderings. The next one repaints what it covers.
func (r *Rendering) Overlay(s *Screen, text string) []byte {
	if r.rows == 0 {
		return nil
	}
	b := appendMove([]byte("\x1b[?25l"), 0, r.rows-1)
	b = append(b, "\x1b[0;7m"...)
	b = append(append(b, ansi.Truncate(clean(text), r.cols-1, "…")...), "\x1b[m"...)
	r.lines[r.rows-1] = nil
	return s.appendCroppedPlace(b, r.cols, r.rows)
}

// appendAround is all that a cropped redraw sets beside the cells and the cursor's place.
func (s *Screen) appendAround(b []byte) []byte {
	if s.alternate != nil {
		b = append(b, 'a')
	}
	b = s.kitty[s.screenIndex()].append(b)
	return s.appendModes(s.appendPalette(s.appendTitles(b)))
}

// croppedLines paints each row that fits by itself: what follows the text is erased, unless the row is full, where
// erasing would take the last character.
func (s *Screen) croppedLines(cols, rows int) [][]byte {
	lines := make([][]byte, rows)
	first := s.firstRow(rows)
	for y := range lines {
		p := painter{cols: min(cols, s.cols)}
		x := 0
		if y < s.rows {
			s.scratch = s.appendLine(s.scratch[:0], s.grid.rows[first+y], s.cols)
			x = p.clipped(s.scratch)
		}
		if x < cols {
			p.b = append(p.b, "\x1b[K"...)
		}
		lines[y] = slices.Clip(p.b)
	}
	return lines
}

// appendCropped draws what fits of the screen that shows, with the history before: the part that has the cursor.
func (s *Screen) appendCropped(b []byte, cols, rows, history int) []byte {
	if n := min(history, s.primary.hist.lines); n > 0 {
		p := painter{b: b, cols: s.primary.cols}
		s.primary.hist.each(n, p.flowing)
		p.rest()
		b = p.b
		for range rows {
			b = append(b, "\r\n"...) // the history leaves the screen; the rows are painted next
		}
		b = append(b, "\x1b[H"...)
	}
	if s.alternate != nil {
		b = append(b, "\x1b[?1049h\x1b[H\x1b[2J"...)
	}
	first := s.firstRow(rows)
	p := painter{b: b, cols: min(cols, s.cols)}
	for y := range min(rows, s.rows) {
		p.b = appendMove(p.b, 0, y)
		s.scratch = s.appendLine(s.scratch[:0], s.grid.rows[first+y], s.cols)
		p.clipped(s.scratch)
	}
	return s.kitty[s.screenIndex()].append(p.b)
}

// flowing paints a line for a terminal of another width, which wraps it as it will.
func (p *painter) flowing(line []byte) {
	l := readLine(line, p.runs)
	if p.started && !p.wrapped {
		p.rest()
		p.b = append(p.b, "\r\n"...)
	}
	p.started, p.wrapped = true, l.flags&lineWrapped != 0
	p.chars(&l, p.cols)
}

// firstRow is the first row that shows in so many: the cursor's is among them.
func (s *Screen) firstRow(rows int) int {
	return min(max(0, s.y-rows+1), max(0, s.rows-rows))
}

// appendCroppedPlace puts the cursor where it is, if that shows.
func (s *Screen) appendCroppedPlace(b []byte, cols, rows int) []byte {
	b = appendMove(b, min(s.x, cols-1, s.cols-1), s.y-s.firstRow(rows))
	if !s.modes.hidden && s.x < cols {
		b = append(b, "\x1b[?25h"...)
	}
	return s.pen.appendSGR(b)
}
