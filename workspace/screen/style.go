package screen

import "strconv"

// color is a colour as it was asked for: the same red by SGR 31, by palette index and by RGB are three, because a
// terminal may show them differently.
type color uint32

// The kinds of colour; the rest of the word is the value.
const (
	colorDefault color = 0
	colorBasic   color = 1 << 24 // 0 to 15: SGR 30-37 and 90-97
	colorIndexed color = 2 << 24 // 0 to 255
	colorRGB     color = 3 << 24
	colorKind    color = 0xff << 24
)

// attr are the attributes of SGR that are on.
type attr uint16

const (
	bold attr = 1 << iota
	dim
	italic
	blink
	reverse
	hidden
	strike
	overline
	graphic     // the character is one of DEC special graphics
	underBit    // the lowest of three bits: 1 single, 2 double, 3 curly, 4 dotted, 5 dashed
	underMask   = underBit * 7
	underSingle = underBit
)

// style is what a character is drawn with.
type style struct {
	fg, bg, under color
	attrs         attr
}

// attrCodes are the SGR parameters of the simple attributes.
var attrCodes = [...]struct {
	a    attr
	code string
}{{bold, ";1"}, {dim, ";2"}, {italic, ";3"}, {blink, ";5"}, {reverse, ";7"}, {hidden, ";8"}, {strike, ";9"}, {overline, ";53"}}

// appendSGR writes the sequence that sets this style whatever was set before. Colours of underlines and underlines
// other than single take the form with colons (ISO 8613-6), which terminals without them pass over whole.
func (s style) appendSGR(b []byte) []byte {
	b = append(b, "\x1b[0"...)
	for _, c := range attrCodes {
		if s.attrs&c.a != 0 {
			b = append(b, c.code...)
		}
	}
	switch u := s.attrs & underMask / underBit; {
	case u == 1:
		b = append(b, ";4"...)
	case u > 1:
		b = append(b, ";4:"...)
		b = strconv.AppendInt(b, int64(u), 10)
	}
	b = appendColor(b, s.fg, 30)
	b = appendColor(b, s.bg, 40)
	switch v := int64(s.under &^ colorKind); s.under & colorKind {
	case colorIndexed, colorBasic:
		b = append(b, ";58:5:"...)
		b = strconv.AppendInt(b, v, 10)
	case colorRGB:
		b = append(b, ";58:2::"...)
		b = appendRGB(b, s.under, ':')
	}
	return append(b, 'm')
}

// appendColor writes a colour's parameters; base is 30 for the foreground and 40 for the background.
func appendColor(b []byte, c color, base int64) []byte {
	v := int64(c &^ colorKind)
	switch c & colorKind {
	case colorBasic:
		if v >= 8 {
			v += 60 - 8
		}
		b = append(b, ';')
		b = strconv.AppendInt(b, base+v, 10)
	case colorIndexed:
		b = append(b, ';')
		b = strconv.AppendInt(b, base+8, 10)
		b = append(b, ";5;"...)
		b = strconv.AppendInt(b, v, 10)
	case colorRGB:
		b = append(b, ';')
		b = strconv.AppendInt(b, base+8, 10)
		b = append(b, ";2;"...)
		b = appendRGB(b, c, ';')
	}
	return b
}

func appendRGB(b []byte, c color, sep byte) []byte {
	for i, shift := range []int{16, 8, 0} {
		if i > 0 {
			b = append(b, sep)
		}
		b = strconv.AppendInt(b, int64(c>>shift&0xff), 10)
	}
	return b
}

// erased is what erasing leaves: only the background (ECMA-48 with the colour that "bce" in terminfo means).
func (s style) erased() style { return style{bg: s.bg} }
