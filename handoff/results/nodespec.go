package results

import (
	"regexp"
	"strings"
)

var (
	specPoint = regexp.MustCompile(`^((?:  )*)(✔|✖|﹣) (.+?) \([\d.]+ms\)(?: # (.*))?$`)
	specOpen  = regexp.MustCompile(`^((?:  )*)▶ (.+?)( \([\d.]+ms\))?$`)
	specCount = regexp.MustCompile(`^ℹ tests (\d+)$`)
)

// parseSpec reads the spec reporter of node --test. Tests are named as in TAP: outer/inner.
func parseSpec(output []byte) (Set, bool) {
	set, found := newSet("node"), false
	var path []string // the tests around the line
	for line := range strings.Lines(string(output)) {
		line = strings.TrimRight(line, "\r\n")
		if specCount.MatchString(line) {
			found = true
			break // the failures are told once more below
		}
		if m := specOpen.FindStringSubmatch(line); m != nil {
			depth := min(len(m[1])/2, len(path))
			if m[3] == "" && depth < maxDepth {
				path = append(path[:depth], clip(m[2]))
			} else { // older versions end a test so, and say no more of it
				path = path[:depth]
			}
			continue
		}
		m := specPoint.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		path = path[:min(len(m[1])/2, len(path))]
		if m[2] == "﹣" && m[4] == patternSkip {
			continue
		}
		set.addNew(strings.Join(append(path[:len(path):len(path)], clip(m[3])), "/"), specOutcome(m[2], m[4]))
	}
	return set, found
}

func specOutcome(sign, note string) Outcome {
	switch {
	case sign == "✔":
		return Pass
	case sign == "﹣", strings.HasPrefix(note, "TODO"):
		return Skip
	}
	return Fail
}
