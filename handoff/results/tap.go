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
	tapPoint   = regexp.MustCompile(`^(not )?ok\b(?:\s+(\d+))?\s*(?:-\s*)?(.*)$`)
	tapHint    = regexp.MustCompile(`(?i)(?:^|\s)#\s*(skip|todo)\b.*$`)
	tapBail    = regexp.MustCompile(`^Bail out!\s*(.*)$`)
)

// tapIndent is what each level of subtests is indented by, in spaces.
const tapIndent = 4

// tap is one document on its way. A subtest's points come before the point of their parent, which names them.
type tap struct {
	set     Set
	found   bool
	levels  []tapLevel
	skipAll bool
}

// tapLevel is a test and its sisters.
type tapLevel struct {
	plan, seen int
	ids        []string // of this level and below, until the parent's point is read
}

func parseTAP(output []byte) (Set, bool) {
	t := tap{set: newSet("tap"), levels: []tapLevel{{plan: -1}}}
	pending := map[string]Outcome{}
	for line := range strings.Lines(string(output)) {
		line = strings.TrimRight(line, "\r\n ")
		text := strings.TrimLeft(line, " ")
		if m := tapBail.FindStringSubmatch(text); m != nil {
			t.set.Complete, t.set.Note, t.found = false, "bailed out: "+m[1], true
			continue
		}
		t.line(text, (len(line)-len(text))/tapIndent, pending)
	}
	for _, l := range t.levels { // subtests whose parent never reported
		for _, id := range l.ids {
			t.set.add(id, pending[id])
		}
	}
	if top := t.levels[0]; top.plan > top.seen {
		t.set.Complete = false
		t.set.Note = "planned " + strconv.Itoa(top.plan) + " tests, ran " + strconv.Itoa(top.seen)
	}
	return t.set, t.found && (len(t.set.Tests) > 0 || t.skipAll || t.levels[0].plan == 0)
}

func (t *tap) line(text string, depth int, pending map[string]Outcome) {
	switch {
	case tapVersion.MatchString(text):
		t.found = true
	case tapPlan.MatchString(text):
		m := tapPlan.FindStringSubmatch(text)
		n, err := strconv.Atoi(m[1])
		if err != nil || depth >= len(t.levels)+1 {
			return
		}
		t.level(depth).plan = n
		t.skipAll = t.skipAll || n == 0
		t.found = true
	case tapPoint.MatchString(text):
		t.point(tapPoint.FindStringSubmatch(text), depth, pending)
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
func (t *tap) point(m []string, depth int, pending map[string]Outcome) {
	l := t.level(depth)
	l.seen++
	name, outcome := m[3], Pass
	if m[1] != "" {
		outcome = Fail
	}
	if hint := tapHint.FindStringSubmatch(name); hint != nil {
		name = strings.TrimSpace(tapHint.ReplaceAllString(name, ""))
		if strings.EqualFold(hint[1], "skip") || outcome == Fail { // a known failure is no failure
			outcome = Skip
		}
	}
	if name = strings.ReplaceAll(name, `\#`, "#"); name == "" {
		name = "test " + strconv.Itoa(l.seen)
	}
	below := t.claim(depth+1, name, pending)
	for _, id := range append(below, name) {
		if id == name {
			pending[id] = worse(pending[id], outcome)
		}
		if depth == 0 {
			t.set.add(id, pending[id])
			delete(pending, id)
		} else {
			l.ids = append(l.ids, id)
		}
	}
}

// claim puts a parent's name before the tests below it.
func (t *tap) claim(depth int, parent string, pending map[string]Outcome) (out []string) {
	if depth >= len(t.levels) {
		return nil
	}
	for _, l := range t.levels[depth:] {
		for _, id := range l.ids {
			full := parent + "/" + id
			pending[full] = worse(pending[full], pending[id])
			delete(pending, id)
			out = append(out, full)
		}
	}
	t.levels = t.levels[:depth]
	return out
}

func worse(a, b Outcome) Outcome {
	if a == "" || b.rank() > a.rank() {
		return b
	}
	return a
}

// recogniseTAP takes output for TAP only if it says so, or plans and then reports: a lone "ok" is many a tool's word.
func recogniseTAP(output []byte) (Set, bool) {
	set, found := parseTAP(output)
	return set, found && len(set.Tests) > 0
}
