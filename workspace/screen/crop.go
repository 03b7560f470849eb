package screen

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
