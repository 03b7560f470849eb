package screen

import "github.com/charmbracelet/x/ansi"

// arg is parameter i, def where it is missing, at least least.
func (q *sequence) arg(i, least, def int) int {
	if i >= q.n {
		return def
	}
	return max(q.params[i].Param(def), least)
}

// csi acts on a control sequence.
func (s *Screen) csi() {
	q := &s.seq
	if q.bad {
		return
	}
	last := s.last
	s.last = -1
	switch {
	case q.cmd.Intermediate() != 0:
		s.csiIntermediate(q.cmd)
	case q.cmd.Prefix() == '?':
		s.csiPrivate(q.cmd.Final())
	case q.cmd.Prefix() != 0:
		s.csiPrefixed(q.cmd.Prefix(), q.cmd.Final())
	case q.cmd.Final() == 'm':
		s.sgr()
	case q.cmd.Final() == 'b':
		s.repeat(last)
	default:
		if !s.csiMove(q.cmd.Final()) && !s.csiEdit(q.cmd.Final()) {
			s.csiOther(q.cmd.Final())
		}
	}
}

// csiMove: the sequences that move the cursor.
func (s *Screen) csiMove(final byte) bool {
	q := &s.seq
	n := q.arg(0, 1, 1)
	switch final {
	case 'A':
		s.up(n)
	case 'B', 'e':
		s.down(n)
	case 'C', 'a':
		s.right(n)
	case 'D':
		s.left(n)
	case 'E':
		s.x = 0
		s.down(n)
	case 'F':
		s.x = 0
		s.up(n)
	case 'G', '`':
		s.x = min(n, s.cols) - 1
	case 'H', 'f':
		s.moveTo(q.arg(1, 1, 1)-1, n-1, true)
	case 'd':
		x := s.x
		s.moveTo(x, n-1, true)
		s.x = x
	case 'Z':
		s.backTab(n)
	case 'I':
		for range min(n, s.cols) {
			s.tab()
		}
	default:
		return false
	}
	return true
}

// csiEdit: the sequences that erase and shift.
func (s *Screen) csiEdit(final byte) bool {
	q := &s.seq
	n := q.arg(0, 1, 1)
	inside := s.y >= s.top && s.y <= s.bottom
	switch final {
	case '@':
		if s.x < s.cols {
			s.grid.insertCells(s.y, s.x, n, s.eraseCell())
		}
	case 'P':
		if s.x < s.cols {
			s.grid.deleteCells(s.y, s.x, n, s.eraseCell())
		}
	case 'X':
		s.grid.erase(s.y, min(s.x, s.cols), n, s.eraseCell())
	case 'J':
		s.eraseDisplay(q.arg(0, 0, 0))
	case 'K':
		s.eraseLine(q.arg(0, 0, 0))
	case 'L':
		if inside {
			s.grid.insertRows(s.y, s.bottom, n, s.eraseCell())
		} else if kept := s.rows - s.y - n; kept > 0 {
			s.grid.moveRows(s.y+n, s.y, kept, s.eraseCell())
		}
	case 'M':
		bottom := s.bottom
		if !inside {
			bottom = s.rows - 1
		}
		s.grid.deleteRows(s.y, bottom, n, s.eraseCell())
	case 'S':
		for range min(n, s.bottom-s.top+1) {
			s.scrollUp(s.top, s.bottom, s.eraseCell())
		}
	case 'T':
		for range min(n, s.bottom-s.top+1) {
			s.grid.scrollDown(s.top, s.bottom, s.eraseCell())
		}
	default:
		return false
	}
	return true
}

func (s *Screen) csiOther(final byte) {
	q := &s.seq
	switch final {
	case 'c':
		s.deviceAttributes(0)
	case 'g':
		s.clearTabs(q.arg(0, 0, 0))
	case 'h', 'l':
		for i := range q.n {
			s.ansiMode(q.arg(i, 0, 0), final == 'h')
		}
	case 'n':
		s.statusReport(q.arg(0, 0, 0))
	case 'r':
		s.setRegion(q.arg(0, 1, 1)-1, q.arg(1, 1, s.rows)-1)
	case 's':
		s.saveCursor()
	case 'u':
		s.restoreCursor()
	case 't':
		s.windowOps()
	}
}

// csiPrivate: the sequences with a question mark.
func (s *Screen) csiPrivate(final byte) {
	q := &s.seq
	switch final {
	case 'h', 'l':
		for i := range q.n {
			s.privateMode(q.arg(i, 0, 0), final == 'h')
		}
	case 'J':
		s.eraseDisplay(q.arg(0, 0, 0))
	case 'K':
		s.eraseLine(q.arg(0, 0, 0))
	case 'n':
		s.privateReport(q.arg(0, 0, 0))
	case 'u':
		s.reply("\x1b[?%du", s.kitty[s.screenIndex()].flags())
	case 'm':
		s.keyReport(q.arg(0, 0, 0))
	}
}

// csiPrefixed: the sequences with <, = or >.
func (s *Screen) csiPrefixed(prefix, final byte) {
	q := &s.seq
	k := &s.kitty[s.screenIndex()]
	switch {
	case prefix == '>' && final == 'c':
		s.deviceAttributes('>')
	case prefix == '=' && final == 'c':
		s.deviceAttributes('=')
	case prefix == '>' && final == 'q':
		if q.arg(0, 0, 0) == 0 {
			s.version()
		}
	case prefix == '>' && final == 'u':
		k.push(q.arg(0, 0, 0))
	case prefix == '<' && final == 'u':
		k.pop(q.arg(0, 1, 1))
	case prefix == '=' && final == 'u':
		k.set(q.arg(0, 0, 0), q.arg(1, 1, 1))
	case prefix == '>' && final == 'm':
		s.keyModifiers()
	case prefix == '>' && final == 'n':
		if q.arg(0, 0, 2) == 4 {
			s.modes.otherKeys = 0
		}
	}
}

// csiIntermediate: the sequences with one more byte before their final one.
func (s *Screen) csiIntermediate(cmd ansi.Cmd) {
	q := &s.seq
	switch {
	case cmd.Intermediate() == ' ' && cmd.Final() == 'q' && cmd.Prefix() == 0:
		if n := q.arg(0, 0, 0); n <= 6 {
			s.modes.shape = uint8(n)
			s.modes.blinkSet = false
		}
	case cmd.Intermediate() == '!' && cmd.Final() == 'p':
		s.softReset()
	case cmd.Intermediate() == '$' && cmd.Final() == 'p':
		s.modeReport(q.arg(0, 0, 0), cmd.Prefix() == '?')
	}
}

// repeat prints the last character n times, to the margin at most.
func (s *Screen) repeat(last rune) {
	if last < 0 {
		return
	}
	for range min(s.seq.arg(0, 1, 1), s.cols-s.x) {
		if last < 0x7f {
			s.printASCII([]byte{byte(last)})
		} else {
			s.printRune(last)
		}
	}
	s.last = -1
}

// clearTabs is TBC.
func (s *Screen) clearTabs(n int) {
	switch {
	case n == 0 && s.x < s.cols:
		s.ownTabs()[s.x] = false
	case n == 3:
		clear(s.ownTabs())
	}
}

// eraseDisplay is ED. Clearing all of the primary screen puts what was on it into the history, as terminals with a
// scrollback do.
func (s *Screen) eraseDisplay(n int) {
	c := s.eraseCell()
	switch {
	case n == 0 && s.x == 0 && s.y == 0, n == 2:
		s.clearScreen()
	case n == 0:
		s.grid.erase(s.y, s.x, s.cols-s.x, c)
		s.grid.eraseRows(s.y+1, s.rows, c)
	case n == 1:
		if s.y > 0 {
			s.grid.eraseRows(0, s.y, c)
		}
		s.grid.erase(s.y, 0, min(s.x+1, s.cols), c)
	case n == 3 && s.seq.arg(1, 0, 0) == 0 && s.primary.hist != nil:
		s.primary.hist.clear()
		s.primary.pull = 0
	}
}

// clearScreen blanks the screen, and on the primary one keeps what was written in the history.
func (s *Screen) clearScreen() {
	if s.grid.hist != nil {
		n := s.grid.last()
		for _, r := range s.grid.rows[:n] {
			s.remember(r)
		}
		if n > 0 {
			s.grid.pull = 0
		}
	}
	s.grid.eraseRows(0, s.rows, s.eraseCell())
}

// eraseLine is EL.
func (s *Screen) eraseLine(n int) {
	c := s.eraseCell()
	switch {
	case n == 2, n == 0 && s.x == 0, n == 1 && s.x >= s.cols-1:
		if r := s.grid.rows[s.y]; r.touched || c != (cell{}) {
			marks := r.marks // a prompt that is repainted is one still
			s.grid.eraseRows(s.y, 1, c)
			r.marks = marks
		}
	case n == 0:
		s.grid.erase(s.y, s.x, s.cols-s.x, c)
	case n == 1:
		s.grid.erase(s.y, 0, s.x+1, c)
	}
}
