package screen

import (
	"encoding/binary"
	"unicode/utf8"
)

// A line is a row written out: its text in UTF-8 with runs of styles, no cells. History keeps lines, redraws are made
// from them, and checkpoints hold them (FORMAT.md). It stands on no table.

// Flags of a line's first byte; the marks of OSC 133 are in the bits from marksShift on.
const (
	lineWrapped = 1 << iota
	lineStyled  // runs of styles follow the text
	lineFilled  // the rest of the row has a style: erased in a colour
	marksShift  = 4
)

// Escapes in a line's text: bytes that UTF-8 never has.
const (
	escHalf    = 0xff // a second half without its character
	escCut     = 0xfe // the wide character that follows has no second half
	escCluster = 0xfd // a byte of length, then a character with its marks
	escWide    = 0xfc // the same, wide
)

// appendLine writes a row out.
func (s *Screen) appendLine(b []byte, r *row, cols int) []byte {
	used, fill := r.extent(cols)
	flags := byte(r.marks) << marksShift
	if r.wrapped {
		flags |= lineWrapped
	}
	cells := r.cells
	if used > len(cells) {
		cells = append(append([]cell(nil), cells...), make([]cell, used-len(cells))...)
	}
	cells = cells[:used]
	at := len(b)
	b = append(b, flags)
	if fill != (cell{}) {
		b[at] |= lineFilled
		b = s.styles.at(fill.style).append(b)
	}
	for i := range cells {
		if cells[i].style|cells[i].link != 0 {
			b[at] |= lineStyled
			return s.appendStyled(b, cells)
		}
	}
	return s.appendCells(b, cells)
}

// extent is how many cells of the row a line writes out, and what the rest is filled with. A rest in more than one
// style is written out too.
func (r *row) extent(cols int) (used int, fill cell) {
	used = min(r.used, cols)
	if used >= len(r.cells) || !r.touched {
		return used, cell{}
	}
	fill = r.cells[len(r.cells)-1]
	for x := used; x < len(r.cells); x++ {
		if r.cells[x] != fill {
			for end := len(r.cells); ; end-- {
				if r.cells[end-1] != (cell{}) {
					return end, cell{}
				}
			}
		}
	}
	return used, fill
}

// appendStyled writes the runs of styles before the text: how many there are, then each with its cells.
func (s *Screen) appendStyled(b []byte, cells []cell) []byte {
	runs := 0
	for i := 0; i < len(cells); i += runLength(cells[i:]) {
		runs++
	}
	b = binary.AppendUvarint(b, uint64(runs))
	for i := 0; i < len(cells); {
		n := runLength(cells[i:])
		b = binary.AppendUvarint(b, uint64(n))
		b = s.styles.at(cells[i].style).append(b)
		b = s.links.at(cells[i].link).append(b)
		i += n
	}
	return s.appendCells(b, cells)
}

// runLength is how many of the cells are of one style. A second half goes with its character.
func runLength(cells []cell) int {
	n := 1
	for n < len(cells) && (cells[n].style == cells[0].style && cells[n].link == cells[0].link || cells[n].text&padding != 0 && cells[n-1].text&wide != 0) {
		n++
	}
	return n
}

// appendCells writes the text.
func (s *Screen) appendCells(b []byte, cells []cell) []byte {
	for i, c := range cells {
		switch {
		case c.text == 0:
			b = append(b, ' ')
		case c.text < utf8.RuneSelf:
			b = append(b, byte(c.text))
		case c.text&padding != 0:
			if i == 0 || cells[i-1].text&wide == 0 {
				b = append(b, escHalf)
			}
		default:
			if c.text&wide != 0 && (i+1 == len(cells) || cells[i+1].text&padding == 0) {
				b = append(b, escCut)
			}
			b = s.appendCharacter(b, c)
		}
	}
	return b
}

func (s *Screen) appendCharacter(b []byte, c cell) []byte {
	if c.text&cluster == 0 {
		return utf8.AppendRune(b, rune(c.text&textMask))
	}
	text := s.clusters.at(uint16(c.text & textMask))
	esc := byte(escCluster)
	if c.text&wide != 0 {
		esc = escWide
	}
	b = append(b, esc, byte(len(text)))
	return append(b, text...)
}

// append writes a style: attributes, then each colour as its kind and its value.
func (st style) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(st.attrs))
	for _, c := range []color{st.fg, st.bg, st.under} {
		b = append(b, byte(c>>24))
		switch c & colorKind {
		case colorBasic, colorIndexed:
			b = append(b, byte(c))
		case colorRGB:
			b = append(b, byte(c>>16), byte(c>>8), byte(c))
		}
	}
	return b
}

func (l link) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(l.uri)))
	if l.uri == "" {
		return b
	}
	b = append(b, l.uri...)
	b = binary.AppendUvarint(b, uint64(len(l.params)))
	return append(b, l.params...)
}

// reader reads written-out parts, and remembers that one was malformed.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// number reads a uvarint of at most most.
func (r *reader) number(most int) int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > uint64(most) {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

// bytes reads n bytes.
func (r *reader) bytes(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) style() style {
	var st style
	st.attrs = attr(r.byte()) | attr(r.byte())<<8
	for _, c := range []*color{&st.fg, &st.bg, &st.under} {
		switch kind := color(r.byte()) << 24; kind {
		case colorDefault:
		case colorBasic, colorIndexed:
			*c = kind | color(r.byte())
			r.bad = r.bad || kind == colorBasic && *c&0xff > 15
		case colorRGB:
			*c = kind | color(r.byte())<<16 | color(r.byte())<<8 | color(r.byte())
		default:
			r.bad = true
		}
	}
	r.bad = r.bad || st.attrs >= underBit<<3 || st.attrs&underMask/underBit > 5
	return st
}

func (r *reader) link() link {
	var l link
	if n := r.number(maxURI); n > 0 {
		l.uri = string(r.bytes(n))
		l.params = string(r.bytes(r.number(maxURI)))
	}
	r.bad = r.bad || clean(l.uri) != l.uri || clean(l.params) != l.params
	return l
}

// run is so many cells of one style.
type run struct {
	n     int
	style style
	link  link
}

// lineReader walks over a written-out line, character by character.
type lineReader struct {
	reader
	flags byte
	fill  style
	runs  []run
	run   run // the present one, n being what is left
}

// readLine starts on a line; runs is room to reuse.
func readLine(line []byte, runs []run) lineReader {
	l := lineReader{reader: reader{b: line}, runs: runs[:0]}
	l.flags = l.byte()
	if l.flags&lineFilled != 0 {
		l.fill = l.style()
	}
	if l.flags&lineStyled != 0 {
		for range l.number(len(line)) {
			r := run{n: l.number(maxSize), style: l.style(), link: l.link()}
			if l.bad || r.n == 0 {
				l.bad, l.b = true, nil
				break
			}
			l.runs = append(l.runs, r)
		}
	}
	return l
}

// char is one character of a line.
type char struct {
	text    []byte // empty for a second half alone
	columns int    // 1 or 2
	cut     bool   // wide, without its second half
}

// cells is how many cells of the row the character takes.
func (c char) cells() int {
	if c.cut {
		return 1
	}
	return c.columns
}

// next reads one character; the style is that of l.run. ok is false at the line's end.
func (l *lineReader) next() (c char, ok bool) {
	if len(l.b) == 0 {
		return c, false
	}
	if l.b[0] == escHalf {
		l.b = l.b[1:]
		c = char{columns: 1}
	} else {
		if l.b[0] == escCut {
			l.b = l.b[1:]
			c.cut = true
		}
		if !l.character(&c) {
			l.bad, l.b = true, nil
			return c, false
		}
	}
	l.advance(c.cells())
	return c, true
}

func (l *lineReader) character(c *char) bool {
	switch {
	case len(l.b) == 0:
		return false
	case l.b[0] == escCluster || l.b[0] == escWide:
		c.columns = 1
		if l.b[0] == escWide {
			c.columns = 2
		}
		l.b = l.b[1:]
		n := int(l.byte())
		c.text = l.bytes(n)
		return n > 0 && n <= maxCluster && utf8.Valid(c.text) && printable(c.text)
	}
	r, n := utf8.DecodeRune(l.b)
	w := width(r)
	if r == utf8.RuneError && n == 1 || w == 0 || w == unprinted || r < 0x20 || r == 0x7f {
		return false
	}
	c.text, c.columns = l.b[:n], w
	l.b = l.b[n:]
	return !c.cut || w == 2
}

// printable says whether text has no control characters.
func printable(text []byte) bool {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return false
		}
		text = text[n:]
	}
	return true
}

// advance makes run the one that the next n cells are in.
func (l *lineReader) advance(n int) {
	if l.flags&lineStyled == 0 {
		return
	}
	if l.run.n == 0 {
		if len(l.runs) == 0 {
			l.bad, l.b = true, nil
			return
		}
		l.run, l.runs = l.runs[0], l.runs[1:]
	}
	if l.run.n -= n; l.run.n < 0 {
		l.bad, l.b = true, nil
	}
}
