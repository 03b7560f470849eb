package server

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/google/shlex"
)

// rights are what a key may do with workspaces, by the options of its line. The zero value may do everything.
type rights struct {
	workspaces []string // patterns of path.Match; empty allows all
	readOnly   bool     // watches sessions and does nothing else
	noCommands bool     // attaches, but runs nothing and transfers no files
}

// limit reads the value of perdure-workspaces="NAME,PATTERN,…". Of several options each counts for itself, so a
// second one is refused rather than widening the first.
func (r *rights) limit(value string) error {
	if len(r.workspaces) > 0 {
		return errors.New("option perdure-workspaces is repeated")
	}
	for pattern := range strings.SplitSeq(value, ",") {
		pattern = strings.TrimSpace(pattern)
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("option perdure-workspaces: %q is no pattern", pattern)
		}
		r.workspaces = append(r.workspaces, pattern)
	}
	return nil
}

func (r *rights) covers(name string) bool {
	for _, pattern := range r.workspaces {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return len(r.workspaces) == 0
}

// check says why the key may not ask this. A key that is held to some workspaces names one of them: the picker and
// the commands see all.
func (r *rights) check(q *Request) error {
	name := q.User
	relayed := relayLine(q.Command)
	if relayed {
		words, _ := shlex.Split(q.Command) // relayLine has split it
		if name = ""; len(words) == 3 {
			name = words[2]
		}
	}
	if !r.covers(name) {
		return refused("", "this key is for the workspaces %s only", strings.Join(r.workspaces, ", "))
	}
	if r.noCommands && !relayed && (q.Command != "" || q.Term == nil) {
		return refused("attach with a terminal: `ssh -t`", "this key may run no commands")
	}
	return nil
}
