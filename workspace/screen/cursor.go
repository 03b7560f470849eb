package screen

// lineFeed goes one line down, and scrolls at the bottom of the region; c fills the new line.
func (s *Screen) lineFeed(c cell) {
	switch {
	case s.y == s.bottom:
		s.scrollUp(s.top, s.bottom, c)
	case s.y < s.rows-1:
		s.y++
	}
}

// reverseIndex goes one line up, and scrolls at the top of the region.
func (s *Screen) reverseIndex() {
	switch {
	case s.y == s.top:
		s.grid.scrollDown(s.top, s.bottom, s.eraseCell())
	case s.y > 0:
		s.y--
	}
}

// backspace goes one column left, from the first column to the line that wrapped into this one.
func (s *Screen) backspace() {
	switch {
	case s.x > 0:
		s.x--
	case s.y > 0 && s.grid.rows[s.y-1].wrapped:
		s.y--
		s.x = s.cols - 1
	}
}

// moveTo places the cursor, from 0; origin counts rows from the region where origin mode is on.
func (s *Screen) moveTo(x, y int, origin bool) {
	if origin && s.modes.origin {
		y = min(y+s.top, s.bottom)
	}
	s.x = min(max(x, 0), s.cols-1)
	s.y = min(max(y, 0), s.rows-1)
}

// up, down, left and right stop at the region's edge if they start inside it, else at the screen's.
func (s *Screen) up(n int) {
	limit := s.top
	if s.y < s.top {
		limit = 0
	}
	s.y = max(s.y-n, limit)
	s.x = min(s.x, s.cols-1)
}

func (s *Screen) down(n int) {
	limit := s.bottom
	if s.y > s.bottom {
		limit = s.rows - 1
	}
	s.y = min(s.y+n, limit)
	s.x = min(s.x, s.cols-1)
}

func (s *Screen) right(n int) { s.x = min(s.x+n, s.cols-1) }

func (s *Screen) left(n int) { s.x = max(s.x-n, 0) }

// setRegion sets the scroll region, from 0, both included, and homes the cursor. A region of one line is refused.
func (s *Screen) setRegion(top, bottom int) {
	top, bottom = min(top, s.rows-1), min(bottom, s.rows-1)
	if top >= bottom {
		return
	}
	s.top, s.bottom = top, bottom
	s.x, s.y = 0, 0
}

// resetTabs puts a tab stop on every eighth column.
func (s *Screen) resetTabs() { s.tabs = nil }

// ownTabs makes the stops the program's own, to change.
func (s *Screen) ownTabs() []bool {
	if s.tabs == nil {
		s.tabs = make([]bool, s.cols)
		for x := 8; x < s.cols; x += 8 {
			s.tabs[x] = true
		}
	}
	return s.tabs
}

func (s *Screen) tabStop(x int) bool {
	if s.tabs == nil {
		return x%8 == 0 && x > 0
	}
	return s.tabs[x]
}

// tab goes to the next tab stop, else to the last column.
func (s *Screen) tab() {
	for s.x < s.cols-1 {
		s.x++
		if s.tabStop(s.x) {
			return
		}
	}
}

// backTab goes n tab stops back.
func (s *Screen) backTab(n int) {
	s.x = min(s.x, s.cols-1)
	for ; n > 0 && s.x > 0; n-- {
		s.x--
		for s.x > 0 && !s.tabStop(s.x) {
			s.x--
		}
	}
}

// cursorState is what DECSC saves.
type cursorState struct {
	x, y     int
	pen      style
	charsets charsets
	origin   bool
}

// saveCursor and restoreCursor are DECSC and DECRC. There is one slot for both screens.
func (s *Screen) saveCursor() {
	s.saved = cursorState{s.x, s.y, s.pen, s.charsets, s.modes.origin}
}

func (s *Screen) restoreCursor() {
	c := s.saved
	s.charsets = c.charsets
	s.modes.origin = c.origin
	s.setPen(c.pen)
	s.moveTo(c.x, c.y, false)
}

// charsets are the character sets G0 and G1, and which is in use.
type charsets struct {
	line  [2]bool // DEC special graphics, else ASCII
	shift uint8   // 1 after SO
}

func (c charsets) graphics() bool { return c.line[c.shift] }
