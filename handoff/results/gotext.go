package results

import (
	"regexp"
	"strings"
)

var (
	goTest = regexp.MustCompile(`^(.*?)--- (PASS|FAIL|SKIP): (\S+) \(\d+\.\d+s\)$`)
	goOK   = regexp.MustCompile(`^ok  \t(\S+)\t(.*)$`)
	goFail = regexp.MustCompile(`^FAIL\t(\S+)(?:\t\d+\.\d+s| \[(?:build|setup) failed\])$`)
	goNone = regexp.MustCompile(`^\?   \t(\S+)\t\[no test files\]$`)
)

var goOutcome = map[string]Outcome{"PASS": Pass, "FAIL": Fail, "SKIP": Skip}

// textPackage collects one package's lines until the line that names it.
type textPackage struct {
	tests   map[string]Outcome
	closed  bool // said PASS or FAIL itself
	verbose bool
	running map[string]bool
}

func newTextPackage() *textPackage {
	return &textPackage{tests: map[string]Outcome{}, running: map[string]bool{}}
}

// parseGoText reads what go test prints without -json. Without -v only
// failures are named: a package that was ok is then one test, named by its
// import path.
func parseGoText(output []byte) (Set, bool) {
	set, found := newSet("go"), false
	p := newTextPackage()
	for line := range strings.Lines(string(output)) {
		line = strings.TrimRight(line, "\r\n")
		// What a test printed without a line's end stands before its result.
		if m := goTest.FindStringSubmatch(line); m != nil && (strings.TrimSpace(m[1]) == "" || p.running[m[3]]) {
			p.test(m[3], goOutcome[m[2]])
			continue
		}
		if name, ok := strings.CutPrefix(line, "=== RUN   "); ok {
			p.verbose, p.running[name] = true, true
			continue
		}
		if line == "PASS" || line == "FAIL" {
			p.closed = true
			continue
		}
		if endText(&set, p, line) {
			found, p = true, newTextPackage()
		}
	}
	return set, found
}

// endText takes the line that ends a package's output.
func endText(set *Set, p *textPackage, line string) bool {
	if goNone.MatchString(line) {
		return true
	}
	if m := goOK.FindStringSubmatch(line); m != nil {
		if p.verbose || len(p.tests) > 0 {
			p.into(set, m[1])
		} else if !strings.Contains(m[2], "[no tests to run]") {
			set.Complete = false
			set.add(m[1], Pass)
		}
		return true
	}
	m := goFail.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	failed := p.into(set, m[1])
	switch {
	case strings.HasSuffix(line, " failed]"):
		set.BuildFailed = true
		set.add(m[1], Fail)
	case !failed:
		set.add(m[1], Fail)
	case !p.closed:
		set.add(m[1], NotRun)
	}
	if !p.verbose {
		set.Complete = false
	}
	return true
}

// test keeps the worse of two results: -count runs each test more than once.
func (p *textPackage) test(name string, o Outcome) {
	if old, ok := p.tests[name]; !ok || o.rank() > old.rank() {
		p.tests[name] = o
	}
}

func (p *textPackage) into(set *Set, pkg string) (failed bool) {
	for name, o := range p.tests {
		set.add(pkg+"."+name, o)
		failed = failed || o == Fail
	}
	for name := range p.running {
		if _, ended := p.tests[name]; !ended {
			set.add(pkg+"."+name, NotRun)
		}
	}
	return failed
}
