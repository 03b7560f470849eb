package screen

import (
	"fmt"
	"slices"
)

// prologue brings a terminal in any state to one that can be drawn on. A sequence that is open is cancelled, not
// ended: ending it would carry it out.
const prologue = "\x18\x1b[?2026l\x1b[?25l\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?2004l" +
	"\x1b[<99u\x1b[>4;0m\x1b[?1049l\x1b[<99u\x1b[?1l\x1b>\x1b[?5l\x1b[?6l\x1b[?7h\x1b[4l\x1b[20l\x1b[r\x0f\x1b(B\x1b)B\x1b]8;;\x1b\\\x1b[m"

// Redraw is bytes that bring a fresh terminal of this size to this state, with so many of the newest lines of history
// in its own scrollback. It asks the terminal nothing, rings no bell, and writes no clipboard. Where the screen is in the middle of a
// sequence, so is the terminal afterwards: what the program writes next goes on there.
func (s *Screen) Redraw(history int) []byte { return s.RedrawFor(s.cols, s.rows, history) }

// RedrawFor is Redraw for a client of another size: what does not fit is cropped.
func (s *Screen) RedrawFor(cols, rows, history int) []byte {
	b := []byte(prologue)
	if history > 0 {
		b = append(b, "\x1b[H\x1b[2J"...) // what was there goes to the terminal's scrollback, where it keeps one
	} else {
		b = append(b, "\x1b[999;999H\x1b[1J\x1b[H"...) // a repaint leaves no copy there
	}
	if cols == s.cols && rows == s.rows {
		b = s.appendScreens(b, history)
	} else {
		b = s.appendCropped(b, max(cols, 1), max(rows, 1), history)
	}
	b = s.appendTitles(b)
	b = s.appendPalette(b)
	b = s.appendModes(b)
	if cols != s.cols || rows != s.rows {
		return s.appendCroppedPlace(b, max(cols, 1), max(rows, 1))
	}
	b = s.appendTabs(b)
	b = s.appendRegion(b)
	b = s.appendPlace(b)
	return append(b, s.openBytes()...)
}

// appendScreens draws the primary screen with the history, and the alternate one over it.
func (s *Screen) appendScreens(b []byte, history int) []byte {
	if s.alternate == nil {
		b = s.appendPrimary(b, history)
		return s.kitty[0].append(b)
	}
	p := s
	if s.primary.cols != s.cols || len(s.primary.rows) != s.rows {
		p = s.clone() // it shows at this size once the program leaves
		p.leaveAlternate(true)
		p.before.x, p.before.y = p.x, p.y
	}
	b = p.appendPrimary(b, history)
	b = s.kitty[0].append(b)
	by := s.before.by
	if s.before.valid {
		by = 1049 // which saves the cursor, and it may be asked for
		b = appendMove(b, min(p.before.x, s.cols-1), p.before.y)
	}
	b = s.before.pen.appendSGR(b)
	b = fmt.Appendf(b, "\x1b[?%dh\x1b[m\x1b[H\x1b[2J", by)
	b = s.appendRows(b, s.alternate, s.lastRow(s.alternate))
	return s.kitty[1].append(b)
}

// appendPrimary draws history and primary screen in one go, so that what scrolls off is the history.
func (s *Screen) appendPrimary(b []byte, history int) []byte {
	g := s.primary
	n := min(history, g.hist.lines)
	rows := s.lastRow(g)
	if n <= 0 {
		return s.appendRows(b, g, rows)
	}
	p := painter{b: b, cols: s.cols}
	g.hist.each(n, p.line)
	return s.appendRowsAfter(p, g, len(g.rows))
}

// lastRow is one past the last row that has something to draw.
func (s *Screen) lastRow(g *grid) int {
	for y := len(g.rows); y > 0; y-- {
		if !g.rows[y-1].blank() {
			return y
		}
	}
	return 0
}

// blank says whether the row shows nothing.
func (r *row) blank() bool {
	return r.used == 0 && r.marks == 0 && !slices.ContainsFunc(r.cells, func(c cell) bool { return c != cell{} })
}

// appendRows draws n rows from the cursor on.
func (s *Screen) appendRows(b []byte, g *grid, n int) []byte {
	return s.appendRowsAfter(painter{b: b, cols: s.cols}, g, n)
}

func (s *Screen) appendRowsAfter(p painter, g *grid, n int) []byte {
	for _, r := range g.rows[:n] {
		s.scratch = s.appendLine(s.scratch[:0], r, s.cols)
		p.line(s.scratch)
	}
	p.rest()
	return p.b
}

// append sets a keyboard stack on a terminal whose stack is empty.
func (k *kittyStack) append(b []byte) []byte {
	flags := append(slices.Clone(k.saved), k.now)
	if flags[0] != 0 {
		b = fmt.Appendf(b, "\x1b[=%d;1u", flags[0])
	}
	for _, f := range flags[1:] {
		b = fmt.Appendf(b, "\x1b[>%du", f)
	}
	return b
}

func (s *Screen) appendTitles(b []byte) []byte {
	for _, t := range s.titles {
		b = fmt.Appendf(b, "\x1b]2;%s\x1b\\\x1b[22;2t", t)
	}
	if s.title != "" || len(s.titles) > 0 {
		b = fmt.Appendf(b, "\x1b]2;%s\x1b\\", s.title)
	}
	if s.path != "" {
		b = fmt.Appendf(b, "\x1b]7;%s\x1b\\", s.path)
	}
	return b
}

func (s *Screen) appendPalette(b []byte) []byte {
	for n := range 256 {
		if c, ok := s.palette.colors[n]; ok {
			b = fmt.Appendf(b, "\x1b]4;%d;%s\x1b\\", n, c)
		}
	}
	for i, c := range s.palette.fixed {
		if c != "" {
			b = fmt.Appendf(b, "\x1b]%d;%s\x1b\\", 10+i, c)
		}
	}
	return b
}

// appendModes sets the modes that decide nothing about drawing.
func (s *Screen) appendModes(b []byte) []byte {
	m := &s.modes
	for _, f := range []struct {
		on  bool
		set string
	}{
		{m.cursorKeys, "\x1b[?1h"}, {m.keypad, "\x1b="}, {m.reversed, "\x1b[?5h"}, {m.noBackarrow, "\x1b[?67h"},
		{m.focus, "\x1b[?1004h"}, {m.paste, "\x1b[?2004h"}, {m.newline, "\x1b[20h"}, {m.veryVisible, "\x1b[34l"},
		{m.blinkSet && m.blink, "\x1b[?12h"}, {m.blinkSet && !m.blink, "\x1b[?12l"},
	} {
		if f.on {
			b = append(b, f.set...)
		}
	}
	private := slices.Concat(m.others, m.coords)
	if m.mouse != 0 {
		private = append(private, m.mouse)
	}
	for _, n := range private {
		b = fmt.Appendf(b, "\x1b[?%dh", n)
	}
	if m.otherKeys > 0 {
		b = fmt.Appendf(b, "\x1b[>4;%dm", m.otherKeys)
	}
	if m.shape > 0 {
		b = fmt.Appendf(b, "\x1b[%d q", m.shape)
	}
	return b
}

// neutral opens a string that no terminal acts on, and that ends as the one it stands in for.
const (
	neutralOSC    = "\x1b]99999;"
	neutralString = "\x1b_"
)

// openBytes is what makes the terminal be in the middle of the sequence or character that the screen is in.
func (s *Screen) openBytes() []byte {
	q := &s.seq
	switch {
	case q.state == 0:
		return q.utf[:q.utfLen]
	case len(q.open) <= maxOpen && !q.clipboard():
		return q.open
	case len(q.open) > 1 && q.open[1] == ']':
		return []byte(neutralOSC)
	}
	return []byte(neutralString)
}

// clipboard says whether the open sequence writes the clipboard.
func (q *sequence) clipboard() bool {
	return len(q.open) > 3 && string(q.open[1:4]) == "]52"
}

// Restore is bytes that put a client's terminal back to sanity when it leaves.
func Restore() []byte {
	return []byte("\x18\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2026l" +
		"\x1b[?2031l\x1b[?2048l\x1b[<99u\x1b[>4;0m\x1b[?1l\x1b>\x1b[?5l\x1b[4l\x1b[20l\x1b[?6l\x1b[?1049l\x1b[<99u\x1b[r\x1b[?7h\x1b[?25h\x1b[0 q" +
		"\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\" + // the palette and the default colours
		"\x1b]8;;\x1b\\\x1b[0m\x0f\x1b(B\x1b)B\x1b[999;1H\r\n")
}
