package server

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"perdure/handoff/results"
	"perdure/workspace"
)

// ofLabel is a value for one check, or for all where no label is named.
var ofLabel = regexp.MustCompile(`^([a-z][a-z0-9-]*)=(.*)$`)

// applyPerCheck sets what may be said of all checks, or of one by its label.
func (f *definitionFlags) applyPerCheck(d *workspace.Definition, set *pflag.FlagSet) error {
	for _, name := range f.checkEnv {
		if strings.ContainsAny(name, "= \x00") || strings.HasPrefix(name, "PERDURE_") || slices.Contains([]string{"PATH", "PWD", "SSH_AUTH_SOCK"}, name) {
			return usage("it takes a name, as DATABASE_URL", "--check-env %q can't be given to checks", name)
		}
	}
	err := perCheck(d, "results", f.resultsOf, func(c *workspace.Check, v string) error {
		if !validResults(v) {
			return usage("known are "+strings.Join(results.Specs(), ", "), "no results %q", v)
		}
		if c == nil {
			d.Results = v
		} else {
			c.Results = v
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = perCheck(d, "check-timeout", f.timeouts, func(c *workspace.Check, v string) error {
		limit, err := time.ParseDuration(v)
		if err != nil || limit <= 0 {
			return usage("durations are as 90s or 10m", "--check-timeout %q is no duration to wait for", v)
		}
		if c == nil {
			d.CheckTimeout = limit
		} else {
			c.Timeout = limit
		}
		return nil
	})
	if err != nil {
		return err
	}
	return perCheck(d, "check-dir", f.checkDirs, func(c *workspace.Check, v string) error {
		if c == nil || !filepath.IsLocal(v) {
			return usage("write --check-dir LABEL=DIR, with DIR below the workspace's directory", "--check-dir %q names no check and folder", v)
		}
		c.Dir = filepath.Clean(v)
		return nil
	})
}

func perCheck(d *workspace.Definition, flag string, values []string, apply func(*workspace.Check, string) error) error {
	for _, v := range values {
		m := ofLabel.FindStringSubmatch(v)
		if m == nil {
			if err := apply(nil, v); err != nil {
				return err
			}
			continue
		}
		i := slices.IndexFunc(d.Checks, func(c workspace.Check) bool { return c.Label == m[1] })
		if i < 0 {
			return usage("it takes the label of a --check LABEL=CMD", "%s names no check", fmt.Sprintf("--%s %q", flag, v))
		}
		if err := apply(&d.Checks[i], m[2]); err != nil {
			return err
		}
	}
	return nil
}
