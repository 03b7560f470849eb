package screen

import "slices"

// modes are the switches of a terminal that output sets.
type modes struct {
	wrap, insert, origin, newline bool  // DECAWM, IRM, DECOM, LNM
	hidden                        bool  // the cursor, by DECTCEM
	cursorKeys, keypad            bool  // application mode of each
	reversed                      bool  // DECSCNM
	paste, focus, sync            bool  // 2004, 1004, 2026
	noBackarrow                   bool  // DECBKM is set
	mouse                         int   // 0, 9, 1000, 1001, 1002 or 1003
	coords                        []int // of 1005, 1006, 1015 and 1016 those set, the last one last
	others                        []int // of passive those set
	shape                         uint8 // DECSCUSR
	blink, blinkSet               bool  // 12, once it was said
	veryVisible                   bool  // 34
	otherKeys                     int   // modifyOtherKeys
}

// passive are modes that only the client's terminal acts on: alternate scroll, meta and escape keys, grapheme
// clusters, colour scheme reports, in-band resize.
var passive = []int{66, 1007, 1034, 1035, 1036, 1039, 1042, 1043, 1070, 2027, 2031, 2048}

func newModes() modes { return modes{wrap: true} }

// ansiMode is SM and RM.
func (s *Screen) ansiMode(n int, on bool) {
	switch n {
	case 4:
		s.modes.insert = on
	case 20:
		s.modes.newline = on
	case 34:
		s.modes.veryVisible = !on
	}
}

// privateMode is DECSET and DECRST.
func (s *Screen) privateMode(n int, on bool) {
	m := &s.modes
	if f := m.flag(n); f != nil {
		*f = on
		return
	}
	switch n {
	case 3: // DECCOLM: the width is the client's, but it clears
		s.moveTo(0, 0, true)
		s.clearScreen()
	case 6:
		m.origin = on
		s.moveTo(0, 0, true)
	case 12:
		m.blink, m.blinkSet = on, true
	case 25:
		m.hidden = !on
	case 9, 1000, 1001, 1002, 1003:
		if m.mouse = 0; on {
			m.mouse = n
		}
	case 1005, 1006, 1015, 1016:
		m.coords = toggle(m.coords, n, on)
	case 47, 1047, 1049:
		s.switchScreen(n, on)
	case 1048:
		if on {
			s.saveCursor()
		} else {
			s.restoreCursor()
		}
	default:
		if slices.Contains(passive, n) {
			m.others = toggle(m.others, n, on)
		}
	}
}

// flag is the switch of a mode that is only that.
func (m *modes) flag(n int) *bool {
	switch n {
	case 1:
		return &m.cursorKeys
	case 5:
		return &m.reversed
	case 7:
		return &m.wrap
	case 67:
		return &m.noBackarrow
	case 1004:
		return &m.focus
	case 2004:
		return &m.paste
	case 2026:
		return &m.sync
	}
	return nil
}

func toggle(set []int, n int, on bool) []int {
	set = slices.DeleteFunc(set, func(v int) bool { return v == n })
	if on {
		set = append(set, n)
	}
	return set
}

// screenIndex is 0 for the primary screen and 1 for the alternate one.
func (s *Screen) screenIndex() int {
	if s.alternate != nil {
		return 1
	}
	return 0
}

// left is what the primary screen keeps while the alternate one shows, and after.
type left struct {
	x, y  int
	pen   style
	by    int  // the mode that switched: 47, 1047 or 1049
	valid bool // x and y were saved, by 1049
}

// switchScreen goes to the alternate screen, blank, or back from it.
func (s *Screen) switchScreen(n int, on bool) {
	if !on {
		s.leaveAlternate(n == 1049)
		return
	}
	if s.alternate != nil {
		return
	}
	if s.before == nil {
		s.before = &left{}
	}
	s.before.pen, s.before.by = s.pen, n
	if n == 1049 {
		s.before.x, s.before.y, s.before.valid = s.x, s.y, true
	}
	s.alternate = newGrid(s.cols, s.rows, nil)
	s.grid = s.alternate
}

// leaveAlternate goes back to the primary screen, at its present size. cursor and pen come back where they were saved.
func (s *Screen) leaveAlternate(cursor bool) {
	back := cursor && s.before != nil && s.before.valid
	if back {
		s.x, s.y = s.before.x, s.before.y
		s.setPen(s.before.pen)
	}
	if s.alternate != nil {
		s.alternate = nil
		s.grid = s.primary
		if s.primary.cols != s.cols || len(s.primary.rows) != s.rows {
			cols, rows := s.cols, s.rows
			s.cols, s.rows = s.primary.cols, len(s.primary.rows)
			s.x, s.y = min(s.x, s.cols), min(s.y, s.rows-1)
			s.resizePrimary(cols, rows)
		}
	}
	s.x, s.y = min(s.x, s.cols-1), min(s.y, s.rows-1)
}

// kittyStack is the keyboard protocol's flags of one screen (kitty's "Comprehensive keyboard handling").
type kittyStack struct {
	now   int
	saved []int
}

// maxKitty bounds the stack; what is pushed beyond drops the oldest, as the protocol has it.
const maxKitty = 16

func (k *kittyStack) flags() int { return k.now }

func (k *kittyStack) push(flags int) {
	if len(k.saved) == maxKitty {
		k.saved = slices.Delete(k.saved, 0, 1)
	}
	k.saved = append(k.saved, k.now)
	k.now = flags & 31
}

func (k *kittyStack) pop(n int) {
	for ; n > 0 && len(k.saved) > 0; n-- {
		k.now = k.saved[len(k.saved)-1]
		k.saved = k.saved[:len(k.saved)-1]
	}
	if n > 0 {
		k.now = 0
	}
}

// set is the protocol's "=": 1 replaces, 2 adds, 3 takes away.
func (k *kittyStack) set(flags, how int) {
	switch flags &= 31; how {
	case 1:
		k.now = flags
	case 2:
		k.now |= flags
	case 3:
		k.now &^= flags
	}
}

// keyModifiers is XTMODKEYS, of which programs use modifyOtherKeys.
func (s *Screen) keyModifiers() {
	q := &s.seq
	switch n := q.arg(0, 0, 0); {
	case q.n == 0:
		s.modes.otherKeys = 0
	case n == 4:
		if v := q.arg(1, 0, 0); v <= 3 {
			s.modes.otherKeys = v
		}
	}
}
