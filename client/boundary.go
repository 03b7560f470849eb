package client

// boundary follows a terminal's output just enough to know where nothing is open: no sequence, no string, no
// character (ECMA-48; UTF-8).
type boundary struct {
	state boundaryState
	need  int // continuation bytes of a character
}

type boundaryState byte

const (
	inGround    boundaryState = iota
	inEscape                  // after ESC, and intermediates
	inSequence                // CSI …
	inString                  // OSC, DCS, APC, PM, SOS …
	inStringEsc               // … and an ESC in it
)

// feed returns the length of the longest beginning of p after which nothing is open, -1 if there is none.
func (s *boundary) feed(p []byte) int {
	last := -1
	if !s.open() {
		last = 0
	}
	for i, b := range p {
		s.step(b)
		if !s.open() {
			last = i + 1
		}
	}
	return last
}

func (s *boundary) open() bool { return s.state != inGround || s.need > 0 }

func (s *boundary) step(b byte) {
	switch {
	case b == 0x18 || b == 0x1a: // CAN, SUB
		s.state, s.need = inGround, 0
		return
	case b == 0x1b:
		s.need = 0
		if s.state == inString {
			s.state = inStringEsc
			return
		}
		s.state = inEscape
		return
	}
	switch s.state {
	case inGround:
		s.character(b)
	case inEscape, inStringEsc:
		s.escape(b)
	case inSequence:
		if b >= 0x40 && b <= 0x7e {
			s.state = inGround
		}
	case inString:
		if b == 0x07 {
			s.state = inGround
		}
	}
}

func (s *boundary) escape(b byte) {
	switch {
	case b == '[':
		s.state = inSequence
	case b == ']', b == 'P', b == '_', b == '^', b == 'X':
		s.state = inString
	case b >= 0x30 && b <= 0x7e:
		s.state = inGround
	}
}

func (s *boundary) character(b byte) {
	switch {
	case s.need > 0 && b&0xc0 == 0x80:
		s.need--
	case b >= 0xf0 && b < 0xf8:
		s.need = 3
	case b >= 0xe0 && b < 0xf0:
		s.need = 2
	case b >= 0xc2 && b < 0xe0:
		s.need = 1
	default:
		s.need = 0
	}
}
