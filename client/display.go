package client

import (
	"fmt"
	"os"
	"time"

	"perdure/client/predict"
	"perdure/workspace/screen"
)

// maxHeld is how much of an open sequence is kept from the terminal, in bytes. A longer one goes through as it comes,
// and nothing is drawn until it ends.
const maxHeld = 8 << 10

// display is the person's terminal: the program's bytes untouched, and now and then a line of ours over the last row,
// drawn and removed between sequences. It knows what the terminal shows by a model that sees the same bytes.
// All of it belongs to the link's goroutine.
type display struct {
	out    *os.File
	model  *screen.Screen
	bounds boundary
	held   []byte // the beginning of a sequence whose end hasn't come
	torn   bool   // the terminal is inside a sequence that was too long to hold
	line   string // what lies over the last row, or should
	drawn  bool
	until  time.Time // when the line goes; zero for when it is replaced
	rows   int
	guess  *predict.Predictor
	over   []int // rows that guesses are drawn over
}

func newDisplay(out *os.File, z size, m predict.Mode) *display {
	return &display{out: out, guess: predict.New(m), model: screen.New(int(z.cols), int(z.rows), screen.Options{History: 1}), rows: int(z.rows)}
}

func (d *display) close() { d.model.Close() }

// write shows bytes of the session's.
func (d *display) write(p []byte) error {
	whole := d.bounds.feed(p)
	data := append(d.held, p...)
	cut := len(data)
	switch tail := len(p) - whole; {
	case whole >= 0 && tail <= maxHeld:
		cut, d.torn = len(d.held)+whole, false
	case whole < 0 && !d.torn && len(data) <= maxHeld:
		cut = 0
	default:
		d.torn = true
	}
	d.held = append([]byte(nil), data[cut:]...)
	if cut == 0 {
		return nil
	}
	b := d.erase()
	_, _ = d.model.Write(data[:cut]) // it never fails
	if d.guess.Open() {
		d.guess.Check(d.model.View())
	}
	b = append(b, data[:cut]...)
	return d.put(append(b, d.draw()...))
}

func (d *display) put(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := d.out.Write(b); err != nil {
		return fmt.Errorf("write to the terminal: %w", err)
	}
	return nil
}

// flush shows what is held, for when nothing more comes.
func (d *display) flush() error {
	b := append(d.erase(), d.held...)
	d.held = nil
	return d.put(b)
}

// say lays a line over the last row, for so long; "" removes it. A text for a time isn't replaced by one of no time.
func (d *display) say(text string, long time.Duration) error {
	if long == 0 && time.Now().Before(d.until) {
		return nil
	}
	d.until = time.Time{}
	if long > 0 {
		d.until = time.Now().Add(long)
	}
	if text == d.line {
		return nil
	}
	b := d.erase()
	d.line = text
	return d.put(append(b, d.draw()...))
}

// passed says whether the line was for a time that is over.
func (d *display) passed(now time.Time) bool { return !d.until.IsZero() && now.After(d.until) }

// resize follows the window, which the terminal has reflowed by itself.
func (d *display) resize(z size) error {
	b := d.erase()
	d.model.Resize(int(z.cols), int(z.rows))
	d.rows = int(z.rows)
	return d.put(append(b, d.draw()...))
}

// typed guesses what keys will show; end is the input offset after them.
func (d *display) typed(p []byte, end uint64, rtt time.Duration) error {
	d.guess.Link(rtt)
	d.guess.Type(d.model.View(), p, end, time.Now())
	return d.refresh()
}

// echoed compares the guesses with what shows, now that the echo of the input before the offset does.
func (d *display) echoed(offset uint64) error {
	d.guess.Echoed(offset)
	if !d.guess.Open() {
		return nil
	}
	d.guess.Check(d.model.View())
	return d.refresh()
}

// forget drops the guesses, for when the screen becomes another.
func (d *display) forget() error {
	d.guess.Reset()
	return d.refresh()
}

// refresh draws anew what lies over the program's screen.
func (d *display) refresh() error {
	before := len(d.over)
	draw, _ := d.guess.Draw(time.Now())
	if before == 0 && draw == nil {
		return nil
	}
	b := d.erase()
	return d.put(append(b, d.draw()...))
}

// erase is bytes that take away what is drawn over the program's screen.
func (d *display) erase() (b []byte) {
	for _, row := range d.over {
		b = append(b, d.model.Row(row)...)
	}
	d.over = nil
	if d.drawn {
		d.drawn = false
		b = append(b, d.model.Row(d.rows-1)...)
	}
	return b
}

// draw is bytes that put it there: the line first, since the cursor belongs after the guesses.
func (d *display) draw() (b []byte) {
	if d.torn {
		return nil
	}
	if d.line != "" {
		d.drawn = true
		b = d.model.Overlay(d.line)
	}
	guesses, rows := d.guess.Draw(time.Now())
	d.over = rows
	return append(b, guesses...)
}
