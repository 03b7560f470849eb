package screen

import "unicode/utf8"

const joiner = '\u200d' // ZERO WIDTH JOINER

// printASCII prints a run of bytes from 0x20 to 0x7e. It is the path that nearly all output takes: it allocates
// nothing but the cells of new rows.
func (s *Screen) printASCII(p []byte) {
	s.last = rune(p[len(p)-1])
	s.joining = false
	if s.modes.insert || !s.modes.wrap {
		for _, c := range p {
			s.put(rune(c), 1, s.brush)
		}
		return
	}
	for len(p) > 0 {
		if s.x >= s.cols {
			s.wrapLine()
		}
		n := min(len(p), s.cols-s.x)
		r := s.grid.rows[s.y]
		if !r.touched || len(r.cells) != s.cols {
			r.open(s.cols)
		}
		cells := r.cells[s.x : s.x+n]
		if r.mixed {
			r.clearHalves(s.x, n)
		}
		c := s.brush
		for i := range cells {
			c.text = uint32(p[i])
			cells[i] = c
		}
		s.x += n
		r.used = max(r.used, s.x)
		p = p[n:]
	}
}

// clearHalves blanks the other halves of the wide characters that writing cells x to x+n cuts.
func (r *row) clearHalves(x, n int) {
	at := x
	for at > 0 && r.cells[at].text&padding != 0 {
		r.cells[at] = cell{}
		at--
	}
	if (at > 0 || x == 0) && r.cells[at].text&wide != 0 { // the one in the first column tmux leaves cut
		r.cells[at] = cell{}
	}
	r.clearPadding(x + n)
}

// clearPadding blanks second halves from x on.
func (r *row) clearPadding(x int) {
	for ; x < len(r.cells) && r.cells[x].text&padding != 0; x++ {
		r.cells[x] = cell{}
	}
}

// wrapLine goes to the start of the next line, as printing past the margin does.
func (s *Screen) wrapLine() {
	s.grid.rows[s.y].wrapped = true
	s.lineFeed(cell{})
	s.x = 0
}

// printRune prints a character beyond ASCII.
func (s *Screen) printRune(r rune) {
	w := width(r)
	if w == unprinted {
		s.joining = false
		return
	}
	s.last = -1
	c := s.brush
	c.style = s.penStyle
	s.put(r, w, c)
	if w > 0 {
		s.last = r
	}
}

// put prints one character of a width.
func (s *Screen) put(r rune, w int, c cell) {
	if r == joiner {
		s.joining = true
		return
	}
	if w == 0 || s.joining {
		if s.joining {
			s.joining = false
			s.combine(joiner)
		}
		s.combine(r)
		return
	}
	wrap := s.modes.wrap
	if !wrap && w > 1 && (w > s.cols || s.x != s.cols && s.x > s.cols-w) {
		return // it doesn't fit
	}
	if s.modes.insert && s.x < s.cols {
		s.grid.insertCells(s.y, s.x, w, cell{})
	}
	if wrap && s.x > s.cols-w {
		s.wrapLine()
	}
	if s.x > s.cols-w {
		return
	}
	c.text = uint32(r)
	s.write(w, c)
	last := 0
	if !wrap {
		last = 1
	}
	if s.x <= s.cols-last-w {
		s.x += w
	} else {
		s.x = s.cols - last
	}
}

// write stores a character of a width at the cursor.
func (s *Screen) write(w int, c cell) {
	row := s.grid.rows[s.y]
	row.open(s.cols)
	if row.mixed {
		old := row.cells[s.x].text
		if old&padding != 0 {
			at := s.x
			for at > 0 && row.cells[at].text&padding != 0 {
				row.cells[at] = cell{}
				at--
			}
			row.cells[at] = cell{}
		}
		if w != 1 || old&(wide|padding) != 0 {
			row.clearPadding(s.x + w)
		}
	}
	if w == 2 {
		c.text |= wide
		row.set(s.x+1, cell{text: padding, style: c.style, link: c.link})
	}
	row.set(s.x, c)
}

// combine adds a mark to the character before the cursor, wherever the cursor came from.
func (s *Screen) combine(r rune) {
	row := s.grid.rows[s.y]
	x := s.x - 1
	for x >= 0 && row.at(x).text&padding != 0 {
		x--
	}
	if x < 0 {
		return
	}
	row.open(s.cols)
	c := row.cells[x]
	text := utf8.AppendRune(s.appendText(make([]byte, 0, maxCluster), c), r)
	if len(text) > maxCluster {
		return
	}
	n, ok := s.clusters.lookup(string(text))
	if !ok {
		s.sweep()
		if n, ok = s.clusters.lookup(string(text)); !ok {
			return
		}
	}
	c.text = c.text&wide | cluster | uint32(n)
	row.set(x, c)
}

// setPen changes the style that characters are printed in.
func (s *Screen) setPen(p style) {
	s.pen = p
	s.penStyle = s.styleNumber(p)
	s.setBrush()
}

// setBrush makes the cell that printing ASCII stamps: the pen's, with the character set in use.
func (s *Screen) setBrush() {
	s.brush = cell{style: s.penStyle, link: s.link}
	if s.charsets.graphics() {
		p := s.pen
		p.attrs |= graphic
		s.brush.style = s.styleNumber(p)
	}
}

// styleNumber is a style's number. Where the table is full of styles that are all on the screen, which takes more
// cells than screens have, the plain one stands in.
func (s *Screen) styleNumber(p style) uint16 {
	n, ok := s.styles.lookup(p)
	if !ok {
		s.sweep()
		n, _ = s.styles.lookup(p)
	}
	return n
}

// sweep frees the entries of tables that no cell holds any more. History holds none: its lines are written out.
func (s *Screen) sweep() {
	styles := map[uint16]bool{s.penStyle: true, s.brush.style: true}
	links := map[uint16]bool{s.link: true}
	clusters := map[uint16]bool{}
	for _, r := range s.heldRows() {
		for _, c := range r.cells {
			styles[c.style], links[c.link] = true, true
			if c.text&cluster != 0 {
				clusters[uint16(c.text&textMask)] = true
			}
		}
	}
	s.styles.sweep(styles)
	s.links.sweep(links)
	s.clusters.sweep(clusters)
}

// heldRows are all rows whose cells name entries of tables.
func (s *Screen) heldRows() []*row {
	rows := append([]*row(nil), s.primary.rows...)
	if s.alternate != nil {
		rows = append(rows, s.alternate.rows...)
	}
	if f := s.reflowing; f != nil {
		rows = append(append(rows, f.out...), f.line...)
	}
	return rows
}

// eraseCell is what erasing writes: a blank in the pen's background.
func (s *Screen) eraseCell() cell {
	if s.pen.bg == colorDefault {
		return cell{}
	}
	return cell{style: s.styleNumber(s.pen.erased())}
}
