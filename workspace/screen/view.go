package screen

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Cursor is where the cursor stands, from 0. Past the margin, where the next character wraps, it is in the last column.
type Cursor struct {
	Row     int  `json:"row"`
	Col     int  `json:"col"`
	Visible bool `json:"visible"`
}

// View is a screen as text.
type View struct {
	Rows      []string `json:"rows"`
	Wrapped   []int    `json:"wrapped,omitempty"` // the rows that go on in the next: one line that was too long
	Cursor    Cursor   `json:"cursor"`
	Size      Size     `json:"size"`
	Title     string   `json:"title"`
	Alternate bool     `json:"alternate"`
}

// View is what shows now.
func (s *Screen) View() View {
	v := View{Size: Size{s.cols, s.rows}, Title: s.title, Alternate: s.alternate != nil, Rows: make([]string, s.rows)}
	for y, r := range s.grid.rows {
		s.scratch = s.appendLine(s.scratch[:0], r, s.cols)
		v.Rows[y] = lineText(s.scratch)
		if r.wrapped && y < s.rows-1 {
			v.Wrapped = append(v.Wrapped, y)
		}
	}
	v.Cursor = Cursor{Row: s.y, Col: min(s.x, s.cols-1), Visible: !s.modes.hidden}
	return v
}

// Lines are the rows with those that wrapped made whole, as the program printed them.
func (v View) Lines() []string {
	var out []string
	line := ""
	for y, row := range v.Rows {
		line += row
		if !slices.Contains(v.Wrapped, y) {
			out, line = append(out, line), ""
			continue
		}
		// Rows are without the blanks at their ends; a single cell is left free where a wide character didn't fit.
		free := v.Size.Cols - ansi.StringWidthWc(row)
		if next, _ := utf8.DecodeRuneInString(v.Rows[y+1]); free == 1 && width(next) == 2 {
			free = 0
		}
		line += strings.Repeat(" ", max(free, 0))
	}
	return out
}

// HistoryText is the kept history, oldest line first.
func (s *Screen) HistoryText() []string {
	h := s.primary.hist
	out := make([]string, 0, h.lines)
	h.each(h.lines, func(line []byte) { out = append(out, lineText(line)) })
	return out
}

// lineText is a line's text, without trailing blanks.
func lineText(line []byte) string {
	var b strings.Builder
	l := readLine(line, nil)
	for {
		c, ok := l.next()
		if !ok {
			return strings.TrimRight(b.String(), " ")
		}
		if l.run.style.attrs&graphic != 0 && len(c.text) == 1 {
			b.WriteRune(lineDrawing(c.text[0]))
		} else {
			b.Write(c.text)
		}
	}
}

// drawings are DEC special graphics from 0x5f to 0x7e (VT510 manual, table 2-?; as xterm draws them).
const drawings = " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"

// drawing is drawings as runes.
var drawing = []rune(drawings)

func lineDrawing(b byte) rune {
	if b >= 0x5f && b <= 0x7e {
		return drawing[b-0x5f]
	}
	return rune(b)
}

// Overlay is bytes that lay text, reversed, over the last row; cursor and pen stay.
func (s *Screen) Overlay(text string) []byte {
	text = ansi.Truncate(clean(text), s.cols-1, "…")
	return s.aside(func(b []byte) []byte {
		b = appendMove(b, 0, s.rows-1)
		b = append(b, "\x1b[0;7m"...)
		return append(b, text...)
	})
}

// Row is bytes that repaint one row, from 0; cursor and pen stay.
func (s *Screen) Row(y int) []byte {
	if y < 0 || y >= s.rows {
		return nil
	}
	return s.aside(func(b []byte) []byte {
		b = appendMove(b, 0, y)
		p := painter{b: append(b, "\x1b[0m\x1b[2K"...), cols: s.cols}
		s.scratch = s.appendLine(s.scratch[:0], s.grid.rows[y], s.cols)
		p.clipped(s.scratch)
		return p.b
	})
}

// aside draws something elsewhere, and brings back what that changed: the cursor, the pen, what DECSC saved.
func (s *Screen) aside(draw func(b []byte) []byte) []byte {
	b := []byte("\x1b[?25l\x1b[?6l\x1b[?7l\x1b[4l\x0f\x1b(B\x1b]8;;\x1b\\")
	b = draw(b)
	if s.modes.wrap {
		b = append(b, "\x1b[?7h"...)
	}
	return s.appendPlace(b)
}
