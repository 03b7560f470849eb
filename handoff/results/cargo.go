package results

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	cargoLine = regexp.MustCompile(`^test (\S.*?)((?: - (?:should panic|compile fail|compile))*) \.\.\. (?:.* )?(ok|FAILED|ignored(?:, .*)?|failed \(.*\))$`)
	cargoOpen = regexp.MustCompile(`^running (\d+) tests?$`)
	cargoSum  = regexp.MustCompile(`^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed(?:; (\d+) ignored)?`)
	// cargoUnit says which binary comes next; its file's name is the crate's, or the test's, with a hash.
	cargoUnit  = regexp.MustCompile(`^ +Running (?:unittests )?(\S*?)(?: \((.*)\))?$`)
	cargoDoc   = regexp.MustCompile(`^ +Doc-tests (\S+)$`)
	cargoHash  = regexp.MustCompile(`-[0-9a-f]{16}(\.exe)?$`)
	cargoPlace = regexp.MustCompile(`^(.+) - (.*?) ?\(line (\d+)\)$`)
	cargoNamed = regexp.MustCompile(`^---- (\S.*) stdout ----$`)
	cargoStop  = regexp.MustCompile(`^error: test failed, to rerun pass`)
	cargoBuild = regexp.MustCompile(`^error: could not compile `)
)

// cargoRun is the text of cargo test on its way. A test is named CRATE::path, by the name of its binary (bin/NAME
// for a program, as its library may have the same) where cargo told it, and by its path alone where that went elsewhere.
type cargoRun struct {
	set           Set
	found         bool
	unit          string // the binary whose block is read
	doc           bool
	open          bool // a block began and has no sum yet
	planned       int
	tests         []cargoTest
	named         map[string]bool // failures that only their output names, as with -q
	blocks        int             // binaries whose sum was read
	failed, ended bool
}

type cargoTest struct {
	name    string
	line    int // of a doc test; its number moves with each edit above it, so only its order counts
	outcome Outcome
}

func parseCargo(output []byte) (Set, bool) {
	c := &cargoRun{set: newSet("cargo"), named: map[string]bool{}}
	for line := range strings.Lines(string(output)) {
		c.take(strings.TrimRight(line, "\r\n"))
	}
	if c.open {
		c.block(nil)
	}
	if c.failed && !c.ended {
		c.set.Stopped = "cargo ran no further binary after one that failed: --no-fail-fast"
	}
	return c.set, c.found
}

func (c *cargoRun) take(line string) {
	if m := cargoOpen.FindStringSubmatch(line); m != nil {
		if c.open {
			c.block(nil)
		}
		c.open, c.tests = true, nil
		c.planned, _ = strconv.Atoi(m[1])
		return
	}
	if m := cargoSum.FindStringSubmatch(line); m != nil {
		c.found = true
		c.block(m)
		return
	}
	if c.open {
		c.point(line)
	}
	c.header(line)
}

func (c *cargoRun) header(line string) {
	unit, doc := "", false
	switch m, d := cargoUnit.FindStringSubmatch(line), cargoDoc.FindStringSubmatch(line); {
	case m != nil:
		unit = cargoName(m[1], m[2])
	case d != nil:
		unit, doc = d[1], true
	case cargoStop.MatchString(line):
		c.failed = true
		return
	case strings.HasPrefix(line, "error: ") && strings.Contains(line, " failed:"):
		c.ended = true // --no-fail-fast: every binary had its turn
		return
	case cargoBuild.MatchString(line):
		c.found, c.set.BuildFailed, c.set.Stopped = true, true, "it does not compile"
		return
	default:
		return
	}
	if c.open { // the one before ended without a sum: it aborted
		c.block(nil)
	}
	c.unit, c.doc = unit, doc
}

// cargoName is the name of a test binary: of its file, without the hash.
func cargoName(source, file string) string {
	if file == "" {
		source, file = "", source
	}
	name := cargoHash.ReplaceAllString(file[strings.LastIndexAny(file, `/\`)+1:], "")
	if strings.HasSuffix(source, "src/main.rs") || strings.Contains(source, "src/bin/") {
		name = "bin/" + name
	}
	return name
}

func (c *cargoRun) point(line string) {
	if m := cargoNamed.FindStringSubmatch(line); m != nil {
		c.named[m[1]] = true
		return
	}
	m := cargoLine.FindStringSubmatch(line)
	if m == nil {
		return
	}
	t := cargoTest{name: m[1], outcome: Fail}
	switch {
	case m[3] == "ok":
		t.outcome = Pass
	case strings.HasPrefix(m[3], "ignored"):
		t.outcome = Skip
	}
	if p := cargoPlace.FindStringSubmatch(t.name); p != nil {
		t.name = strings.TrimSuffix(p[1]+" - "+p[2], " - ")
		t.line, _ = strconv.Atoi(p[3])
	}
	c.tests = append(c.tests, t)
}

// block ends a binary's tests; sum is nil where it ended without one, by an abort.
func (c *cargoRun) block(sum []string) {
	c.blocks++
	slices.SortStableFunc(c.tests, func(a, b cargoTest) int { return cmp.Compare(a.line, b.line) })
	n := map[Outcome]int{}
	for _, t := range c.tests {
		c.set.addNew(c.id(t.name), t.outcome)
		n[t.outcome]++
	}
	if sum == nil {
		c.found = true
		if len(c.tests) < c.planned {
			c.set.Stopped = "a test binary ended before its last test"
			c.set.add(c.label(), Fail)
		}
	} else {
		for i, o := range []Outcome{Pass, Fail, Skip} {
			want, _ := strconv.Atoi(sum[i+1])
			c.unnamed(o, want-n[o])
		}
	}
	c.open, c.tests, c.named = false, nil, map[string]bool{}
}

// unnamed are tests that only the sum counts, as with -q.
func (c *cargoRun) unnamed(o Outcome, n int) {
	if n <= 0 {
		return
	}
	c.set.Complete = false
	if o == Fail && len(c.named) > 0 {
		for name := range c.named {
			c.set.addNew(c.id(name), Fail)
		}
		return
	}
	prefix := c.id("")
	if c.unit == "" { // with -q no binary is named: they are told apart by their order
		prefix = strconv.Itoa(c.blocks) + "::"
	}
	c.set.count(prefix, o, n)
}

func (c *cargoRun) id(name string) string {
	if c.unit == "" {
		return name
	}
	return c.unit + "::" + name
}

func (c *cargoRun) label() string {
	if c.unit == "" {
		return "cargo"
	}
	return c.unit
}
