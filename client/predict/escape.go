package predict

// escape follows keys that are more than one byte: arrows, function keys, pasted text, characters beyond ASCII. None of
// them is guessed.
type escape struct{ state escapeState }

type escapeState byte

const (
	plainKey escapeState = iota
	afterEscape
	inSequence
	oneMore // SS3 and its final
)

// step says whether a byte is a key by itself.
func (e *escape) step(b byte) bool {
	switch e.state {
	case afterEscape:
		switch b {
		case '[':
			e.state = inSequence
		case 'O':
			e.state = oneMore
		case 0x1b:
		default:
			e.state = plainKey // Alt and a key
		}
		return false
	case inSequence:
		if b >= 0x40 && b <= 0x7e {
			e.state = plainKey
		}
		return false
	case oneMore:
		e.state = plainKey
		return false
	}
	if b == 0x1b {
		e.state = afterEscape
		return false
	}
	return b < 0x80
}
