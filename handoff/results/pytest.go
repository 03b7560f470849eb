package results

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	pytestLine = regexp.MustCompile(`^(\S+?\.\w+(?:::.+?)?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN)(?: \(.*\)?)?(?: +\[ *(?:\d+%|\d+/\d+)\])?$`)
	// pytestWorker is the same line from a run spread over several processes.
	pytestWorker = regexp.MustCompile(`^\[gw\d+\] \[ *\d+%\] (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN) (\S+?\.\w+::.+?) *$`)
	pytestSum    = regexp.MustCompile(`^(FAILED|ERROR|PASSED|XPASS|XFAIL) (\S+?\.\w+(?:::.*)?)$`)
	pytestOpen   = regexp.MustCompile(`^=+ test session starts(?: \(.*\))? =+$`)
	pytestDots   = regexp.MustCompile(`^(?:(\S+\.\w+) )?[.FEsxXR]+ +\[ *(?:\d+%|\d+/\d+)\]$`)
	pytestLast   = regexp.MustCompile(`^(?:=+ )?((?:\d+ [a-z][a-z ]*(?:, )?)+|no tests (?:ran|collected).*?)(?: in [\d.]+s(?: \([\d:]+\))?)(?: =+)?$`)
	pytestCount  = regexp.MustCompile(`(\d+) (passed|failed|skipped|errors?|xfailed|xpassed)`)
	pytestHalt   = regexp.MustCompile(`^!+ ((?:Interrupted|stopping after|KeyboardInterrupt|_pytest|xdist).*?) !+$|^INTERNALERROR> (\S.*)$`)
)

var pytestOutcome = map[string]Outcome{
	"PASSED": Pass, "FAILED": Fail, "ERROR": Fail, "SKIPPED": Skip, "XFAIL": Skip, "XPASS": Pass,
}

// pytestRun is pytest's text on its way. What it names is file::Class::test[parameters]; what it only counts (it names
// failures alone unless it is asked by -v or -rA) is numbered: "passed 3".
type pytestRun struct {
	set     Set
	found   bool
	summary bool            // in the short summary
	named   map[string]bool // as they ran: the summary says them again
	counts  map[Outcome]int
}

func parsePytest(output []byte) (Set, bool) {
	p := &pytestRun{set: newSet("pytest"), named: map[string]bool{}, counts: map[Outcome]int{}}
	for line := range strings.Lines(string(output)) {
		p.take(strings.TrimRight(line, "\r\n"))
	}
	if !p.found {
		return p.set, false
	}
	for _, o := range []Outcome{Pass, Skip, Fail} {
		n := p.counts[o]
		for _, got := range p.set.Tests {
			if got == o {
				n--
			}
		}
		if n > 0 && (o != Fail || p.set.failures() == 0) {
			p.set.Complete = false
			p.set.count("", o, n)
		}
	}
	return p.set, true
}

func (p *pytestRun) take(line string) {
	switch {
	case pytestOpen.MatchString(line):
		p.found, p.summary = true, false
	case pytestDots.MatchString(line):
		p.found = true
	case strings.HasPrefix(line, "====") && strings.Contains(line, " short test summary info "):
		p.found, p.summary = true, true
	case pytestHalt.MatchString(line):
		m := pytestHalt.FindStringSubmatch(line)
		p.set.Stopped = m[1] + m[2]
	case pytestLast.MatchString(line):
		p.last(pytestLast.FindStringSubmatch(line)[1])
	default:
		p.test(line)
	}
}

// last takes the counts of a session's last line.
func (p *pytestRun) last(text string) {
	if m := pytestCount.FindAllStringSubmatch(text, -1); m != nil || strings.HasPrefix(text, "no tests") || strings.Contains(text, "deselected") {
		p.found, p.summary = true, false
		for _, c := range m {
			n, _ := strconv.Atoi(c[1])
			switch c[2] {
			case "passed", "xpassed":
				p.counts[Pass] += n
			case "skipped", "xfailed":
				p.counts[Skip] += n
			default:
				p.counts[Fail] += n
			}
		}
	}
}

func (p *pytestRun) test(line string) {
	if m := pytestWorker.FindStringSubmatch(line); m != nil {
		p.point(m[2], m[1])
	} else if m := pytestSum.FindStringSubmatch(line); m != nil && p.summary {
		p.set.add(p.summaryID(m[2]), pytestOutcome[m[1]])
	} else if m := pytestLine.FindStringSubmatch(line); m != nil && !p.summary {
		p.point(m[1], m[2])
	}
}

// point is a test's own line. A test that is run again counts by its last run.
func (p *pytestRun) point(id, word string) {
	if word == "RERUN" {
		return
	}
	p.named[id] = true
	p.set.add(id, pytestOutcome[word])
}

// summaryID cuts the message off: "id - why", where the parameters of an ID may hold " - " too.
func (p *pytestRun) summaryID(text string) string {
	text = strings.TrimRight(text, " ")
	if p.named[text] {
		return text
	}
	from := 0
	if open := strings.IndexByte(text, '['); open >= 0 && !strings.Contains(text[:open], " - ") {
		// The ID ends at the first "]" that the message follows.
		if end := strings.Index(text[open:], "] - "); end >= 0 {
			from = open + end
		} else if strings.HasSuffix(text, "]") {
			return text
		}
	}
	for at := from; ; {
		i := strings.Index(text[at:], " - ")
		if i < 0 {
			break
		}
		if at += i; p.named[text[:at]] {
			return text[:at]
		}
		at += len(" - ")
	}
	if i := strings.Index(text[from:], " - "); i >= 0 {
		return text[:from+i]
	}
	return text
}
