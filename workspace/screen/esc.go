package screen

import "github.com/charmbracelet/x/ansi"

// esc acts on an escape sequence (ECMA-48, and DEC's private ones).
func (s *Screen) esc(cmd ansi.Cmd) {
	if i := cmd.Intermediate(); i != 0 {
		s.escIntermediate(i, cmd.Final())
		return
	}
	switch cmd.Final() {
	case '7':
		s.saveCursor()
	case '8':
		s.restoreCursor()
	case '=':
		s.modes.keypad = true
	case '>':
		s.modes.keypad = false
	case 'D':
		s.lineFeed(s.eraseCell())
	case 'E':
		s.x = 0
		s.lineFeed(s.eraseCell())
	case 'H':
		if s.x < s.cols {
			s.ownTabs()[s.x] = true
		}
	case 'M':
		s.reverseIndex()
	case 'c':
		s.reset()
	}
}

// escIntermediate: DECALN, and the sets that G0 and G1 take.
func (s *Screen) escIntermediate(inter, final byte) {
	switch {
	case inter == '#' && final == '8':
		s.alignment()
	case inter == '(' || inter == ')':
		s.charsets.line[inter-'('] = final == '0'
		s.setBrush()
	}
}

// alignment is DECALN: a screen full of E, margins reset.
func (s *Screen) alignment() {
	for _, r := range s.grid.rows {
		r.open(s.cols)
		for x := range r.cells {
			r.cells[x] = cell{text: 'E'}
		}
		r.used, r.mixed = s.cols, false
	}
	s.x, s.y, s.top, s.bottom = 0, 0, 0, s.rows-1
}

// reset is RIS: as the terminal was switched on. History stays, as in every terminal's RIS but xterm's.
func (s *Screen) reset() {
	if s.alternate != nil {
		s.leaveAlternate(false)
	}
	s.softReset()
	s.clearScreen()
	s.x, s.y = 0, 0
	s.before = nil
	s.modes = newModes()
	s.palette = palette{}
	s.kitty = [2]kittyStack{}
	s.resetTabs()
}

// softReset is DECSTR (VT510 manual, "Soft Terminal Reset").
func (s *Screen) softReset() {
	m := &s.modes
	m.hidden, m.insert, m.origin, m.keypad, m.cursorKeys = false, false, false, false, false
	m.wrap = true
	s.top, s.bottom = 0, s.rows-1
	s.charsets = charsets{}
	s.link = 0
	s.setPen(style{})
	s.saved = cursorState{}
}
