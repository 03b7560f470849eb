package snapshot

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignorer asks git which paths are ignored, through one process. Only git
// knows all of its rules.
type ignorer struct {
	g   git
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start runs git where it doesn't run yet.
func (i *ignorer) start(ctx context.Context) error {
	if i.cmd != nil {
		return nil
	}
	g := i.g
	g.magic = true // check-ignore knows no literal pathspecs; after "./" nothing is magic
	// Verbose and non-matching: one answer for each path, in order.
	cmd := g.command(ctx, "check-ignore", "-z", "--stdin", "-v", "-n", "--no-index")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("git check-ignore: %w", err)
	}
	i.cmd, i.in, i.out = cmd, in, bufio.NewReaderSize(out, 64<<10)
	return nil
}

// ask tells of each path, relative to the root of the working tree, whether it
// is ignored. No path may lead through a link.
func (i *ignorer) ask(ctx context.Context, paths []string) ([]bool, error) {
	if err := i.start(ctx); err != nil {
		return nil, err
	}
	sent := make(chan error, 1)
	go func() {
		b := bufio.NewWriterSize(i.in, 64<<10)
		for _, p := range paths {
			_, _ = b.WriteString("./" + p + "\x00") // bufio keeps the error for Flush
		}
		sent <- b.Flush()
	}()
	verdicts := make([]bool, len(paths))
	var err error
	for n := range paths {
		if verdicts[n], err = i.answer(); err != nil {
			break
		}
	}
	if err != nil {
		i.close() // which ends the writer too
	}
	if e := <-sent; err == nil {
		err = e
	}
	if err != nil {
		return nil, fmt.Errorf("git check-ignore: %w", err)
	}
	return verdicts, nil
}

// answer reads one record: the file of the rule, its line, the pattern, and
// the path, each ended by a NUL; the first three empty where nothing matches.
func (i *ignorer) answer() (bool, error) {
	var part [4]string
	for n := range part {
		text, err := i.out.ReadString(0)
		if err != nil {
			return false, err
		}
		part[n] = text[:len(text)-1]
	}
	return part[2] != "" && !strings.HasPrefix(part[2], "!"), nil
}

func (i *ignorer) close() {
	if i.cmd == nil {
		return
	}
	i.in.Close()
	i.cmd.Process.Kill()
	i.cmd.Wait()
	i.cmd = nil
}

// mayInclude tells whether something below an ignored folder may be opted in.
func mayInclude(globs []string, dir string) bool {
	for _, g := range globs {
		base, _ := doublestar.SplitPattern(g)
		if base == "." || within(base, dir) || within(dir, base) || within(dir, g) || matches(g, dir) {
			return true
		}
	}
	return false
}

// included tells whether an ignored file is opted in: a glob names it, or a
// folder that it is in.
func included(globs []string, path string) bool {
	for _, g := range globs {
		if matches(g, path) {
			return true
		}
	}
	return false
}

func matches(glob, path string) bool {
	glob = strings.TrimSuffix(glob, "/")
	for p := path; ; {
		if ok, err := doublestar.Match(glob, p); err == nil && ok {
			return true
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			return false
		}
		p = p[:i]
	}
}
