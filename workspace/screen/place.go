package screen

import "fmt"

// appendTabs sets the tab stops where the program changed them.
func (s *Screen) appendTabs(b []byte) []byte {
	if s.tabs == nil {
		return b
	}
	b = append(b, "\x1b[3g"...)
	for x, stop := range s.tabs {
		if stop {
			b = append(appendMove(b, x, 0), "\x1bH"...)
		}
	}
	return b
}

// appendRegion sets the scroll region.
func (s *Screen) appendRegion(b []byte) []byte {
	if s.top == 0 && s.bottom == s.rows-1 {
		return b
	}
	return fmt.Appendf(b, "\x1b[%d;%dr", s.top+1, s.bottom+1)
}

// appendPlace sets what DECSC saved, then the cursor, the pen, and the modes that drawing needed otherwise. It must
// come last: the cursor past the margin, and the character that REP repeats, are there only by printing.
func (s *Screen) appendPlace(b []byte) []byte {
	b = s.appendSaved(b)
	b = append(b, "\x1b[?6l"...)
	if s.modes.origin {
		b = append(b, "\x1b[?6h"...)
	}
	if !s.modes.hidden {
		b = append(b, "\x1b[?25h"...)
	}
	b = s.appendCursor(b)
	if s.modes.insert {
		b = append(b, "\x1b[4h"...)
	}
	if !s.modes.wrap {
		b = append(b, "\x1b[?7l"...)
	}
	if s.joining {
		b = append(b, "\u200d"...)
	}
	return b
}

// appendCursor places the cursor and sets the pen. Where the cursor is only by printing, the character before it is
// printed again.
func (s *Screen) appendCursor(b []byte) []byte {
	pending := s.x >= s.cols
	if !pending && (s.last < 0 || s.modes.insert || s.x == 0 || !s.modes.wrap) {
		return s.appendPen(s.appendAt(b, s.x, s.y))
	}
	y, step := s.y, ""
	if pending {
		y, step = s.fullRow()
	}
	x := s.characterStart(y)
	c := s.grid.rows[y].at(x)
	switch {
	case s.printsAs(c):
		// The pen comes first: anything after the character makes the terminal forget what REP repeats.
		b = s.appendPen(s.appendAt(b, x, y))
		return append(s.appendText(b, c), step...)
	case pending:
		b = s.appendAgain(s.appendAt(b, x, y), c)
		return s.appendPen(append(b, step...))
	}
	return s.appendPen(s.appendAt(b, s.x, s.y))
}

// printsAs says whether printing the cell's character with pen and character set as they are makes this cell.
func (s *Screen) printsAs(c cell) bool {
	if c.text&padding != 0 || c.link != s.link {
		return false
	}
	if c.text < 0x7f {
		return c.text != 0 && c.style == s.brush.style
	}
	return c.style == s.penStyle
}

// appendAt moves the cursor while origin mode is as the screen's.
func (s *Screen) appendAt(b []byte, x, y int) []byte { return s.appendFrom(b, x, y, s.modes.origin) }

// appendFrom moves the cursor with origin mode on or off. On, a place above the scroll region is reached from where
// setting the region leaves the cursor.
func (s *Screen) appendFrom(b []byte, x, y int, origin bool) []byte {
	switch {
	case !origin:
		return appendMove(b, x, y)
	case y >= s.top:
		return appendMove(b, x, y-s.top)
	}
	b = s.appendRegion(b)
	if y > 0 {
		b = fmt.Appendf(b, "\x1b[%dB", y)
	}
	if x > 0 {
		b = fmt.Appendf(b, "\x1b[%dC", x)
	}
	return b
}

// fullRow is the row on which printing the last character again brings the cursor past the margin, and the sequence
// that goes from there to the cursor's row: a line feed keeps the column, so that may be a row with nothing on it.
func (s *Screen) fullRow() (y int, step string) {
	full := func(y int) bool {
		if s.modes.origin && (y < s.top || y > s.bottom) {
			return false
		}
		return y >= 0 && y < s.rows && s.grid.rows[y].used >= s.cols
	}
	switch {
	case full(s.y):
	case full(s.y-1) && s.y-1 != s.bottom:
		return s.y - 1, "\x1bD"
	case full(s.y+1) && s.y+1 != s.top:
		return s.y + 1, "\x1bM"
	case s.grid.rows[s.y].used == 0 && (s.y == 0 || !s.grid.rows[s.y-1].wrapped):
		return s.y, "\x1b[2K"
	}
	return s.y, ""
}

// characterStart is the column of the character before the cursor's column, on a row.
func (s *Screen) characterStart(y int) int {
	x := min(s.x, s.cols) - 1
	if r := s.grid.rows[y]; x > 0 && r.at(x).text&padding != 0 && r.at(x-1).text&wide != 0 {
		x--
	}
	return x
}

// appendAgain prints a character that is there already.
func (s *Screen) appendAgain(b []byte, c cell) []byte {
	p := painter{b: b}
	p.pen(s.styles.at(c.style), s.links.at(c.link))
	if c.text&padding != 0 {
		c.text = 0
	}
	b = s.appendText(p.b, c)
	if p.graphics {
		b = append(b, "\x1b(B"...)
	}
	if p.link != (link{}) {
		b = link{}.appendOSC(b)
	}
	return b
}

// appendPen sets pen, link and character sets.
func (s *Screen) appendPen(b []byte) []byte {
	b = s.pen.appendSGR(b)
	if l := s.links.at(s.link); l != (link{}) {
		b = l.appendOSC(b)
	}
	return s.charsets.append(b)
}

func (c charsets) append(b []byte) []byte {
	if c.line[0] {
		b = append(b, "\x1b(0"...)
	}
	if c.line[1] {
		b = append(b, "\x1b)0"...)
	}
	if c.shift == 1 {
		b = append(b, 0x0e)
	}
	return b
}

// appendSaved makes the terminal save what was saved here, and puts back what that changed. The scroll region counts
// only in origin mode.
func (s *Screen) appendSaved(b []byte) []byte {
	c := s.saved
	if c.origin {
		b = append(b, "\x1b[?6h"...)
	}
	b = s.appendFrom(b, min(c.x, s.cols-1), min(c.y, s.rows-1), c.origin)
	b = c.pen.appendSGR(b)
	b = c.charsets.append(b)
	b = append(b, "\x1b7\x1b[m"...)
	if c.charsets != (charsets{}) {
		b = append(b, "\x0f\x1b(B\x1b)B"...)
	}
	return b
}
