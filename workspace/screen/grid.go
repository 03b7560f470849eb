package screen

// grid is one screen's lines, and for the primary screen the history above them.
type grid struct {
	cols int
	rows []*row
	hist *history // nil for the alternate screen, which keeps none
	// pull is how many of the newest lines of history came there by scrolling, not by a clear: a screen that grows
	// takes those back.
	pull int
}

func newGrid(cols, rows int, h *history) *grid {
	g := &grid{cols: cols, rows: make([]*row, rows), hist: h}
	lines := make([]row, rows)
	for i := range g.rows {
		g.rows[i] = &lines[i]
	}
	return g
}

// erase blanks cells x to x+n of a row in a background. Erasing a whole row also makes it new, and the one before
// ends there.
func (g *grid) erase(y, x, n int, c cell) {
	x = min(max(x, 0), g.cols)
	n = min(n, g.cols-x)
	switch {
	case n <= 0:
	case n == g.cols:
		g.eraseRows(y, 1, c)
	default:
		r := g.rows[y]
		if c == (cell{}) && r.cells == nil {
			return
		}
		r.open(g.cols)
		for i := x; i < x+n; i++ {
			r.cells[i] = c
		}
	}
}

// eraseRows blanks n whole rows.
func (g *grid) eraseRows(y, n int, c cell) {
	n = min(n, len(g.rows)-y)
	if n <= 0 {
		return
	}
	for i := y; i < y+n; i++ {
		g.rows[i].erase(g.cols, c)
	}
	g.unwrap(y - 1)
}

// unwrap ends the line of a row: what follows is no longer its continuation.
func (g *grid) unwrap(y int) {
	switch {
	case y >= 0:
		g.rows[y].wrapped = false
	case g.hist != nil:
		g.hist.unwrap()
	}
}

// scrollUp moves the rows top to bottom up by one. On the primary screen the row that leaves goes to the history,
// whichever region scrolls.
func (s *Screen) scrollUp(top, bottom int, c cell) {
	g := s.grid
	if g.hist == nil {
		g.moveRows(top, top+1, bottom-top, c)
		return
	}
	gone := g.rows[top]
	s.remember(gone)
	g.pull++
	copy(g.rows[top:bottom], g.rows[top+1:bottom+1])
	g.rows[bottom] = gone
	gone.erase(g.cols, c)
}

// scrollDown moves the rows top to bottom down by one; the last is lost.
func (g *grid) scrollDown(top, bottom int, c cell) { g.moveRows(top+1, top, bottom-top, c) }

// moveRows moves n rows from src to dst. Those at dst are lost; those moved away from are blank.
func (g *grid) moveRows(dst, src, n int, c cell) {
	if n <= 0 || dst == src || max(dst, src)+n > len(g.rows) {
		return
	}
	lost := make([]*row, 0, n)
	for y := dst; y < dst+n; y++ {
		if y < src || y >= src+n {
			lost = append(lost, g.rows[y])
		}
	}
	g.unwrap(dst - 1)
	copy(g.rows[dst:dst+n], g.rows[src:src+n])
	for y := src; y < src+n; y++ {
		if y < dst || y >= dst+n {
			g.rows[y], lost = lost[0], lost[1:]
			g.rows[y].erase(g.cols, c)
		}
	}
	if src < dst || src >= dst+n {
		g.unwrap(src - 1)
	}
}

// insertRows puts n blank rows at y; rows down to bottom move down, and out.
func (g *grid) insertRows(y, bottom, n int, c cell) {
	n = min(n, bottom+1-y)
	kept := bottom + 1 - y - n
	g.moveRows(y+n, y, kept, c)
	if n > kept {
		g.eraseRows(y+kept, n-kept, c)
	} else {
		g.unwrap(y + kept - 1)
	}
}

// deleteRows takes n rows out at y; rows up to bottom move up, and blank ones follow.
func (g *grid) deleteRows(y, bottom, n int, c cell) {
	n = min(n, bottom+1-y)
	kept := bottom + 1 - y - n
	g.moveRows(y, y+n, kept, c)
	if n > kept {
		g.eraseRows(y+kept, n-kept, c)
	} else if n < kept {
		g.unwrap(y + kept - 1)
	}
}

// moveCells moves n cells of a row from src to dst; those moved away from are blank.
func (g *grid) moveCells(y, dst, src, n int, c cell) {
	if n <= 0 || src == dst {
		return
	}
	r := g.rows[y]
	r.open(g.cols)
	copy(r.cells[dst:dst+n], r.cells[src:src+n])
	r.used = max(r.used, dst+n)
	for x := src; x < src+n; x++ {
		if x < dst || x >= dst+n {
			r.cells[x] = c
		}
	}
}

// insertCells moves the cells from x on right by n, and blanks what was moved away from.
func (g *grid) insertCells(y, x, n int, c cell) {
	if x >= g.cols-1 {
		g.erase(y, x, 1, c)
		return
	}
	n = min(n, g.cols-x)
	g.moveCells(y, x+n, x, g.cols-x-n, c)
}

// deleteCells moves the cells after x+n left by n, and blanks n at the end.
func (g *grid) deleteCells(y, x, n int, c cell) {
	n = min(n, g.cols-x)
	kept := g.cols - x - n
	g.moveCells(y, x, x+n, kept, c)
	if n > kept {
		g.erase(y, x+kept, n-kept, c)
	}
}

// last is one past the last row on which something was written.
func (g *grid) last() int {
	for y := len(g.rows); y > 0; y-- {
		if g.rows[y-1].used > 0 {
			return y
		}
	}
	return 0
}

// clone is a copy that goes its own way.
func (g *grid) clone() *grid {
	c := &grid{cols: g.cols, pull: g.pull}
	if g.hist != nil {
		c.hist = g.hist.clone()
	}
	for _, r := range g.rows {
		copied := *r
		copied.cells = append([]cell(nil), r.cells...)
		c.rows = append(c.rows, &copied)
	}
	return c
}
