// Package screen is terminal state: bytes in, what a terminal shows out, and back to bytes that redraw it.
//
// A Screen takes in what a program prints (Write) and keeps all that a terminal keeps: both screens with packed cells,
// the history written out and compressed, cursor, pen, modes, titles, palette. Redraw is the inverse: bytes that bring
// a fresh terminal to the same state, its own scrollback included.
//
// What a sequence does follows ECMA-48 and the VT510, with xterm's and kitty's additions. Where those leave a choice
// (where lines wrap anew, what goes to history, what is left of half a wide character), it does as tmux 3.3a does,
// which is the tests' oracle; the tests name the cases where tmux isn't followed.
package screen

import "slices"

// Options bound a screen.
type Options struct {
	History int // lines of history that are kept (2000)
}

// defaultHistory is the lines of history that a screen keeps unless told otherwise.
const defaultHistory = 2000

// Size is a screen's size in cells.
type Size struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// Screen is the state of one terminal. It is not for concurrent use.
type Screen struct {
	cols, rows int
	grid       *grid // the one that shows: primary or alternate
	primary    *grid // as wide and high as it was when the alternate screen came
	alternate  *grid // nil while the primary screen shows

	x, y        int // the cursor; x is cols while the next character will wrap
	top, bottom int // the scroll region, both included
	pen         style
	penStyle    uint16
	link        uint16 // of the pen
	brush       cell   // what printing ASCII stamps
	charsets    charsets
	last        rune // what REP repeats; -1 for nothing
	joining     bool // a joiner came: the next character goes with the one before

	modes  modes
	saved  cursorState // by DECSC
	before *left       // of the primary screen, while or since the alternate one showed; nil before
	kitty  [2]kittyStack
	tabs   []bool // nil for every eighth column

	title   string
	titles  []string
	path    string // OSC 7
	palette palette
	bell    bool
	replies []byte

	styles   table[style]
	links    table[link]
	clusters table[string]

	seq       sequence
	reflowing *reflow
	scratch   []byte // a line on its way out
}

// New makes a blank screen of a size in cells.
func New(cols, rows int, o Options) *Screen {
	cols, rows = min(max(cols, 1), maxSize), min(max(rows, 1), maxSize)
	if o.History <= 0 {
		o.History = defaultHistory
	}
	s := &Screen{cols: cols, rows: rows, bottom: rows - 1, last: -1, modes: newModes()}
	s.primary = newGrid(cols, rows, &history{limit: o.History})
	s.grid = s.primary
	return s
}

// Close is here for owners that end what they hold; a screen holds nothing but memory.
func (s *Screen) Close() error { return nil }

// Size is the size in cells.
func (s *Screen) Size() (cols, rows int) { return s.cols, s.rows }

// Bell says whether a bell rang since the last call.
func (s *Screen) Bell() bool {
	b := s.bell
	s.bell = false
	return b
}

// clone is a copy that goes its own way, for a redraw that must look ahead.
func (s *Screen) clone() *Screen {
	c := *s
	c.primary = s.primary.clone()
	c.grid = c.primary
	if s.alternate != nil {
		c.alternate = s.alternate.clone()
		c.grid = c.alternate
	}
	if s.before != nil {
		before := *s.before
		c.before = &before
	}
	c.tabs = slices.Clone(s.tabs)
	c.styles, c.links, c.clusters = s.styles.clone(), s.links.clone(), s.clusters.clone()
	c.seq = sequence{}
	c.scratch, c.replies = nil, nil
	return &c
}
