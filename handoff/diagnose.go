package handoff

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"

	"perdure/handoff/results"
)

var (
	missingText = regexp.MustCompile(`(?m)^make(\[\d+\])?: \*\*\* .* Error 12[67]$|^npm (ERR!|error) code ENOENT$`)
	emptyText   = regexp.MustCompile(`(?m)^no tests ran\b|\bcollected 0 items\b|^No tests found\b|^\s*0 passing\b|^Ran 0 tests\b|^1\.\.0\b`)
)

// status tells by the exit status that a run gave no answer, whatever it printed.
func (c *run) status(text []byte) {
	end := text[max(0, len(text)-16*tailSize):]
	switch exit := c.result.Exit; {
	case c.result.Problem != "" || exit == 0:
	case exit == 126 || exit == 127 || missingText.Match(end):
		c.problem(ProblemMissing, "")
	case exit == 128+int(syscall.SIGKILL):
		c.problem(ProblemKilled, "killed from outside: out of memory?")
	}
}

// surroundings tells that a run which failed says nothing of the code. Its results don't count then.
func (c *run) surroundings(output, text []byte) {
	if c.result.Problem != "" || c.result.Exit == 0 && !failed(c.result.Results) {
		return
	}
	if problem, what := c.lack(output, text); problem != "" {
		c.result.Results = map[string]results.Outcome{}
		c.problem(problem, what)
	}
}

func saysNoTests(output []byte) bool {
	return emptyText.Match(output)
}

// tail is the end of the output, from a line's start.
func tail(text []byte) string {
	text = bytes.TrimRight(text, "\n")
	if len(text) <= tailSize {
		return strings.ToValidUTF8(string(text), "?")
	}
	text = text[len(text)-tailSize:]
	if i := bytes.IndexByte(text, '\n'); i >= 0 && i < len(text)-1 {
		text = text[i+1:]
	}
	return strings.ToValidUTF8(string(text), "?")
}

// fileStamp tells a file that was written again from one that was left. The
// change time can't be set back by a program, the modification time can.
type fileStamp struct {
	size, mtime, ctime int64
	inode              uint64
}

func stamps(dir, glob string) map[string]fileStamp {
	found := map[string]fileStamp{}
	names, err := doublestar.Glob(os.DirFS(dir), filepath.ToSlash(filepath.Clean(glob)), doublestar.WithFilesOnly())
	if err != nil {
		return found
	}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			found[name] = fileStamp{size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), inode: st.Ino}
		}
	}
	return found
}
