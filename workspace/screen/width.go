package screen

import (
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// widths are the columns of runes, two bits each, in blocks of 256 that are computed when first asked for: a look-up
// of one rune in x/ansi costs as much as parsing a line. 3 stands for a rune that isn't printed.
var widths [(utf8.MaxRune + 1) >> 8]atomic.Pointer[[64]byte]

const unprinted = 3

// width is how many columns a rune advances the cursor: 0, 1, 2, or unprinted.
func width(r rune) int {
	if r < 0x7f {
		return 1
	}
	b := widths[r>>8].Load()
	if b == nil {
		b = new([64]byte)
		for i := range rune(256) {
			b[i>>2] |= byte(measure(r&^0xff|i)) << (i & 3 * 2)
		}
		widths[r>>8].Store(b)
	}
	i := r & 0xff
	return int(b[i>>2]>>(i&3*2)) & 3
}

// measure is width, uncached. C1 controls in their UTF-8 form, non-characters and line separators print nothing.
func measure(r rune) int {
	switch {
	case r >= 0x80 && r < 0xa0, r >= 0xd800 && r < 0xe000, r&0xfffe == 0xfffe, r == 0x2028, r == 0x2029:
		return unprinted
	case r == 0xad, unicode.Is(unicode.Prepended_Concatenation_Mark, r): // format characters that show
		return 1
	case r >= 0x1160 && r < 0x1200, r >= 0xd7b0 && r < 0xd7fc: // vowels and finals join the syllable before
		return 0
	}
	return ansi.StringWidthWc(string(r))
}
