package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"perdure/handoff"
	"perdure/server/store"
	"perdure/snapshot"
)

// The exit statuses that CONTRACT promises; those of the verdicts are handoff.Verdict.ExitStatus.
const (
	statusOK      = 0
	statusFailed  = 1
	statusUsage   = 2
	statusMissing = 3
	statusRefused = 4
)

// problem is an error with what a person or a program does next: an exit status, a code and a hint.
type problem struct {
	status int
	code   string
	err    error
	hint   string
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

func usage(hint, format string, args ...any) error {
	return &problem{statusUsage, "usage", fmt.Errorf(format, args...), hint}
}

func missing(hint, format string, args ...any) error {
	return &problem{statusMissing, "not-found", fmt.Errorf(format, args...), hint}
}

func refused(hint, format string, args ...any) error {
	return &problem{statusRefused, "refused", fmt.Errorf(format, args...), hint}
}

// asProblem gives every error its status; what nobody foresaw is a plain failure.
func asProblem(err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, snapshot.ErrNotFound):
		return &problem{statusMissing, "not-found", err, "see `perdure snapshots NAME`"}
	case errors.Is(err, snapshot.ErrAmbiguous), errors.Is(err, handoff.ErrAmbiguous):
		return &problem{statusUsage, "ambiguous", err, "write more of it"}
	case errors.Is(err, store.ErrNoSpace), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &problem{statusFailed, "no-space", err, hintNoSpace}
	case errors.Is(err, store.ErrNotFound):
		return &problem{statusMissing, "not-found", err, ""}
	}
	return &problem{statusFailed, "failed", err, ""}
}

// report writes an error as CONTRACT promises and returns its exit status.
func report(err error, asJSON bool, out, errOut io.Writer) int {
	p := asProblem(err)
	if asJSON {
		body := map[string]any{"error": map[string]string{"code": p.code, "message": p.Error(), "hint": p.hint}}
		_ = json.NewEncoder(out).Encode(body) // the peer is gone if this fails
		return p.status
	}
	text := "perdure: " + escapeText(p.Error()) + "\n"
	for _, h := range strings.Split(p.hint, "\n") {
		if h != "" {
			text += "hint: " + handoff.Escape(h) + "\n"
		}
	}
	_, _ = io.WriteString(errOut, text)
	return p.status
}
