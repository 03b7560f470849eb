package screen

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// Strip is the text of a byte stream, as a Stripper has it.
func Strip(p []byte) string {
	var b bytes.Buffer
	s := NewStripper(&b)
	_, _ = s.Write(p) // a buffer takes all
	_ = s.Close()
	return b.String()
}

// maxLine bounds a line that a Stripper holds back, in bytes.
const maxLine = 64 << 10

// Stripper takes a terminal's output in and hands on its text: no sequences, no control characters but line feeds and
// tabs. A backspace takes the last character of the line back. Where a carriage return begins a line anew, as progress
// bars do, the text goes on in a new line, so that none is lost.
type Stripper struct {
	w      io.Writer
	seq    sequence
	utf    []byte // a character begun
	line   []byte
	anew   bool // a carriage return came
	broken error
}

// NewStripper makes one that writes whole lines to w, and the last at Close.
func NewStripper(w io.Writer) *Stripper { return &Stripper{w: w} }

// Write takes output in; a sequence or a character may be cut anywhere. It fails as w does.
func (s *Stripper) Write(p []byte) (n int, err error) {
	for _, b := range p {
		s.take(b)
	}
	return len(p), s.broken
}

// Close hands on what is left.
func (s *Stripper) Close() error {
	s.flush()
	return s.broken
}

func (s *Stripper) take(b byte) {
	switch {
	case s.seq.inside(b):
	case b >= utf8.RuneSelf:
		s.utf = append(s.utf, b)
		if utf8.FullRune(s.utf) {
			if r, _ := utf8.DecodeRune(s.utf); r != utf8.RuneError && r >= 0xa0 {
				s.print(s.utf)
			}
			s.utf = s.utf[:0]
		}
	case b == '\n':
		s.anew = false
		s.line = append(s.line, '\n')
		s.flush()
	case b == '\r':
		s.anew = true
	case b == '\b' && len(s.line) > 0:
		_, n := utf8.DecodeLastRune(s.line)
		s.line = s.line[:len(s.line)-n]
	case b == '\t', b >= 0x20 && b < 0x7f:
		s.print([]byte{b})
	}
	if b < utf8.RuneSelf {
		s.utf = s.utf[:0]
	}
}

func (s *Stripper) print(text []byte) {
	if s.anew && len(s.line) > 0 {
		s.line = append(s.line, '\n')
		s.flush()
	}
	s.anew = false
	s.line = append(s.line, text...)
	if len(s.line) >= maxLine {
		s.flush()
	}
}

func (s *Stripper) flush() {
	if len(s.line) > 0 && s.broken == nil {
		_, s.broken = s.w.Write(s.line)
	}
	s.line = s.line[:0]
}

// inside says whether b belongs to a sequence, and goes on with it.
func (q *sequence) inside(b byte) bool {
	if q.state == 0 && b != 0x1b {
		return false
	}
	q.state, _ = transitions.Transition(q.state, b)
	return true
}
