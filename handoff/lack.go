package handoff

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"perdure/handoff/results"
)

// What the surroundings lacked is told from the code's own failures by how programs say it, in three strengths. An exit
// status alone explains nothing, so any mention counts. Where tests were named but the run was cut short, only the
// forms count in which an operating system's error or a killed process is reported. And where each failure is a test's
// own, every one of them must have ended by such an error: a test that prints these words, or expects them, fails.
var (
	mention = regexp.MustCompile(`(?i)address already in use|EADDRINUSE|cannot allocate memory|out of memory|no space left on device|disk quota exceeded|too many open files`)
	// killed is what the parents of a killed process print.
	killed = regexp.MustCompile(`(?m)^make(\[\d+\])?: \*\*\* \[.*\] Killed$|^npm (ERR!|error) signal SIGKILL$|\(signal: 9, SIGKILL: kill\)$|^(\S+: (line )?\d+: +\d+ )?Killed( |$)|^signal: killed$|/\w+: signal: killed$|^error: .*\bSIGKILL\b`)
	// died is what a program prints that ends for want of memory.
	died = regexp.MustCompile(`(?m)^fatal error: (runtime: )?(out of memory|cannot allocate memory)|^runtime: out of memory|^(# )?FATAL ERROR: .*heap out of memory|^memory allocation of \d+ bytes failed|^(Exception in thread .* )?java\.lang\.OutOfMemoryError\b|what\(\): +std::bad_alloc$`)
	// refused is an error of the operating system at the end of a line.
	refused = regexp.MustCompile(`(?im)[:\]] (address already in use|no space left on device|disk quota exceeded|cannot allocate memory|too many open files( in system)?)( \(os error \d+\)|: '.*')?$`)
	// exception is how a test that failed says that such an error ended it, in Go, Python, node and Rust.
	exception = regexp.MustCompile(`(?m)\blisten \w+ \S*: bind: address already in use$` +
		`|\b(open|create|write|mkdir|mkdirtemp|rename|link|symlink|truncate|sync|copy_file_range) \S+: (no space left on device|disk quota exceeded|too many open files( in system)?)$` +
		`|\bfork/exec \S+: (cannot allocate memory|resource temporarily unavailable|too many open files)$` +
		`|^([\w.]+\.)?OSError: \[Errno (12|23|24|28|98|122)\] |^\S*MemoryError\b` +
		`|^ +code: '(EADDRINUSE|ENOSPC|EMFILE|ENFILE|ENOMEM|EDQUOT)'|^ +signal: 'SIGKILL'$|\bvalue: Os \{ code: (12|23|24|28|98|122), `)
	nodeDied = regexp.MustCompile(`(?s)heap out of memory.*\n +signal: 'SIG(ABRT|TRAP)'`)
	// compares is a line or an assertion that holds what it got against what it wants.
	compares = regexp.MustCompile(`(?i)\b(want(ed)?|expect(ed|s)?|got)\b`)
)

// lack says what the surroundings lacked for a run that failed, and by which problem; "" for nothing.
func (c *run) lack(output, text []byte) (problem, what string) {
	end := text[max(0, len(text)-16*tailSize):]
	if killed.Match(finalLines(end, 5)) {
		return ProblemKilled, "a program of it was killed from outside: out of memory?"
	}
	failed, short := c.failures()
	switch {
	case len(failed) > 0 && !short:
		return c.excused(output, failed)
	case killed.Match(end):
		return ProblemKilled, "a program of it was killed from outside: out of memory?"
	}
	forms := []*regexp.Regexp{died, refused, exception}
	if len(failed) == 0 && c.result.Tool == "exit" {
		forms = append(forms, mention)
	}
	for _, form := range forms {
		if found := form.Find(end); found != nil {
			return ProblemEnvironment, said(string(found))
		}
	}
	return "", ""
}

// failures are the tests that failed by themselves, and whether something ended the run, or a part of it, before its
// last test.
func (c *run) failures() (failed []string, short bool) {
	for id, o := range c.result.Results {
		switch {
		case o == results.NotRun:
			short = true
		case o != results.Fail || id == c.result.Label:
		case strings.HasPrefix(c.result.Tool, "go") && !goTestID.MatchString(id):
			short = true // a package: its build, or its main
		default:
			failed = append(failed, id)
		}
	}
	return results.Leaves(failed), short
}

// excused says what all failed tests lacked, if each of them did.
func (c *run) excused(output []byte, failed []string) (problem, what string) {
	blocks := results.Failures(output)
	if len(blocks) < len(failed) {
		return "", ""
	}
	for _, text := range blocks {
		found := ended(text)
		if found == "" {
			return "", ""
		}
		what = found
	}
	return ProblemEnvironment, said(what)
}

// ended gives the error of the operating system by which a test ended, "" if it failed by itself.
func ended(text string) string {
	if found := nodeDied.FindString(text); found != "" {
		return "heap out of memory"
	}
	if strings.Contains(text, "ERR_ASSERTION") {
		return ""
	}
	for line := range strings.Lines(text) {
		if found := exception.FindString(strings.TrimRight(line, "\n")); found != "" && !compares.MatchString(line) {
			return found
		}
	}
	return ""
}

func said(found string) string { return strings.ToLower(strings.Trim(found, " :]'\n")) }

func finalLines(text []byte, n int) []byte {
	lines := slices.Collect(bytes.Lines(bytes.TrimRight(text, "\n")))
	return bytes.Join(lines[max(0, len(lines)-n):], nil)
}
