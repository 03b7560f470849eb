package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// The exit statuses that are decided here; all others are the server's, passed on.
const (
	statusOK          = 0
	statusFailed      = 1
	statusUsage       = 2
	statusMissing     = 3
	statusRefused     = 4
	statusUnreachable = 5
)

// problem is an error with its exit status, a code for programs and what a person can do.
type problem struct {
	status int
	code   string
	err    error
	hint   string
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

// asProblem gives every error its status.
func asProblem(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	return &problem{status: statusFailed, code: "failed", err: err}
}

// report prints an error, as an object where JSON was asked for, and returns its status.
func (a *app) report(err error) int {
	p := asProblem(err)
	if a.json {
		writeErrorObject(a.stdout, p)
		return p.status
	}
	fmt.Fprintf(a.stderr, "perdure: %s\n", printable(p.Error()))
	if p.hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", printable(p.hint))
	}
	return p.status
}

func writeErrorObject(w io.Writer, p *problem) {
	type object struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint"`
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(map[string]object{"error": {p.code, p.Error(), p.hint}}) // nobody reads if this fails
}

// printable keeps an error on its line and its control characters out of the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// usageError is a command that was written wrongly.
func usageError(format string, args ...any) error {
	return &problem{status: statusUsage, code: "usage", err: fmt.Errorf(format, args...), hint: "see `perdure help`"}
}
