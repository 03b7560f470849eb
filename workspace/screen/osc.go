package screen

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Bounds of what strings leave behind.
const (
	maxTitle  = 1024 // bytes
	maxTitles = 10   // on the stack, as xterm has it
	maxURI    = 2083 // bytes of a link, as other terminals have it
	maxSpec   = 64   // bytes of a colour's name
	maxPath   = 4096
)

// mark is what OSC 133 said on a line.
type mark uint8

const (
	markEnd    mark = 1 << iota // D: a command has ended
	markPrompt                  // A: a prompt begins
	markOutput                  // C: a command's output begins
)

// link is an OSC 8 hyperlink.
type link struct{ params, uri string }

// palette is the colours that the program changed, as it named them.
type palette struct {
	colors map[int]string // by number, 0 to 255
	fixed  [3]string      // of OSC 10, 11 and 12: text, background, cursor
}

// osc acts on an operating system command.
func (s *Screen) osc(data []byte, bel bool) {
	head, rest, _ := bytes.Cut(data, []byte{';'})
	n, err := strconv.Atoi(string(head))
	if err != nil || len(head) == 0 || head[0] < '0' || head[0] > '9' {
		return
	}
	switch n {
	case 0, 2:
		if len(rest) <= maxTitle && utf8.Valid(rest) {
			s.title = clean(string(rest))
		}
	case 4:
		s.setPalette(rest, bel)
	case 7:
		if len(rest) <= maxPath && utf8.Valid(rest) {
			s.path = clean(string(rest))
		}
	case 8:
		s.hyperlink(string(rest))
	case 10, 11, 12:
		s.setFixed(n, rest, bel)
	case 104:
		s.resetPalette(string(rest))
	case 110, 111, 112:
		s.palette.fixed[n-110] = ""
	case 133:
		s.promptMark(rest)
	}
}

// clean takes control characters out of what is handed on inside a sequence.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, ansi.Strip(text))
}

func (s *Screen) hyperlink(rest string) {
	params, uri, ok := strings.Cut(rest, ";")
	s.link = 0
	if ok && uri != "" && len(rest) <= maxURI && utf8.ValidString(rest) {
		l := link{clean(params), clean(uri)}
		n, ok := s.links.lookup(l)
		if !ok || len(s.links.values) > maxLinks && s.links.at(n) == l && n == uint16(len(s.links.values)-1) {
			s.sweep()
			n, _ = s.links.lookup(l)
		}
		s.link = n
	}
	s.setBrush()
}

// maxLinks is how many links may be known before those that no cell shows are dropped, each time.
const maxLinks = 1024

func (s *Screen) promptMark(rest []byte) {
	if len(rest) == 0 {
		return
	}
	y := s.y
	for y > 0 && s.grid.rows[y-1].wrapped {
		y-- // a mark is one of the whole line
	}
	r := s.grid.rows[y]
	switch rest[0] {
	case 'A':
		r.marks |= markPrompt
	case 'C':
		r.marks |= markOutput
	case 'D':
		r.marks |= markEnd
	}
}

// pushTitle and popTitle are XTWINOPS 22 and 23.
func (s *Screen) pushTitle() {
	if len(s.titles) == maxTitles {
		s.titles = slices.Delete(s.titles, 0, 1)
	}
	s.titles = append(s.titles, s.title)
}

func (s *Screen) popTitle() {
	if n := len(s.titles); n > 0 {
		s.title, s.titles = s.titles[n-1], s.titles[:n-1]
	}
}

// spec says whether a colour's name may be handed on: the forms of XParseColor, and names.
func spec(b []byte) bool {
	if len(b) == 0 || len(b) > maxSpec {
		return false
	}
	for _, c := range b {
		if c < 0x20 || c > 0x7e || c == '?' || c == ';' {
			return false
		}
	}
	return true
}

// setPalette is OSC 4: pairs of a number and a colour, or a question mark.
func (s *Screen) setPalette(rest []byte, bel bool) {
	for parts := bytes.Split(rest, []byte{';'}); len(parts) >= 2; parts = parts[2:] {
		n, err := strconv.Atoi(string(parts[0]))
		if err != nil || n < 0 || n > 255 {
			return
		}
		switch {
		case string(parts[1]) == "?":
			s.paletteReply(n, bel)
		case spec(parts[1]):
			if s.palette.colors == nil {
				s.palette.colors = map[int]string{}
			}
			s.palette.colors[n] = string(parts[1])
		}
	}
}

func (s *Screen) resetPalette(rest string) {
	if rest == "" {
		s.palette.colors = nil
		return
	}
	for n := range strings.SplitSeq(rest, ";") {
		if n, err := strconv.Atoi(n); err == nil {
			delete(s.palette.colors, n)
		}
	}
}

// setFixed is OSC 10 to 12; more colours in one go on to the next number.
func (s *Screen) setFixed(n int, rest []byte, bel bool) {
	for _, c := range bytes.Split(rest, []byte{';'}) {
		switch {
		case n > 12:
			return
		case string(c) == "?":
			s.fixedReply(n, bel)
		case spec(c):
			s.palette.fixed[n-10] = string(c)
		}
		n++
	}
}
