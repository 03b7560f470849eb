package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// narrator tells the story: prose, the commands as they were run, and what they printed.
type narrator struct {
	out   *os.File
	tty   bool // the line that is being written may be overwritten
	color bool
	began time.Time
	live  bool // the last line is a passing one
	shown bool // output came last: prose stands off from it
}

// tellWidth is what prose is wrapped at, in columns; tellClip is the longest line of output that is shown whole.
const (
	tellWidth = 100
	tellClip  = 160
)

func newNarrator(out *os.File) *narrator {
	tty := term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
	return &narrator{out: out, tty: tty, color: tty && os.Getenv("NO_COLOR") == "", began: time.Now()}
}

func (n *narrator) begin(root string) {
	n.say("The story of a configuration loader that is being migrated by an agent. Every command is really run, every break is real, and every step is checked. Everything happens in %s, which is removed at the end.", root)
}

func (n *narrator) end() {
	n.say("That was the whole story, in %s: %d steps, all as told.", time.Since(n.began).Round(time.Second), len(story)+1)
}

func (n *narrator) print(s string) {
	n.settle()
	_, _ = n.out.WriteString(s) // a reader who left misses the story, not the tidying up
}

func (n *narrator) title(step, of int, text string) {
	n.shown = false
	n.print(fmt.Sprintf("\n%s\n", n.paint("1", fmt.Sprintf("%d/%d  %s", step, of, text))))
}

// say is prose.
func (n *narrator) say(format string, args ...any) {
	if n.shown {
		n.print("\n")
	}
	n.shown = false
	n.print(wrap(fmt.Sprintf(format, args...), tellWidth))
}

// command is what is run next, as a person would type it.
func (n *narrator) command(line string) {
	n.shown = true
	n.print("\n" + n.paint("36", "$ "+line) + "\n")
}

// output shows what was printed, indented; what is left out is said. At most lines lines of it are shown.
func (n *narrator) output(text string, lines int) {
	all := strings.Split(strings.Trim(squeeze(text), "\n"), "\n")
	if len(all) == 1 && all[0] == "" {
		return
	}
	var b strings.Builder
	for i, line := range all {
		if i == lines && i < len(all)-1 {
			fmt.Fprintf(&b, "  %s\n", n.paint("2", fmt.Sprintf("[… %d more lines]", len(all)-i)))
			break
		}
		fmt.Fprintf(&b, "  %s\n", n.paint("2", clipped(line)))
	}
	n.print(b.String())
}

// squeeze takes the passing lines of a verification together, visibly: the first, how many, the last.
func squeeze(text string) string {
	var out []string
	passing := 0
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, passingLine) {
			passing = 0
			out = append(out, strings.TrimRight(line, " \t"))
			continue
		}
		last := i+1 == len(lines) || !strings.HasPrefix(lines[i+1], passingLine)
		if passing++; passing > 1 && last && passing > 2 {
			out = append(out, fmt.Sprintf("[… %d more of these, each in place of the one before]", passing-2))
		}
		if passing == 1 || last {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

func clipped(line string) string {
	r := []rune(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' {
			return -1
		}
		return r
	}, line))
	if len(r) > tellClip {
		return string(r[:tellClip-1]) + "…"
	}
	return string(r)
}

// passing shows a line that the next one replaces, where there is a terminal to do so.
func (n *narrator) passing(text string) {
	if !n.tty || strings.TrimSpace(text) == "" {
		return
	}
	cols := 80
	if w, _, err := term.GetSize(int(n.out.Fd())); err == nil && w > 8 {
		cols = w
	}
	r := []rune(printable(text))
	if len(r) > cols-4 {
		r = r[:cols-4]
	}
	n.live = true
	_, _ = fmt.Fprintf(n.out, "\r\x1b[K  %s", n.paint("2", string(r)))
}

// waiting shows what a wait is for, and for how long it has been going on.
func (n *narrator) waiting(line string, since time.Duration) {
	if since >= time.Second {
		line = fmt.Sprintf("[%d s] %s", int(since.Seconds()), strings.TrimSpace(line))
	}
	n.passing(line)
}

// settle ends a passing line.
func (n *narrator) settle() {
	if n.live {
		n.live = false
		_, _ = n.out.WriteString("\r\x1b[K")
	}
}

func (n *narrator) paint(code, text string) string {
	if !n.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// wrap breaks prose at spaces.
func wrap(text string, width int) string {
	var b strings.Builder
	col := 0
	for _, word := range strings.Fields(text) {
		size := len([]rune(word))
		switch {
		case col > 0 && col+1+size > width:
			b.WriteByte('\n')
			col = 0
		case col > 0:
			b.WriteByte(' ')
			col++
		}
		b.WriteString(word)
		col += size
	}
	b.WriteByte('\n')
	return b.String()
}
