package handoff

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// how is what a record keeps of the settings that a check is run by.
func (s CheckSpec) how() *How {
	limit := s.Timeout
	if limit <= 0 {
		limit = defaultTimeout
	}
	env := slices.Sorted(slices.Values(s.Env))
	if env == nil {
		env = []string{}
	}
	return &How{Results: cmp.Or(s.Results, "auto"), Env: slices.Compact(env), Timeout: max(1, limit.Milliseconds())}
}

// RanAs tells whether a run was of this check: the same command in the same folder, its results read in the same way.
// Read in another way, they are those of another check, which may see less: the exit status alone, say.
func (c CheckRun) RanAs(s CheckSpec) bool {
	return c.sameCommand(s) && (c.How == nil || c.How.Results == s.how().Results)
}

func (c CheckRun) sameCommand(s CheckSpec) bool {
	return c.Cmd == s.Cmd && filepath.Clean("./"+c.Cwd) == filepath.Clean("./"+s.Dir)
}

// Spec is the check that was run: what the record says of how, and where it says nothing the settings of other.
func (c CheckRun) Spec(other CheckSpec) CheckSpec {
	s := other
	s.Label, s.Cmd, s.Dir, s.Quick = c.Label, c.Cmd, "", false
	if c.Cwd != "." {
		s.Dir = c.Cwd
	}
	if c.How != nil {
		s.Results = c.How.Results
		s.Timeout = max(s.Timeout, time.Duration(c.How.Timeout)*time.Millisecond)
	}
	return s
}

// otherSettings notes where the record's run had other variables, or another time to end in: its results may differ for
// this, and one with less of either may have seen less.
func (v *verifier) otherSettings(m measuredCheck) {
	if m.recorded == nil || m.recorded.How == nil || m.run.How == nil {
		return
	}
	was, now := m.recorded.How, m.run.How
	if !slices.Equal(was.Env, now.Env) {
		v.find(Note, m.run.Label, variables(was.Env), variables(now.Env), "the record's run got other variables")
	}
	if was.Timeout != now.Timeout {
		v.find(Note, m.run.Label, limitText(was.Timeout), limitText(now.Timeout), "the record's run had another time limit")
	}
}

func variables(names []string) string {
	if len(names) == 0 {
		return "no variables"
	}
	return "variables " + strings.Join(names, " ")
}

func limitText(ms int64) string { return "at most " + (time.Duration(ms) * time.Millisecond).String() }
