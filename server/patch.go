package server

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"perdure/handoff"
)

// patchView shows a patch on a terminal: what files hold is escaped, so that it can't drive the terminal, added and
// removed lines are coloured, and after a number of lines the rest is counted.
type patchView struct {
	out   io.Writer
	style handoff.Style
	lines int // that are still shown; negative for all
	more  int
	rest  []byte
}

func (p *patchView) Write(data []byte) (int, error) {
	p.rest = append(p.rest, data...)
	for {
		line, rest, ok := bytes.Cut(p.rest, []byte("\n"))
		if !ok {
			return len(data), nil
		}
		if err := p.line(string(line)); err != nil {
			return 0, err
		}
		p.rest = rest
	}
}

func (p *patchView) line(line string) error {
	if p.lines == 0 {
		p.more++
		return nil
	}
	p.lines--
	parts := strings.Split(line, "\t") // a tab does no harm, and source is made of them
	for i, s := range parts {
		parts[i] = handoff.Escape(s)
	}
	text := strings.Join(parts, "\t")
	switch {
	case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "diff "):
		text = p.style.Bold(text)
	case strings.HasPrefix(line, "+"):
		text = p.style.Verdict(string(handoff.Holds), text)
	case strings.HasPrefix(line, "-"):
		text = p.style.Verdict(string(handoff.Contradicted), text)
	case strings.HasPrefix(line, "@@"):
		text = p.style.Dim(text)
	}
	_, err := fmt.Fprintln(p.out, text)
	return err
}

// end writes what is left, and says how much isn't shown.
func (p *patchView) end(hint string) error {
	if len(p.rest) > 0 {
		if err := p.line(string(p.rest)); err != nil {
			return err
		}
		p.rest = nil
	}
	if p.more == 0 {
		return nil
	}
	_, err := fmt.Fprintf(p.out, "perdure: %d more lines: %s\n", p.more, hint)
	return err
}
