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
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// Check is a command that shows whether the work is right.
type Check struct {
	Label   string        `json:"label"`
	Cmd     string        `json:"cmd"`
	Quick   bool          `json:"quick,omitempty"`
	Dir     string        `json:"dir,omitempty"`     // relative to the workspace's
	Results string        `json:"results,omitempty"` // in place of the workspace's
	Timeout time.Duration `json:"timeout,omitempty"` // nanoseconds, in place of the workspace's
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
	Needs        string        `json:"needs,omitempty"`         // a command that exits 0 once the environment is ready
	Setup        string        `json:"setup,omitempty"`         // a command that prepares a scratch checkout
	Link         []string      `json:"link,omitempty"`          // globs of what a scratch checkout shares with Dir
	CheckEnv     []string      `json:"check_env,omitempty"`     // more environment variables that checks get
	CheckTimeout time.Duration `json:"check_timeout,omitempty"` // nanoseconds
	Untested     []string      `json:"untested,omitempty"`
	Flaky        []string      `json:"flaky,omitempty"`
	OnMismatch   string        `json:"on_mismatch,omitempty"` // agent, shell, hold, or "" to decide by the snapshots
	Restart      string        `json:"restart,omitempty"`     // boot or never
	Interval     time.Duration `json:"interval,omitempty"`    // nanoseconds
	Include      []string      `json:"include,omitempty"`     // globs of ignored files that snapshots keep all the same
	Base         string        `json:"base,omitempty"`        // the commit that edited files count from
	Path         string        `json:"path,omitempty"`        // the PATH that commands run with
	Command      []string      `json:"command,omitempty"`     // empty: the person's shell
	Agent        string        `json:"agent,omitempty"`       // the preset that makes the command, where Command is empty
	Created      time.Time     `json:"created"`
	Repo         string        `json:"repo,omitempty"` // the id of its snapshot repository
}

// Person says whether the sessions are the person's own shell, not an agent's.
func (d Definition) Person() bool {
	return len(d.Command) == 0 && (d.Agent == "" || d.Agent == "shell")
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
		ok, err := doublestar.Match(path.Clean(g), file)
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
			if w, ok := witness(x, y); ok {
				return w, true
			}
		}
	}
	return "", false
}
