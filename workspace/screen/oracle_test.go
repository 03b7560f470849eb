package screen

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// tmux is a server of its own whose panes show what they are fed: the oracle.
type tmux struct {
	t      testing.TB
	socket string
	dir    string
	panes  int
}

// flags are the formats that tell a pane's state; cursor first.
const flags = "#{cursor_x},#{cursor_y} cursor:#{cursor_flag} insert:#{insert_flag} wrap:#{wrap_flag} keys:#{keypad_cursor_flag}#{keypad_flag} origin:#{origin_flag} " +
	"mouse:#{mouse_any_flag}#{mouse_standard_flag}#{mouse_button_flag}#{mouse_all_flag}#{mouse_sgr_flag}#{mouse_utf8_flag} alternate:#{alternate_on} " +
	"region:#{scroll_region_upper}-#{scroll_region_lower} tabs:#{pane_tabs} history:#{history_size}"

func newTmux(t testing.TB) *tmux {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not here: it is the oracle")
	}
	dir, err := os.MkdirTemp("", "perdure-oracle-")
	if err != nil {
		t.Fatal(err)
	}
	x := &tmux{t: t, socket: filepath.Join(dir, "s"), dir: dir}
	x.run("-f", "/dev/null", "new-session", "-d", "-s", "keep", "-x", "80", "-y", "24", "cat")
	x.run("set", "-g", "history-limit", "20000")
	x.run("set", "-g", "status", "off")
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", x.socket, "kill-server").Run()
		os.RemoveAll(dir)
	})
	return x
}

func (x *tmux) run(args ...string) string {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-S", x.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=xterm-256color")
	out, err := cmd.CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// pane is one terminal of the oracle.
type pane struct {
	x     *tmux
	name  string
	fifo  *os.File
	marks int
}

// pane starts a terminal of a size.
func (x *tmux) pane(cols, rows int) *pane {
	x.t.Helper()
	x.panes++
	p := &pane{x: x, name: fmt.Sprintf("p%d", x.panes)}
	path := filepath.Join(x.dir, p.name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		x.t.Fatal(err)
	}
	x.run("new-session", "-d", "-s", p.name, "-x", fmt.Sprint(cols), "-y", fmt.Sprint(rows), "stty raw -echo; exec cat "+path)
	fifo, err := os.OpenFile(path, os.O_WRONLY, 0) // returns once cat reads: the pane is raw by then
	if err != nil {
		x.t.Fatal(err)
	}
	p.fifo = fifo
	return p
}

func (p *pane) close() {
	p.fifo.Close() // cat ends, and the session with it
}

// feed prints bytes in the pane and waits until tmux has taken them in: a title is set after them.
func (p *pane) feed(b []byte) {
	p.x.t.Helper()
	p.marks++
	title := fmt.Sprintf("mark-%d", p.marks)
	if _, err := p.fifo.Write(append(bytes.Clone(b), "\x1b]2;"+title+"\x1b\\"...)); err != nil {
		p.x.t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; {
		if got := strings.TrimSpace(p.x.run("display", "-p", "-t", p.name, "#{pane_title}")); got == title {
			return
		}
		if time.Now().After(end) {
			p.x.t.Fatalf("tmux took nothing in for 30 s; fed %q", b)
		}
	}
}

func (p *pane) resize(cols, rows int) {
	p.x.run("resize-window", "-t", p.name, "-x", fmt.Sprint(cols), "-y", fmt.Sprint(rows))
}

// text is history and screen as text.
func (p *pane) text() []string {
	return strings.Split(strings.TrimSuffix(p.x.run("capture-pane", "-p", "-t", p.name, "-S", "-"), "\n"), "\n")
}

// state is all that tmux tells of the pane: flags, history and screen with colours, and the screen behind.
func (p *pane) state() string {
	p.x.t.Helper()
	return perCell(p.x.run("display", "-p", "-t", p.name, flags, ";", "capture-pane", "-p", "-e", "-t", p.name, "-S", "-", ";",
		"display", "-p", "behind:", ";", "capture-pane", "-p", "-e", "-a", "-q", "-t", p.name))
}

var sgr = regexp.MustCompile(`^\x1b\[[0-9;:]*m`)

// perCell puts a capture's colours before the characters that have them. tmux writes a change at the first cell that
// has it, a trailing blank that it then leaves out among them: so the same lines can differ in where a change stands.
func perCell(capture string) string {
	var out strings.Builder
	pen, shown := "", ""
	for capture != "" {
		if m := sgr.FindString(capture); m != "" {
			if pen = strings.ReplaceAll(pen, m, "") + m; m == "\x1b[0m" || m == "\x1b[m" {
				pen = ""
			}
			if strings.ReplaceAll(strings.ReplaceAll(pen, "\x1b[39m", ""), "\x1b[49m", "") == "" {
				pen = ""
			}
			capture = capture[len(m):]
			continue
		}
		if capture[0] == '\n' {
			shown = ""
		} else if pen != shown {
			out.WriteString(pen + "|")
			shown = pen
		}
		out.WriteByte(capture[0])
		capture = capture[1:]
	}
	return out.String()
}

// differ shows the first lines that aren't equal.
func differ(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	var out strings.Builder
	shown := 0
	for i := 0; i < max(len(x), len(y)) && shown < 8; i++ {
		var l, r string
		if i < len(x) {
			l = x[i]
		}
		if i < len(y) {
			r = y[i]
		}
		if l != r {
			fmt.Fprintf(&out, "line %d\n  tmux %q\n  ours %q\n", i, l, r)
			shown++
		}
	}
	return out.String()
}

// agree feeds tmux a stream, and compares: our screen's text with tmux's; and a second pane that is fed our redraw
// after the first part, then the second part, with the pane that was fed all.
func agree(t rapid.TB, x *tmux, cols, rows int, first, second string) {
	t.Helper()
	a := x.pane(cols, rows)
	defer a.close()
	s := New(cols, rows, Options{History: 20000})
	feed(s, first)
	redraw := s.Redraw(20000)
	a.feed([]byte(first + second))
	b := x.pane(cols, rows)
	defer b.close()
	b.feed(append(redraw, second...))
	want, got := a.state(), b.state()
	if want != got {
		t.Errorf("redrawn after %q,\nthen %q:\n%sredraw: %q", abridge(first), abridge(second), differ(want, got), abridge(string(redraw)))
	}
	feed(s, second)
	if strings.ContainsRune(first+second, 0x0e) || strings.Contains(first+second, "\x1b(0") {
		return // tmux's text shows line graphics as letters
	}
	lines := append(s.HistoryText(), s.View().Rows...)
	if want, got := strings.Join(a.text(), "\n"), strings.Join(lines, "\n"); want != got {
		t.Errorf("after %q:\n%s", abridge(first+second), differ(want, got))
	}
}

func feed(s *Screen, text string) { _, _ = s.Write([]byte(text)) }

func abridge(s string) string {
	if len(s) > 3000 {
		return s[:1500] + " … " + s[len(s)-1500:]
	}
	return s
}
