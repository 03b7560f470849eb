package screen

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// act is one thing done to a program: keys typed once the screen shows something.
type act struct{ until, keys string }

// capture runs a program in a pty of 80x24 and gives what it printed. The screen answers its queries, as a host does.
func capture(t *testing.T, dir string, acts []act, argv ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath(argv[0]); err != nil {
		t.Skipf("%s is not here", argv[0])
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LC_ALL=C.UTF-8", "HOME="+dir, "PS1=$ ", "TMUX=", "COLORTERM=truecolor")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	chunks := make(chan []byte)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(chunks)
		for {
			buf := make([]byte, 4096)
			n, err := tty.Read(buf)
			select {
			case chunks <- buf[:n]:
			case <-done:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		close(done)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it leads a session
		_ = cmd.Process.Kill()
		tty.Close()
		_ = cmd.Wait()
		select { // the read ends with the last process that holds the terminal, not with tty
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Errorf("%s left a process that holds its terminal", argv[0])
		}
	}()
	s := New(80, 24, Options{})
	var out []byte
	take := func(within <-chan time.Time) bool {
		select {
		case p, ok := <-chunks:
			out = append(out, p...)
			feed(s, string(p))
			if r := s.Replies(); len(r) > 0 {
				_, _ = tty.Write(r)
			}
			return ok
		case <-within:
			return false
		}
	}
	for _, a := range acts {
		for end := time.After(20 * time.Second); !strings.Contains(strings.Join(s.View().Rows, "\n"), a.until); {
			if !take(end) {
				t.Fatalf("%s never showed %q\n%s", argv[0], a.until, strings.Join(s.View().Rows, "\n"))
			}
		}
		if _, err := io.WriteString(tty, a.keys); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && take(time.After(300*time.Millisecond)); {
		continue // the rest, until it ends or pauses, or goes on for ever
	}
	return out
}

// repository is a git repository with some history, and a file of Go.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@x"}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	for i := range 12 {
		text := "package main\n\nimport \"fmt\"\n\n// 日本語 in a comment, and an é\nfunc main() {\n" + strings.Repeat(fmt.Sprintf("\tfmt.Println(%d)\n", i), 10+i) + "}\n"
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		git("add", ".")
		git("commit", "-qm", fmt.Sprintf("change %d, with a subject that is long enough to be cut at the margin of the screen or wrapped by it", i))
	}
	return dir
}

func TestRealProgramsAgreeWithTmux(t *testing.T) {
	dir := repository(t)
	for _, c := range []struct {
		name string
		acts []act
		argv []string
	}{
		{"vim", []act{{"package main", "/Println\rnzz:set nu\r"}, {"   8", "10\x04dd:vsp\r"}, {"fmt", "\x17w:q!\r:q!\r"}}, []string{"vim", "-n", "-u", "DEFAULTS", "-i", "NONE", "main.go"}},
		{"vim stays", []act{{"package main", "ix日本\x1b"}}, []string{"vim", "-n", "-u", "DEFAULTS", "-i", "NONE", "main.go"}},
		{"less", []act{{"package", " "}, {"}", "g/import\r"}}, []string{"less", "-R", "main.go"}},
		{"top", []act{{"PID", "1"}, {"PID", "q"}}, []string{"top", "-d", "0.3"}},
		{"htop", []act{{"PID", "\x1b[B\x1b[B"}}, []string{"htop", "-d", "3"}},
		{"nano", []act{{"package", "hello"}, {"hello", "\x0b\x0b\x17fmt\r"}}, []string{"nano", "main.go"}},
		{"git log", []act{{":", "g\x1b[B\x1b[B"}, {":", " "}}, []string{"sh", "-c", "git -c core.pager='less -R' log --color=always --stat"}},
		{"git log printed", nil, []string{"git", "--no-pager", "log", "--color=always", "-p", "-3"}},
		{"bash", []act{{"$", "echo one two; ls -la --color=always\r"}, {"main.go", "seq 1 100\r"}, {"100", "echo a long line that goes on and on beyond the margin of eighty columns and wraps\x01\x1b[C\x1b[C\x0b\x19"}}, []string{"bash", "--norc", "-i"}},
		{"build", nil, []string{"go", "build", "-x", "-o", "/dev/null", "main.go"}},
		{"repaint", nil, []string{"sh", "-c", `for i in 1 2 3 4 5 6; do printf '\033[?2026h\033[2K\033[1A\033[2K\033[1A\033[2K\033[G╭────╮\n│ %s  │ ⠋ working…\n╰────╯\033[?2026l' $i; done`}},
		{"tmux inside", []act{{"bash", "ls --color=always\r"}, {"main.go", "\x02%"}, {"│", "seq 1 50\r"}, {"50", ""}}, []string{"sh", "-c", `exec tmux -u -S "$HOME/inner" -f /dev/null new-session 'exec bash --norc'`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := capture(t, dir, c.acts, c.argv...)
			if len(out) == 0 {
				t.Fatal("nothing printed")
			}
			if c.name == "tmux inside" {
				_ = exec.Command("tmux", "-S", filepath.Join(dir, "inner"), "kill-server").Run()
			}
			x := newTmux(t)
			for _, part := range []int{6} {
				cut := len(out) * part / 10
				agree(t, x, 80, 24, string(out[:cut]), string(out[cut:]))
			}
		})
	}
}
