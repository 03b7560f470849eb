package screen

// maxSize bounds both sides of a screen, in cells.
const maxSize = 4096

// Resize changes the size in cells. The primary screen's lines that wrapped are wrapped anew, with the history; the
// alternate screen is cut or filled, as the program behind it repaints. The scroll region goes, and with another
// width the tab stops.
func (s *Screen) Resize(cols, rows int) {
	cols, rows = min(max(cols, 1), maxSize), min(max(rows, 1), maxSize)
	if cols == s.cols && rows == s.rows {
		return
	}
	if cols != s.cols {
		s.resetTabs()
	}
	if s.alternate == nil {
		s.resizePrimary(cols, rows)
	} else {
		s.resizeAlternate(cols, rows)
	}
	s.top, s.bottom = 0, s.rows-1
}

// resizeAlternate cuts rows below the cursor first, then from the top. The primary screen waits for its return.
func (s *Screen) resizeAlternate(cols, rows int) {
	g := s.alternate
	if cut := len(g.rows) - rows; cut > 0 {
		below := min(cut, len(g.rows)-1-s.y)
		g.rows = g.rows[:len(g.rows)-below]
		g.rows = g.rows[cut-below:]
		s.y -= cut - below
	}
	for len(g.rows) < rows {
		g.rows = append(g.rows, &row{})
	}
	g.cols = cols
	for _, r := range g.rows {
		if r.cells != nil {
			r.open(cols)
			r.used = min(r.used, cols)
		}
	}
	s.cols, s.rows = cols, rows
	s.x = min(s.x, cols)
}

// resizePrimary changes the height, then wraps anew for the width.
func (s *Screen) resizePrimary(cols, rows int) {
	s.resizeHeight(rows)
	if cols != s.cols {
		s.reflow(cols)
	}
	s.cols, s.rows = cols, rows
	s.x = min(s.x, cols)
	s.top, s.bottom = 0, rows-1
}

// resizeHeight drops rows below the cursor, then puts rows at the top into history; or takes them back from there,
// as far as they came by scrolling, and fills up at the bottom.
func (s *Screen) resizeHeight(rows int) {
	g := s.primary
	if cut := len(g.rows) - rows; cut > 0 {
		below := min(cut, len(g.rows)-1-s.y)
		g.rows = g.rows[:len(g.rows)-below]
		for range cut - below {
			s.remember(g.rows[0])
			g.pull++
			g.rows = g.rows[1:]
			s.y--
		}
	}
	var back []*row
	for len(g.rows)+len(back) < rows && g.pull > 0 {
		line, ok := g.hist.pop()
		if !ok {
			break
		}
		g.pull--
		back = append(back, s.recall(line, g.cols))
	}
	s.y += len(back)
	for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
		back[i], back[j] = back[j], back[i]
	}
	g.rows = append(back, g.rows...)
	for len(g.rows) < rows {
		g.rows = append(g.rows, &row{})
	}
}

// reflow wraps the primary screen's lines anew, history and all.
func (s *Screen) reflow(cols int) {
	g := s.primary
	before := g.hist
	g.hist = &history{limit: before.limit}
	f := reflow{s: s, cols: cols, target: g, y: before.lines + s.y, x: s.x, height: len(g.rows), pull: g.pull}
	s.reflowing = &f
	defer func() { s.reflowing = nil }()
	before.each(before.lines, func(line []byte) { f.add(s.recall(line, g.cols)) })
	for _, r := range g.rows {
		f.add(r)
	}
	f.flush()
	g.cols = cols
	f.finish()
}

// reflow is one wrapping anew: rows go in, are joined to whole lines, and come out at the new width. Only the last
// rows are kept as such; those before go to the history as they come.
type reflow struct {
	s      *Screen
	cols   int
	target *grid
	line   []*row // of the line being joined
	in     int    // rows taken in
	x, y   int    // the cursor among them
	height int
	pull   int
	out    []*row
	gone   int // rows of the result that are in the history already
	curX   int // the cursor in the result
	curY   int
	found  bool
}

// add takes in a row.
func (f *reflow) add(r *row) {
	if n := len(f.line); n > 0 && r.used == 0 && !r.wrapped {
		f.flush() // an empty row ends a line without being part of it
	}
	f.line = append(f.line, r)
	f.in++
	if !r.wrapped {
		f.flush()
	}
}

// flush wraps the joined line.
func (f *reflow) flush() {
	if len(f.line) == 0 {
		return
	}
	first := f.in - len(f.line)
	holds := f.y >= first && f.y < f.in // the cursor's line
	at := -1                            // the cursor's offset in it, in cells; -1 for its end
	var cells []cell
	for i, r := range f.line {
		if first+i == f.y && f.x < r.used {
			at = len(cells) + f.x
		}
		used := min(r.used, len(r.cells))
		cells = append(cells, r.cells[:used]...)
	}
	f.follow()
	last := f.line[len(f.line)-1]
	rows := split(cells, f.cols)
	rows[0].marks = f.line[0].marks
	rows[len(rows)-1].wrapped = last.wrapped
	f.fill(rows, last)
	if holds {
		f.place(rows, at)
	}
	for _, r := range rows {
		f.emit(r)
	}
	f.line = f.line[:0]
}

// follow keeps count of the lines that came by scrolling while the joined line becomes more or fewer rows: step by
// step as rows are cut up, or filled from those that follow, since the count may end inside.
func (f *reflow) follow() {
	left := make([]int, len(f.line))
	for i, r := range f.line {
		left[i] = r.used
	}
	to := f.gone + len(f.out)
	for i := 0; i < len(left); {
		width := left[i]
		if width == f.cols {
			to, i = to+1, i+1
			continue
		}
		n := max(1, (width+f.cols-1)/f.cols)
		if width > f.cols && f.in-len(f.line)+i <= f.pull {
			f.pull += n - 1
		}
		to += n
		i++
		eaten := 0
		for room := n*f.cols - width; room > 0 && i < len(left); {
			take := min(room, left[i])
			room -= take
			if left[i] -= take; left[i] > 0 {
				break
			}
			eaten, i = eaten+1, i+1
		}
		switch {
		case f.pull > to-1+eaten:
			f.pull -= eaten
		case f.pull > to-1 && eaten > 0:
			f.pull = to - 1
		}
	}
}

// fill keeps a background that a row was erased in, after its text.
func (f *reflow) fill(rows []*row, was *row) {
	if len(was.cells) == 0 || len(was.cells) <= was.used {
		return
	}
	c := was.cells[len(was.cells)-1]
	if r := rows[len(rows)-1]; c != (cell{}) && r.used < f.cols {
		n := len(r.cells)
		r.open(f.cols)
		for x := max(n, r.used); x < f.cols; x++ {
			r.cells[x] = c
		}
	}
}

// split cuts cells into rows of a width; each but the last goes on in the next.
func split(cells []cell, cols int) []*row {
	var rows []*row
	for {
		n, w := 0, 0
		for n < len(cells) && w+cells[n].columns() <= cols {
			w += cells[n].columns()
			n++
		}
		if n == 0 && len(cells) > 0 {
			n = 1 // wider than the screen
		}
		r := &row{cells: append([]cell(nil), cells[:n]...), used: n, touched: n > 0, wrapped: true}
		for _, c := range r.cells {
			r.mixed = r.mixed || c.text&(wide|padding) != 0
		}
		if len(r.cells) > 0 {
			r.fit(cols)
		}
		rows = append(rows, r)
		cells = cells[n:]
		if len(cells) == 0 {
			r.wrapped = false
			return rows
		}
	}
}

// fit gives the cells a length.
func (r *row) fit(cols int) {
	touched := r.touched
	r.open(cols)
	r.touched = touched
	r.used = min(r.used, cols)
}

// place finds the cursor's place in the rows that its line became.
func (f *reflow) place(rows []*row, at int) {
	f.found = true
	for i, r := range rows {
		f.curY = f.gone + len(f.out) + i
		if at < 0 {
			f.curX = r.used
			continue
		}
		if at < r.used || i == len(rows)-1 {
			f.curX = at
			return
		}
		at -= r.used
	}
}

// emit puts a row out; what can't be on the screen any more goes to the history.
func (f *reflow) emit(r *row) {
	f.out = append(f.out, r)
	if len(f.out) > f.height {
		f.s.rememberAt(f.out[0], f.cols)
		f.out[0] = nil
		f.out = f.out[1:]
		f.gone++
	}
}

// finish makes the result the screen.
func (f *reflow) finish() {
	g := f.target
	for len(f.out) < f.height {
		f.out = append(f.out, &row{})
	}
	g.rows = append([]*row(nil), f.out...)
	g.pull = min(f.pull, g.hist.lines)
	f.s.x, f.s.y = 0, 0
	if f.found && f.curY >= f.gone {
		f.s.x, f.s.y = f.curX, f.curY-f.gone
	}
}

// rememberAt is remember for a row of a width that isn't the screen's yet.
func (s *Screen) rememberAt(r *row, cols int) {
	s.primary.hist.push(func(b []byte) []byte { return s.appendLine(b, r, cols) })
}
