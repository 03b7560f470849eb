// Package predict shows what a person types before the session's answer is here.
//
// It is modelled on what the mosh paper (Winstein and Balakrishnan, 2012) found out: a guess is made for every key that
// plainly prints; guesses are grouped in epochs, and those of an epoch stay hidden until one of them was seen to come
// true, so that nothing shows where nothing is echoed; what may have another effect begins a new epoch. The host's echo
// acknowledgements tell when a guess must have come true.
//
// A [Predictor] draws nothing by itself: it looks at a screen.View of what really shows, and says what to lay over it.
package predict

import (
	"fmt"
	"time"

	"github.com/charmbracelet/x/ansi"

	"perdure/workspace/screen"
)

// Mode says when guesses are shown.
type Mode string

// The modes.
const (
	Adaptive Mode = "adaptive" // on a link that is slow enough to be felt
	Always   Mode = "always"
	Never    Mode = "never"
)

// The round trips at which guesses, and the line under them, come and go; between the two all stays as it is.
const (
	showAbove, hideBelow = 30 * time.Millisecond, 20 * time.Millisecond
	flagAbove, flagBelow = 80 * time.Millisecond, 50 * time.Millisecond
	// glitch is how long a guess waits before it is shown although the link used to be fast.
	glitch = 250 * time.Millisecond
)

// maxGuesses bounds what is open, in characters.
const maxGuesses = 512

// maxKeys is the most that comes of typing at one time; more is pasted, and appears as a whole.
const maxKeys = 16

// guess is one character that should appear.
type guess struct {
	row, col int
	ch       string // "" for a blank
	before   string
	epoch    uint64
	input    uint64 // the offset after the key
	at       time.Time
}

// Predictor makes guesses for one terminal. It is not for concurrent use.
type Predictor struct {
	mode       Mode
	show, flag bool
	echo, line bool // the terminal's modes: ECHO and ICANON
	epoch      uint64
	confirmed  uint64 // epochs up to this one may be shown
	barrier    uint64 // input up to here must be echoed before the next guess
	echoed     uint64
	guesses    []guess
	row, col   int // where the next key prints
	placed     bool
	left       int // the column that backspace doesn't go beyond
	escape     escape
	right      uint64 // guesses that came true
	wrong      uint64 // guesses that were shown and didn't
}

// New makes a predictor.
func New(m Mode) *Predictor {
	return &Predictor{mode: m, epoch: 1, echo: true, line: true}
}

// Tty tells how the terminal treats input. Without echo, a terminal that reads lines reads a password.
func (p *Predictor) Tty(echo, line bool) {
	if echo == p.echo && line == p.line {
		return
	}
	p.echo, p.line = echo, line
	p.Reset()
}

// Counts are how many guesses came true, and how many were shown and did not.
func (p *Predictor) Counts() (right, wrong uint64) { return p.right, p.wrong }

// Reset drops all guesses; the next ones stay hidden until one of them comes true.
func (p *Predictor) Reset() {
	p.guesses, p.placed = nil, false
	p.epoch++
}

// Link tells the smoothed round trip.
func (p *Predictor) Link(rtt time.Duration) {
	p.show = rtt > showAbove || p.show && rtt > hideBelow
	p.flag = rtt > flagAbove || p.flag && rtt > flagBelow
}

// Type takes what was typed; end is the offset after its last byte.
func (p *Predictor) Type(v screen.View, data []byte, end uint64, now time.Time) {
	if p.mode == Never {
		return
	}
	if len(data) > maxKeys {
		p.stop(end)
		p.escape = escape{}
		return
	}
	for i, b := range data {
		p.key(v, b, end-uint64(len(data)-1-i), now)
	}
}

// key makes a guess for one byte, or begins a new epoch.
func (p *Predictor) key(v screen.View, b byte, end uint64, now time.Time) {
	plain := p.escape.step(b)
	switch {
	case !p.echo && p.line, len(p.guesses) >= maxGuesses, p.echoed < p.barrier, !plain:
		p.stop(end)
	case b == 0x7f || b == 0x08:
		p.erase(v, end, now)
	case b >= 0x20 && b < 0x7f:
		p.print(v, b, end, now)
	default:
		p.stop(end)
	}
}

// stop makes no guess until the key's effect has shown.
func (p *Predictor) stop(end uint64) {
	p.barrier = end
	p.placed = false
	p.epoch++
}

// place puts the next guess where the cursor is, if no guess has moved it.
func (p *Predictor) place(v screen.View) bool {
	if len(p.guesses) == 0 {
		if !p.placed || p.row != v.Cursor.Row || p.col != v.Cursor.Col {
			p.row, p.col, p.placed = v.Cursor.Row, v.Cursor.Col, true
			p.left = p.col
		}
	}
	if !p.placed {
		return false
	}
	return p.row >= 0 && p.row < len(v.Rows)
}

// print guesses that a character appears at the cursor. Where something stands already, or close to the margin, much
// else may happen.
func (p *Predictor) print(v screen.View, b byte, end uint64, now time.Time) {
	if !p.place(v) || p.col+2 >= v.Size.Cols || !p.blank(v, p.col) || !p.blank(v, p.col+1) {
		p.stop(end)
		return
	}
	p.add(v, string(rune(b)), end, now)
	p.col++
}

// erase guesses that the character before the cursor goes, if it was typed here.
func (p *Predictor) erase(v screen.View, end uint64, now time.Time) {
	if !p.place(v) || p.col <= p.left || !p.blank(v, p.col) {
		p.stop(end)
		return
	}
	p.col--
	p.add(v, "", end, now)
}

func (p *Predictor) add(v screen.View, ch string, end uint64, now time.Time) {
	p.guesses = append(p.guesses, guess{row: p.row, col: p.col, ch: ch, before: cellAt(v, p.row, p.col), epoch: p.epoch, input: end, at: now})
}

// blank says whether nothing stands at a column, by what shows and by what is guessed.
func (p *Predictor) blank(v screen.View, col int) bool {
	for i := len(p.guesses) - 1; i >= 0; i-- {
		if g := p.guesses[i]; g.row == p.row && g.col == col {
			return g.ch == "" || g.ch == " "
		}
	}
	return cellAt(v, p.row, col) == ""
}

// Echoed takes in an echo acknowledgement: output so far shows the echo of the input before the offset.
func (p *Predictor) Echoed(offset uint64) { p.echoed = max(p.echoed, offset) }

// Check compares the guesses with what shows now.
func (p *Predictor) Check(v screen.View) {
	var open []guess
	for i, g := range p.guesses {
		due := g.input <= p.echoed
		switch shows := same(cellAt(v, g.row, g.col), g.ch); {
		case p.superseded(i):
			if !due {
				open = append(open, g)
			}
		case shows && (due || !same(g.before, g.ch)):
			p.right++
			if g.ch != "" && g.ch != " " {
				p.confirmed = max(p.confirmed, g.epoch)
			}
		case !due:
			open = append(open, g)
		default:
			if g.epoch <= p.confirmed {
				p.wrong++
			}
			p.Reset()
			return
		}
	}
	p.guesses = open
}

// superseded says whether a later guess is about the same place.
func (p *Predictor) superseded(i int) bool {
	g := p.guesses[i]
	for _, h := range p.guesses[i+1:] {
		if h.row == g.row && h.col == g.col {
			return true
		}
	}
	return false
}

// Draw is bytes that lay the guesses over what shows, with the cursor after them, and the rows that they touch; nothing
// where none is to be shown.
func (p *Predictor) Draw(now time.Time) (draw []byte, rows []int) {
	if p.mode == Never || len(p.guesses) == 0 {
		return nil, nil
	}
	if p.mode == Adaptive && !p.show && now.Sub(p.guesses[0].at) < glitch {
		return nil, nil
	}
	pen := "\x1b[0m"
	if p.flag {
		pen = "\x1b[0;4m"
	}
	last := -1
	for i, g := range p.guesses {
		if g.epoch > p.confirmed {
			break
		}
		last = i
		ch := g.ch
		if ch == "" {
			draw = fmt.Appendf(draw, "\x1b[%d;%dH\x1b[0m ", g.row+1, g.col+1)
		} else {
			draw = fmt.Appendf(draw, "\x1b[%d;%dH%s%s", g.row+1, g.col+1, pen, ch)
		}
		if len(rows) == 0 || rows[len(rows)-1] != g.row {
			rows = append(rows, g.row)
		}
	}
	if last < 0 {
		return nil, nil
	}
	g := p.guesses[last]
	col := g.col + 1
	if g.ch == "" {
		col = g.col
	}
	const neutral = "\x1b[?6l\x1b[4l\x0f\x1b(B" // what the model's repaint brings back
	return append([]byte(neutral), fmt.Appendf(draw, "\x1b[0m\x1b[%d;%dH", g.row+1, col+1)...), rows
}

// Open says whether any guess waits for its answer.
func (p *Predictor) Open() bool { return len(p.guesses) > 0 }

func same(a, b string) bool { return a == b || a == "" && b == " " || a == " " && b == "" }

// cellAt is what stands in a cell, "" for a blank.
func cellAt(v screen.View, row, col int) string {
	if row < 0 || row >= len(v.Rows) {
		return ""
	}
	at := 0
	for _, r := range v.Rows[row] {
		w := ansi.StringWidth(string(r))
		if w > 0 && col >= at && col < at+w {
			if r == ' ' {
				return ""
			}
			return string(r)
		}
		if at += w; at > col {
			break
		}
	}
	return ""
}
