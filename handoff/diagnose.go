package handoff

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"
)

// Patterns of output that mean that the surroundings failed, not the code. They count
// only beside a status other than 0.
var (
	missingText = regexp.MustCompile(`(?m)^make(\[\d+\])?: \*\*\* .* Error 12[67]$|^npm (ERR!|error) code ENOENT$`)
	roomText    = regexp.MustCompile(`(?i)address already in use|EADDRINUSE|cannot allocate memory|out of memory|no space left on device|too many open files`)
	emptyText   = regexp.MustCompile(`(?m)^no tests ran\b|\bcollected 0 items\b|^No tests found\b|^\s*0 passing\b|^Ran 0 tests\b|^1\.\.0\b`)
)

// diagnose sets the problem of a run that gave no answer.
func (c *run) diagnose(text []byte) {
	end := text
	if len(end) > 16*tailSize {
		end = end[len(end)-16*tailSize:]
	}
	switch exit := c.result.Exit; {
	case c.result.Problem != "" || exit == 0:
	case exit == 126 || exit == 127 || missingText.Match(end):
		c.problem(ProblemMissing, "")
	case exit == 128+int(syscall.SIGKILL):
		c.problem(ProblemKilled, "killed from outside: out of memory?")
	case roomText.Match(end):
		c.problem(ProblemEnvironment, strings.ToLower(string(roomText.Find(end))))
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
