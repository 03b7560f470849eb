package handoff

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Style is how text for people is laid out.
type Style struct {
	Width   int  // columns of the terminal; 0 for none: lines are never wrapped
	Color   bool // SGR escapes, of perdure's own only
	Verbose bool // everything there is
}

// Colours by ECMA-48's SGR: the eight that every terminal has and that people set to their liking.
const (
	red, green, yellow, magenta, cyan = "31", "32", "33", "35", "36"
	bold, dim                         = "1", "2"
)

var kindColors = map[string]string{
	string(Invalid): red, string(Contradicted): red, string(Drifted): yellow, string(Inconclusive): magenta,
	string(Uncovered): cyan, string(Holds): green, string(Unrecorded): dim, Note: dim,
}

// Verdict is a verdict, or a finding's kind, in its colour. Text that begins with one keeps it.
func (s Style) Verdict(kind, text string) string { return s.paint(kindColors[kind], text) }

// Dim is text that matters less.
func (s Style) Dim(text string) string { return s.paint(dim, text) }

// Bold is text that matters more.
func (s Style) Bold(text string) string { return s.paint(bold, text) }

func (s Style) paint(color, text string) string {
	if !s.Color || color == "" || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[m"
}

// Wrap breaks text at the terminal's width: first is put before the first line, and as many blanks as it is wide
// before the others. A word that fits no line is broken. Colours in it are counted as nothing.
func (s Style) Wrap(first, text string) string {
	indent := ansi.StringWidth(first)
	room := s.Width - indent
	if s.Width <= 0 {
		return first + text
	}
	if room < minRoom { // hardly any room beside it: below it
		indent = min(indent, 4)
		return strings.TrimRight(first, " ") + "\n" + s.Wrap(strings.Repeat(" ", indent), text)
	}
	lines := strings.Split(ansi.Wrap(text, room, " /.,"), "\n")
	return first + strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}

// minRoom is how many columns a wrapped text has at the least.
const minRoom = 20

// Pad is text filled up to a number of columns.
func Pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-ansi.StringWidth(text)))
}
