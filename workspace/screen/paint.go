package screen

import (
	"fmt"
	"strconv"
)

// painter turns written-out lines into bytes for a terminal.
type painter struct {
	b        []byte
	cols     int
	style    style // what the terminal's pen has
	link     link
	graphics bool
	gap      int  // cells that the wrapped line before left free
	started  bool // a line was painted
	wrapped  bool // the line before goes on in the next
	runs     []run
}

// appendMove is CUP; x and y are from 0.
func appendMove(b []byte, x, y int) []byte {
	b = append(b, "\x1b["...)
	b = strconv.AppendInt(b, int64(y+1), 10)
	b = append(b, ';')
	b = strconv.AppendInt(b, int64(x+1), 10)
	return append(b, 'H')
}

// pen sets style and link.
func (p *painter) pen(st style, l link) {
	if g := st.attrs&graphic != 0; g != p.graphics {
		p.graphics = g
		if g {
			p.b = append(p.b, "\x1b(0"...)
		} else {
			p.b = append(p.b, "\x1b(B"...)
		}
	}
	st.attrs &^= graphic
	if st != p.style {
		p.style = st
		if st == (style{}) {
			p.b = append(p.b, "\x1b[m"...)
		} else {
			p.b = st.appendSGR(p.b)
		}
	}
	if l != p.link {
		p.link = l
		p.b = l.appendOSC(p.b)
	}
}

func (l link) appendOSC(b []byte) []byte {
	b = append(b, "\x1b]8;"...)
	b = append(b, l.params...)
	b = append(b, ';')
	b = append(b, l.uri...)
	return append(b, "\x1b\\"...)
}

// rest puts the pen at rest: a line feed that scrolls would fill with its background.
func (p *painter) rest() { p.pen(style{}, link{}) }

// line paints one line after the other. One that wrapped is filled to the margin, so that the terminal itself wraps.
func (p *painter) line(line []byte) {
	l := readLine(line, p.runs)
	if len(l.b) == 0 && l.flags&lineWrapped != 0 && p.started && p.gap == 0 {
		p.skip()
		return
	}
	p.begin(&l)
	x := p.chars(&l, p.cols)
	if l.flags&lineFilled != 0 && x < p.cols {
		p.pen(l.fill, link{})
		p.b = append(p.b, "\x1b[K"...)
	}
	p.wrapped = l.flags&lineWrapped != 0
	p.gap = p.cols - x
}

// skip paints a line that wrapped though nothing is on it: a line feed past the margin keeps the column.
func (p *painter) skip() {
	p.rest()
	p.b = append(p.b, "\x1bD"...)
	p.wrapped = true
}

// begin goes to the next line: by wrapping where the one before did.
func (p *painter) begin(l *lineReader) {
	marks := mark(l.flags >> marksShift)
	switch {
	case !p.started:
	case !p.wrapped:
		p.rest()
		p.b = append(p.b, "\r\n"...)
	case p.gap != 1 || !l.startsWide():
		p.rest()
		for range p.gap {
			p.b = append(p.b, ' ')
		}
		if len(l.b) == 0 {
			p.b = append(p.b, ' ', '\r')
		}
	}
	if p.started && p.wrapped {
		return
	}
	p.started = true
	for _, m := range [...]struct {
		m    mark
		code string
	}{{markEnd, "D"}, {markPrompt, "A"}, {markOutput, "C"}} {
		if marks&m.m != 0 {
			p.b = append(p.b, "\x1b]133;"...)
			p.b = append(p.b, m.code...)
			p.b = append(p.b, "\x1b\\"...)
		}
	}
}

// startsWide says whether the line's first character is wide.
func (l *lineReader) startsWide() bool {
	ahead := *l
	ahead.runs = append([]run(nil), l.runs...)
	c, ok := ahead.next()
	return ok && c.columns == 2
}

// chars paints a line's characters as far as limit, and says how many cells that were.
func (p *painter) chars(l *lineReader, limit int) int {
	x, blank := 0, false
	for {
		c, ok := l.next()
		if !ok || x+c.cells() > limit {
			p.runs = l.runs[:0]
			return x
		}
		switch {
		case len(c.text) == 0 && blank:
			p.halfAfterBlank()
			x++
			continue
		case len(c.text) == 0:
			p.pen(l.run.style, l.run.link)
			p.half(x, limit)
			x++
			continue
		}
		p.pen(l.run.style, l.run.link)
		blank = string(c.text) == " " && p.style == p.style.erased() && p.link == (link{})
		switch {
		case c.cut && x+2 <= limit:
			p.b = append(append(p.b, c.text...), "\b\x1b[X"...)
		default:
			p.b = append(p.b, c.text...)
		}
		x += c.cells()
	}
}

// half leaves the second half of a wide character alone: a whole one is printed, and its first half taken out. A
// terminal that keeps no halves shows a blank, as it did for the program.
func (p *painter) half(x, limit int) {
	if x+2 > limit {
		p.b = append(p.b, ' ')
		return
	}
	p.b = append(p.b, "\u3000\x1b[2D\x1b[P\x1b[C"...)
}

// halfAfterBlank does the same where the first half was erased, and the pen is as it erased.
func (p *painter) halfAfterBlank() { p.b = append(p.b, "\b\u3000\x1b[2D\x1b[X\x1b[2C"...) }

// clipped paints a line from where the cursor is, no further than the margin, and puts the pen at rest. It says how
// many cells it painted.
func (p *painter) clipped(line []byte) int {
	l := readLine(line, p.runs)
	x := p.chars(&l, p.cols)
	if l.flags&lineFilled != 0 && x < p.cols {
		p.pen(l.fill, link{})
		p.b = fmt.Appendf(p.b, "\x1b[%dX\x1b[%dC", p.cols-x, p.cols-x) // no further, where the terminal is wider
		x = p.cols
	}
	p.rest()
	return x
}
