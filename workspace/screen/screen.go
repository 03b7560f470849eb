// Package screen is terminal state: bytes in, what a terminal shows out, and back to bytes that redraw it.
//
// This first model stands on charmbracelet/x/vt for cells and history. What that emulator does not tell (input modes,
// keypad, titles, whether a sequence is open) is tracked beside it on the same bytes. Its limits are said in FORMAT-free
// terms in the methods' comments; a model of our own takes its place behind this interface.
package screen

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// Options bound a screen.
type Options struct {
	History int // lines of history that are kept (2000)
}

// Cursor is where the cursor stands, from 0.
type Cursor struct {
	Row     int  `json:"row"`
	Col     int  `json:"col"`
	Visible bool `json:"visible"`
}

// Size is a screen's size in cells.
type Size struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// View is a screen as text.
type View struct {
	Rows      []string `json:"rows"`
	Cursor    Cursor   `json:"cursor"`
	Size      Size     `json:"size"`
	Title     string   `json:"title"`
	Alternate bool     `json:"alternate"`
}

// Screen is the state of one terminal. It is not for concurrent use.
type Screen struct {
	em    *vt.Emulator
	modes *modes

	mu      sync.Mutex // guards replies, which a goroutine collects
	replies []byte
	drained chan struct{}
}

// maxReplies bounds what is kept of answers that nobody fetches, in bytes.
const maxReplies = 4096

// New makes a blank screen. Close ends it.
func New(cols, rows int, o Options) *Screen {
	if o.History <= 0 {
		o.History = 2000
	}
	s := &Screen{em: vt.NewEmulator(max(cols, 1), max(rows, 1)), modes: newModes(), drained: make(chan struct{})}
	s.em.SetScrollbackSize(o.History)
	go s.collect()
	return s
}

// collect reads the emulator's answers to queries: it would block in Write otherwise.
func (s *Screen) collect() {
	defer close(s.drained)
	buf := make([]byte, 1024)
	for {
		n, err := s.em.Read(buf)
		s.mu.Lock()
		if len(s.replies)+n <= maxReplies {
			s.replies = append(s.replies, buf[:n]...)
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Close ends the goroutine that collects answers.
func (s *Screen) Close() error {
	err := s.em.Close()
	<-s.drained
	return err
}

// Write takes in output. It never fails: what an emulator can't digest leaves the screen as it was.
func (s *Screen) Write(p []byte) (n int, err error) {
	defer func() { _ = recover() }() // a program's bytes must never end the host
	s.modes.write(p)
	_, _ = s.em.Write(p)
	return len(p), nil
}

// Resize changes the size in cells.
func (s *Screen) Resize(cols, rows int) {
	defer func() { _ = recover() }()
	s.em.Resize(max(cols, 1), max(rows, 1))
}

// Size is the size in cells.
func (s *Screen) Size() (cols, rows int) { return s.em.Width(), s.em.Height() }

// Ground says whether no sequence and no character is open, so that other bytes may be put in.
func (s *Screen) Ground() bool { return s.modes.ground() }

// Bell says whether a bell rang since the last call.
func (s *Screen) Bell() bool {
	b := s.modes.bell
	s.modes.bell = false
	return b
}

// Replies hands out, once, the answers owed to queries.
func (s *Screen) Replies() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.replies
	s.replies = nil
	return r
}

// View is what shows now.
func (s *Screen) View() View {
	cols, rows := s.Size()
	v := View{Size: Size{cols, rows}, Title: s.modes.title, Alternate: s.em.IsAltScreen(), Rows: make([]string, rows)}
	for y := range v.Rows {
		v.Rows[y] = s.text(y, cols)
	}
	at := s.em.CursorPosition()
	v.Cursor = Cursor{Row: at.Y, Col: at.X, Visible: !s.modes.hidden()}
	return v
}

func (s *Screen) text(y, cols int) string {
	var b strings.Builder
	for x := 0; x < cols; {
		c := s.em.CellAt(x, y)
		if c == nil || c.Content == "" {
			b.WriteByte(' ')
			x++
			continue
		}
		b.WriteString(c.Content)
		x += max(c.Width, 1)
	}
	return strings.TrimRight(b.String(), " ")
}

// HistoryText is the kept history, oldest line first.
func (s *Screen) HistoryText() []string {
	sb := s.em.Scrollback()
	if sb == nil {
		return nil
	}
	out := make([]string, 0, sb.Len())
	for i := range sb.Len() {
		var b strings.Builder
		for _, c := range sb.Line(i) {
			b.WriteString(c.Content)
		}
		out = append(out, strings.TrimRight(b.String(), " "))
	}
	return out
}

// Redraw is bytes that bring a fresh terminal of this size to this state, with so many lines of history before.
func (s *Screen) Redraw(history int) []byte {
	cols, rows := s.Size()
	return s.RedrawFor(cols, rows, history)
}

// RedrawFor is Redraw for a client of another size: what does not fit is cropped.
func (s *Screen) RedrawFor(cols, rows, history int) []byte {
	var b bytes.Buffer
	b.WriteString("\x1b[!p\x1b[0m\x1b[?25l\x1b[r\x1b[H\x1b[2J")
	if history > 0 && !s.em.IsAltScreen() {
		s.writeHistory(&b, cols, rows, history)
	}
	if s.em.IsAltScreen() {
		b.WriteString("\x1b[?1049h\x1b[H\x1b[2J")
	}
	ourCols, ourRows := s.Size()
	for y := range min(rows, ourRows) {
		fmt.Fprintf(&b, "\x1b[%d;1H", y+1)
		s.writeRow(&b, y, min(cols, ourCols))
	}
	b.Write(s.modes.restore())
	s.writeCursor(&b)
	return b.Bytes()
}

// writeHistory prints history and scrolls it into the client's own scrollback, blank screen below.
func (s *Screen) writeHistory(b *bytes.Buffer, cols, rows, history int) {
	sb := s.em.Scrollback()
	if sb == nil || sb.Len() == 0 {
		return
	}
	for i := max(0, sb.Len()-history); i < sb.Len(); i++ {
		writeCells(b, sb.Line(i), cols)
		b.WriteString("\r\n")
	}
	b.WriteString(strings.Repeat("\r\n", rows-1)) // the history leaves the screen; the rows are painted next
	b.WriteString("\x1b[H\x1b[2J")
}

func (s *Screen) writeRow(b *bytes.Buffer, y, cols int) {
	line := make(uv.Line, 0, cols)
	for x := range cols {
		if c := s.em.CellAt(x, y); c != nil {
			line = append(line, *c)
		} else {
			line = append(line, uv.EmptyCell)
		}
	}
	writeCells(b, line, cols)
}

// writeCells prints styled cells, and leaves the pen at rest.
func writeCells(b *bytes.Buffer, line uv.Line, cols int) {
	n := min(len(line), cols)
	for n > 0 && blank(line[n-1]) {
		n--
	}
	var pen uv.Style
	link := ""
	for x := 0; x < n; {
		c := line[x]
		b.WriteString(c.Style.Diff(&pen))
		pen = c.Style
		if c.Link.URL != link {
			b.WriteString(ansi.SetHyperlink(c.Link.URL, c.Link.Params))
			link = c.Link.URL
		}
		content := c.Content
		if content == "" {
			content = " "
		}
		if c.Width > 1 && x+c.Width > cols {
			content = " " // half of a wide character does not fit a cropped row
		}
		b.WriteString(content)
		x += max(c.Width, 1)
	}
	if link != "" {
		b.WriteString(ansi.ResetHyperlink())
	}
	b.WriteString("\x1b[0m\x1b[K")
}

func blank(c uv.Cell) bool {
	return (c.Content == "" || c.Content == " ") && c.Style.IsZero() && c.Link.URL == ""
}

func (s *Screen) writeCursor(b *bytes.Buffer) {
	at := s.em.CursorPosition()
	fmt.Fprintf(b, "\x1b[%d;%dH", at.Y+1, at.X+1)
	if !s.modes.hidden() {
		b.WriteString("\x1b[?25h")
	}
}

// Row is bytes that repaint one row, from 0, and put cursor and pen back as far as they are known.
func (s *Screen) Row(y int) []byte {
	cols, rows := s.Size()
	if y < 0 || y >= rows {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "\x1b7\x1b[?25l\x1b[%d;1H\x1b[0m", y+1)
	s.writeRow(&b, y, cols)
	b.WriteString("\x1b8")
	if !s.modes.hidden() {
		b.WriteString("\x1b[?25h")
	}
	return b.Bytes()
}

// Overlay is bytes that lay text, reversed, over the last row; cursor and pen stay.
func (s *Screen) Overlay(text string) []byte {
	cols, rows := s.Size()
	text = ansi.Truncate(ansi.Strip(text), cols-1, "…")
	return fmt.Appendf(nil, "\x1b7\x1b[%d;1H\x1b[0;7m%s\x1b[0m\x1b8", rows, text)
}

// Restore is bytes that put a client's terminal back to sanity when it leaves.
func Restore() []byte {
	return []byte("\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[<99u\x1b[>4;0m\x1b[?1l\x1b>\x1b[?1049l\x1b[r\x1b[?7h\x1b[?25h\x1b[0 q\x1b[0m\x0f\r\n")
}

// Strip is the text of a byte stream: no sequences, no control characters but line feeds and tabs.
func Strip(p []byte) string {
	text := strings.ReplaceAll(ansi.Strip(string(p)), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= 0x20 && r != 0x7f && (r < 0x80 || r >= 0xa0) {
			return r
		}
		return -1
	}, text)
}
