package results

import (
	"regexp"
	"strconv"
	"strings"
)

// TAP, the Test Anything Protocol, version 12 to 14 (testanything.org): node --test, prove, bats, tap.
var (
	tapVersion = regexp.MustCompile(`^TAP version 1[234]\s*$`)
	tapPlan    = regexp.MustCompile(`^1\.\.(\d+)(?:\s*#\s*(.*))?$`)
	tapPoint   = regexp.MustCompile(`^(not )?ok(?:\s+(\d+))?(?:\s+-)?(?:\s+(.*))?$`)
	tapHint    = regexp.MustCompile(`(?i)(?:^|\s)#\s*(skip|todo)\S*\s*(.*)$`)
	tapBail    = regexp.MustCompile(`^Bail out!\s*(.*)$`)
)

const (
	// tapIndent is what each level of subtests is indented by, in spaces.
	tapIndent = 4
	// maxName bounds one name, in bytes: names of subtests hold those around them.
	maxName = 512
	// patternSkip is what node says of tests that it was told not to run: they are no tests of this run.
	patternSkip = "test name does not match pattern"
)

// tap is one document on its way. A subtest's points come before the point of their parent, which names them.
type tap struct {
	set     Set
	found   bool
	version bool
	levels  []tapLevel
	skipAll bool
	yaml    string // the indentation of the block that is passed over, with its end mark
}

// tapLevel is a test and its sisters.
type tapLevel struct {
	plan, seen int
	tests      []tapTest // of this level and below, until the parent's point is read
}

type tapTest struct {
	name    string
	outcome Outcome
}

func parseTAP(output []byte) (Set, bool) {
	t := tap{set: newSet("tap"), levels: []tapLevel{{plan: -1}}}
	for line := range strings.Lines(string(output)) {
		t.take(strings.TrimRight(line, "\r\n "))
	}
	for _, l := range t.levels[1:] { // subtests whose parent never reported
		for _, test := range l.tests {
			t.set.addNew(test.name, test.outcome)
		}
	}
	top := t.levels[0]
	planned := "planned " + strconv.Itoa(top.plan) + " tests, ran " + strconv.Itoa(top.seen)
	switch {
	case t.set.Stopped != "" || !t.found:
	case top.plan < 0 && t.version && top.seen > 0:
		t.set.Stopped = "no plan was printed"
	case top.plan > top.seen:
		t.set.Stopped = planned
	case top.plan >= 0 && top.plan < top.seen:
		t.set.say(planned)
		t.set.addNew("plan", Fail)
	}
	t.set.Complete = t.set.Stopped == ""
	return t.set, t.found && (len(t.set.Tests) > 0 || t.skipAll || t.version)
}

func (t *tap) take(line string) {
	if t.yaml != "" {
		if line == t.yaml {
			t.yaml = ""
		}
		return
	}
	text := strings.TrimLeft(line, " ")
	if text == "---" && len(text) < len(line) { // diagnostics hold whatever was printed
		t.yaml = line[:len(line)-len(text)] + "..."
		return
	}
	if m := tapBail.FindStringSubmatch(text); m != nil {
		t.set.Stopped, t.found = "bailed out: "+clip(m[1]), true
		return
	}
	if depth := (len(line) - len(text)) / tapIndent; depth < maxDepth {
		t.line(text, depth)
	}
}

func (t *tap) line(text string, depth int) {
	switch {
	case tapVersion.MatchString(text):
		t.found, t.version = true, true
	case tapPlan.MatchString(text):
		n, err := strconv.Atoi(tapPlan.FindStringSubmatch(text)[1])
		if err != nil || depth >= len(t.levels)+1 {
			return
		}
		t.level(depth).plan = n
		t.skipAll = t.skipAll || n == 0
		t.found = true
	case tapPoint.MatchString(text):
		t.point(tapPoint.FindStringSubmatch(text), depth)
	}
}

// level is the state of a depth, made where it is new; deeper ones that no parent claimed stay as they are.
func (t *tap) level(depth int) *tapLevel {
	for len(t.levels) <= depth {
		t.levels = append(t.levels, tapLevel{plan: -1})
	}
	return &t.levels[depth]
}

// point takes in one result: "ok 1 - name # SKIP why".
func (t *tap) point(m []string, depth int) {
	l := t.level(depth)
	l.seen++
	name, outcome := m[3], Pass
	if m[1] != "" {
		outcome = Fail
	}
	if hint := tapHint.FindStringSubmatch(name); hint != nil {
		if hint[2] == patternSkip {
			return
		}
		name = strings.TrimSpace(tapHint.ReplaceAllString(name, ""))
		if strings.EqualFold(hint[1], "skip") || outcome == Fail { // a known failure is no failure
			outcome = Skip
		}
	}
	if name = clip(strings.ReplaceAll(name, `\#`, "#")); name == "" {
		name = "test " + strconv.Itoa(l.seen)
	}
	tests := append(t.claim(depth+1, name), tapTest{name, outcome})
	if depth > 0 {
		t.levels[depth].tests = append(t.levels[depth].tests, tests...)
		return
	}
	for _, test := range tests {
		t.set.addNew(test.name, test.outcome)
	}
}

// claim puts a parent's name before the tests below it.
func (t *tap) claim(depth int, parent string) (out []tapTest) {
	if depth >= len(t.levels) {
		return nil
	}
	for _, l := range t.levels[depth:] {
		for _, test := range l.tests {
			out = append(out, tapTest{parent + "/" + test.name, test.outcome})
		}
	}
	t.levels = t.levels[:depth]
	return out
}

func clip(name string) string {
	if len(name) > maxName {
		name = name[:maxName]
	}
	return strings.ToValidUTF8(name, "?")
}

// recogniseTAP takes output for TAP only if it says so, or plans and then reports: a lone "ok" is many a tool's word.
func recogniseTAP(output []byte) (Set, bool) {
	set, found := parseTAP(output)
	return set, found && (len(set.Tests) > 0 || tapSays.Match(output))
}

var tapSays = regexp.MustCompile(`(?m)^TAP version 1[234]\s*$`)
