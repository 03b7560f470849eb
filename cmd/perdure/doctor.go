package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// diagnosis is what doctor says of one thing. The names are a promise.
type diagnosis struct {
	Check  string `json:"check"`
	Level  string `json:"level"` // ok, warning or failure
	Found  string `json:"found"`
	Mend   string `json:"mend,omitempty"`   // what to do, for a person
	Mended bool   `json:"mended,omitempty"` // --repair did it

	repair func() error // nil where a person must decide
}

const (
	levelOK      = "ok"
	levelWarning = "warning"
	levelFailure = "failure"
)

func fine(check, format string, args ...any) diagnosis {
	return diagnosis{Check: check, Level: levelOK, Found: fmt.Sprintf(format, args...)}
}

func warning(check, mend, format string, args ...any) diagnosis {
	return diagnosis{Check: check, Level: levelWarning, Found: fmt.Sprintf(format, args...), Mend: mend}
}

func failure(check, mend, format string, args ...any) diagnosis {
	return diagnosis{Check: check, Level: levelFailure, Found: fmt.Sprintf(format, args...), Mend: mend}
}

func (a *app) doctorCommand() *cobra.Command {
	var f serveFlags
	var repair bool
	c := &cobra.Command{
		Use:   "doctor [--repair]",
		Short: "Check this machine and the store, and say how to mend what is wrong",
		Long: `Doctor looks at what perdure needs on this machine: state folder, keys, ports, disk, store, programs, limits and
sessions. It changes nothing, unless --repair is given: then it mends what needs no decision. The exit status is 1
if something is broken and was not mended.`,
		GroupID: groupHere, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error { return a.doctor(c.Context(), f, repair) },
	}
	f.register(c)
	c.Flags().BoolVar(&repair, "repair", false, "mend what needs no decision")
	return c
}

func (a *app) doctor(ctx context.Context, f serveFlags, repair bool) error {
	if err := a.notRemote("doctor"); err != nil {
		return err
	}
	state, err := a.stateDir()
	if err != nil {
		return err
	}
	c, _, err := f.settings()
	if err != nil {
		return err
	}
	p := &patient{state: state, listen: c.Listen, keys: c.AuthorizedKeys, ask: a.call}
	all := p.examine(ctx)
	broken := 0
	for i := range all {
		if repair && all[i].repair != nil {
			all[i].mend()
		}
		if all[i].Level == levelFailure && !all[i].Mended {
			broken++
		}
	}
	if err := a.tellFindings(all); err != nil {
		return err
	}
	if broken > 0 {
		return &problem{status: statusFailed, code: "unwell", err: fmt.Errorf("%d of %d checks failed", broken, len(all))}
	}
	return nil
}

func (f *diagnosis) mend() {
	if err := f.repair(); err != nil {
		f.Found += fmt.Sprintf("; it could not be mended: %v", err)
		return
	}
	f.Mended = true
}

func (a *app) tellFindings(all []diagnosis) error {
	if a.json {
		return writeJSON(a.stdout, all)
	}
	return writeFindings(a.stdout, all)
}

func writeFindings(w io.Writer, all []diagnosis) error {
	var errs []error
	for _, f := range all {
		level := f.Level
		if f.Mended {
			level = "mended"
		}
		_, err := fmt.Fprintf(w, "%-8s %-12s %s\n", level, f.Check, printable(f.Found))
		errs = append(errs, err)
		if f.Mend != "" && !f.Mended {
			_, err := fmt.Fprintf(w, "%-8s %-12s → %s\n", "", "", printable(f.Mend))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// exists tells whether there is something by that name.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
