// Package workspace says what a workspace and a session are, and starts, finds and stops the hosts that hold
// sessions. A host is a process of its own (package workspace/host, which this package starts and never links): it
// outlives whoever started it, and is found again by its session folder.
package workspace

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// Check is a command that shows whether the work is right.
type Check struct {
	Label string `json:"label"`
	Cmd   string `json:"cmd"`
	Quick bool   `json:"quick,omitempty"`
}

// Definition is a durable slice of work with one owner.
type Definition struct {
	Name         string        `json:"name"`
	Dir          string        `json:"dir"` // absolute, links resolved
	Goal         string        `json:"goal,omitempty"`
	Owns         []string      `json:"owns,omitempty"`   // globs, relative to Dir
	Shares       []string      `json:"shares,omitempty"` // globs
	Questions    []string      `json:"questions,omitempty"`
	Checks       []Check       `json:"checks,omitempty"`
	Results      string        `json:"results,omitempty"`
	Needs        string        `json:"needs,omitempty"`
	CheckTimeout time.Duration `json:"check_timeout,omitempty"` // nanoseconds
	Untested     []string      `json:"untested,omitempty"`
	Flaky        []string      `json:"flaky,omitempty"`
	OnMismatch   string        `json:"on_mismatch,omitempty"` // agent, shell, hold, or "" to decide by the snapshots
	Restart      string        `json:"restart,omitempty"`     // boot or never
	Interval     time.Duration `json:"interval,omitempty"`    // nanoseconds
	Base         string        `json:"base,omitempty"`        // the commit that edited files count from
	Path         string        `json:"path,omitempty"`        // the PATH that commands run with
	Command      []string      `json:"command,omitempty"`     // empty: the person's shell
	Created      time.Time     `json:"created"`
	Repo         string        `json:"repo,omitempty"` // the id of its snapshot repository
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// ErrName is wrapped by every error of ValidName.
var ErrName = errors.New("not a workspace name")

// ValidName refuses what can't be a workspace's name. Names are paths and SSH users, so nothing else is let in.
func ValidName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%w: %q", ErrName, clip(name))
	}
	if name == "perdure" {
		return fmt.Errorf("%w: %q is reserved", ErrName, name)
	}
	return nil
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// Owned says whether a path, relative to the workspace's directory, matches one of the globs.
func Owned(globs []string, file string) bool {
	return slices.ContainsFunc(globs, func(g string) bool {
		ok, err := doublestar.Match(g, file)
		return err == nil && ok
	})
}

// Overlap finds a file that both lists of globs own: one of files, else one that might exist.
func Overlap(a, b, files []string) (string, bool) {
	for _, f := range files {
		if Owned(a, f) && Owned(b, f) {
			return f, true
		}
	}
	for _, x := range a {
		for _, y := range b {
			if w, ok := common(x, y); ok {
				return w, true
			}
		}
	}
	return "", false
}

// common finds a path that two globs match, where one can be made of the words of both: segment by segment, with **
// standing for any number of them. A segment of two different patterns is tried with the literal words of either.
func common(x, y string) (string, bool) {
	xs, ys := strings.Split(path.Clean(x), "/"), strings.Split(path.Clean(y), "/")
	segs, ok := meet(xs, ys, 0)
	if !ok {
		return "", false
	}
	w := strings.Join(segs, "/")
	if w == "" {
		return "", false
	}
	return w, Owned([]string{x}, w) && Owned([]string{y}, w)
}

// maxDepth bounds the search below several **.
const maxDepth = 24

func meet(xs, ys []string, depth int) ([]string, bool) {
	switch {
	case depth > maxDepth:
		return nil, false
	case len(xs) == 0 && len(ys) == 0:
		return nil, true
	case len(xs) > 0 && xs[0] == "**":
		return meetAny(xs, ys, depth)
	case len(ys) > 0 && ys[0] == "**":
		return meetAny(ys, xs, depth)
	case len(xs) == 0 || len(ys) == 0:
		return nil, false
	}
	word, ok := meetSegment(xs[0], ys[0])
	if !ok {
		return nil, false
	}
	rest, ok := meet(xs[1:], ys[1:], depth+1)
	return append([]string{word}, rest...), ok
}

// meetAny lets the ** at the head of xs take none, or one more, of ys.
func meetAny(xs, ys []string, depth int) ([]string, bool) {
	if rest, ok := meet(xs[1:], ys, depth+1); ok {
		if len(rest) == 0 && len(ys) == 0 {
			return []string{"file"}, true
		}
		return rest, true
	}
	if len(ys) == 0 {
		return nil, false
	}
	if ys[0] == "**" {
		return meet(xs, ys[1:], depth+1)
	}
	rest, ok := meet(xs, ys[1:], depth+1)
	return append([]string{literal(ys[0])}, rest...), ok
}

func meetSegment(x, y string) (string, bool) {
	for _, w := range []string{literal(x), literal(y), literal(x) + literal(y)} {
		if Owned([]string{x}, w) && Owned([]string{y}, w) {
			return w, true
		}
	}
	return "", false
}

var braces = regexp.MustCompile(`\{([^,{}]*)[^{}]*\}|\[[^\]]*\]`)

// literal is a word that a segment of a glob matches, as far as that is easily said.
func literal(seg string) string {
	seg = braces.ReplaceAllStringFunc(seg, func(m string) string {
		if m[0] == '{' {
			return braces.FindStringSubmatch(m)[1]
		}
		return m[1:2]
	})
	seg = strings.ReplaceAll(seg, "?", "x")
	if seg == "*" || seg == "**" {
		return "x"
	}
	return strings.ReplaceAll(seg, "*", "")
}
