package screen

import (
	"unicode/utf8"
)

// cell is one position of a screen, packed into 8 bytes.
type cell struct {
	text  uint32 // a rune, or the number of a cluster; 0 was never written or was erased; and the flags below
	style uint16 // in Screen.styles
	link  uint16 // in Screen.links
}

// Flags of cell.text, above the 21 bits of a rune.
const (
	wide     = 1 << 31 // the character takes this cell and the next
	padding  = 1 << 30 // the second half of a wide character
	cluster  = 1 << 29 // the low bits are a number in Screen.clusters
	textMask = 1<<21 - 1
)

// maxCluster bounds the combining marks of one cell, in bytes.
const maxCluster = 64

// columns is the number of columns that the cell's character advances; 0 for padding.
func (c cell) columns() int {
	switch {
	case c.text&padding != 0:
		return 0
	case c.text&wide != 0:
		return 2
	}
	return 1
}

// appendText writes the cell's character; an erased cell is a space.
func (s *Screen) appendText(b []byte, c cell) []byte {
	switch {
	case c.text&padding != 0:
		return b
	case c.text&cluster != 0:
		return append(b, s.clusters.at(uint16(c.text&textMask))...)
	case c.text == 0:
		return append(b, ' ')
	}
	return utf8.AppendRune(b, rune(c.text&textMask))
}

// row is one line of a screen. cells is nil until something is written; then it is as long as the screen is wide.
type row struct {
	cells   []cell
	used    int  // cells before this one were written at some time, as far as the line remembers
	wrapped bool // the line goes on in the next one
	mixed   bool // it may have wide characters or padding
	touched bool // it has been written to, or erased in a colour, since it was new
	marks   mark // OSC 133
}

// erase makes the row blank in a background.
func (r *row) erase(cols int, c cell) {
	*r = row{cells: r.cells, touched: c != cell{}}
	switch {
	case r.touched:
		if len(r.cells) != cols {
			r.cells = make([]cell, cols)
		}
		for i := range r.cells {
			r.cells[i] = c
		}
	default:
		clear(r.cells)
	}
}

// open gives the row its cells.
func (r *row) open(cols int) {
	r.touched = true
	if len(r.cells) != cols {
		cells := make([]cell, cols)
		copy(cells, r.cells)
		r.cells = cells
	}
}

// at is a cell, blank where nothing was written.
func (r *row) at(x int) cell {
	if x < len(r.cells) {
		return r.cells[x]
	}
	return cell{}
}

// set writes a cell.
func (r *row) set(x int, c cell) {
	r.cells[x] = c
	r.used = max(r.used, x+1)
	if c.text&(wide|padding) != 0 {
		r.mixed = true
	}
}
