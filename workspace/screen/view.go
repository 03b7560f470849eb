package screen

import (
	"strings"

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
	}
	v.Cursor = Cursor{Row: s.y, Col: min(s.x, s.cols-1), Visible: !s.modes.hidden}
	return v
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
