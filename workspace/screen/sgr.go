package screen

// sgr is SELECT GRAPHIC RENDITION (ECMA-48, with ISO 8613-6's colours and the curly underlines of kitty).
func (s *Screen) sgr() {
	q := &s.seq
	p := s.pen
	if q.n == 0 {
		p = style{}
	}
	for i := 0; i < q.n; {
		n := q.group(i)
		if n > 1 {
			p.colons(q, i, n)
			i += n
			continue
		}
		v := q.arg(i, 0, 0)
		i++
		if v == 38 || v == 48 || v == 58 {
			i += p.extended(q, i, v)
		} else {
			p.simple(v)
		}
	}
	s.setPen(p)
}

// group is how many parameters from i on colons hold together.
func (q *sequence) group(i int) int {
	n := 1
	for i+n-1 < q.n && q.params[i+n-1].HasMore() {
		n++
	}
	return min(n, q.n-i)
}

// simple applies one parameter.
func (p *style) simple(v int) {
	switch {
	case v == 0:
		*p = style{}
	case v >= 1 && v <= 9:
		p.attribute(v)
	case v == 21:
		p.attrs = p.attrs&^underMask | 2*underBit
	case v == 22:
		p.attrs &^= bold | dim
	case v == 23:
		p.attrs &^= italic
	case v == 24:
		p.attrs &^= underMask
	case v == 25:
		p.attrs &^= blink
	case v == 27:
		p.attrs &^= reverse
	case v == 28:
		p.attrs &^= hidden
	case v == 29:
		p.attrs &^= strike
	case v == 53:
		p.attrs |= overline
	case v == 55:
		p.attrs &^= overline
	default:
		p.basicColor(v)
	}
}

func (p *style) attribute(v int) {
	switch v {
	case 4:
		p.attrs = p.attrs&^underMask | underSingle
	default:
		p.attrs |= [...]attr{1: bold, 2: dim, 3: italic, 5: blink, 6: blink, 7: reverse, 8: hidden, 9: strike}[v]
	}
}

func (p *style) basicColor(v int) {
	switch {
	case v >= 30 && v <= 37:
		p.fg = colorBasic | color(v-30)
	case v == 39:
		p.fg = colorDefault
	case v >= 40 && v <= 47:
		p.bg = colorBasic | color(v-40)
	case v == 49:
		p.bg = colorDefault
	case v == 59:
		p.under = colorDefault
	case v >= 90 && v <= 97:
		p.fg = colorBasic | color(v-90+8)
	case v >= 100 && v <= 107:
		p.bg = colorBasic | color(v-100+8)
	}
}

// target is the colour that 38, 48 and 58 set.
func (p *style) target(v int) *color {
	switch v {
	case 38:
		return &p.fg
	case 48:
		return &p.bg
	}
	return &p.under
}

// extended applies a colour whose parameters semicolons part, from i on, and says how many those are.
func (p *style) extended(q *sequence, i, v int) int {
	switch q.arg(i, 0, -1) {
	case 2:
		if c, ok := rgb(q.arg(i+1, -1, -1), q.arg(i+2, -1, -1), q.arg(i+3, -1, -1)); ok {
			*p.target(v) = c
			return 4
		}
		return 1
	case 5:
		p.indexed(v, q.arg(i+1, -1, -1))
		return 2
	}
	return 1
}

// indexed sets a colour of the palette; one that isn't there is the default, but for underlines.
func (p *style) indexed(v, n int) {
	switch {
	case n >= 0 && n <= 255:
		*p.target(v) = colorIndexed | color(n)
	case v != 58:
		*p.target(v) = colorDefault
	}
}

func rgb(r, g, b int) (color, bool) {
	if min(r, g, b) < 0 || max(r, g, b) > 255 {
		return 0, false
	}
	return colorRGB | color(r<<16|g<<8|b), true
}

// colons applies n parameters from i on that colons hold together: 4:3, 38:5:1, 38:2:r:g:b, 38:2:space:r:g:b.
func (p *style) colons(q *sequence, i, n int) {
	v, kind := q.arg(i, 0, 0), q.arg(i+1, 0, -1)
	switch {
	case v == 4 && n == 2 && kind >= 0 && kind <= 5:
		p.attrs = p.attrs&^underMask | attr(kind)*underBit
	case v != 38 && v != 48 && v != 58:
	case kind == 5 && n >= 3:
		p.indexed(v, q.arg(i+2, -1, -1))
	case kind == 2:
		at := i + 3
		if n == 5 {
			at = i + 2
		}
		if at+3 > i+n {
			return
		}
		if c, ok := rgb(q.arg(at, -1, -1), q.arg(at+1, -1, -1), q.arg(at+2, -1, -1)); ok {
			*p.target(v) = c
		}
	}
}
