package server

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/workspace"
)

func (c *call) verifyCommand() *cobra.Command {
	var quick, verbose bool
	cmd := &cobra.Command{Use: "verify NAME [ID] [--quick]", Short: "compare the record with the work; the exit status is the verdict", Args: cobra.MaximumNArgs(2)}
	cmd.Flags().BoolVar(&quick, "quick", false, "run no check but those marked --quick")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "every finding and note")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.own(args)
		if err != nil {
			return err
		}
		if len(args) > 1 {
			if err := c.mustBeInForce(d, args[1]); err != nil {
				return err
			}
		}
		rep, err := c.verify(cmd.Context(), d, quick)
		if err != nil {
			return err
		}
		c.status = rep.Verdict.ExitStatus()
		if c.json {
			rep.Findings = some(rep.Findings)
			return c.print(rep)
		}
		_, err = fmt.Fprint(c.out, rep.Render(c.style(verbose)))
		return err
	}
	return cmd
}

// mustBeInForce takes only the record in force: an older one was superseded, and its verdict would say nothing.
func (c *call) mustBeInForce(d workspace.Definition, id string) error {
	r, err := c.findRecord(d, id)
	if err != nil {
		return err
	}
	cur, _, err := c.s.inForce(d.Name)
	if err != nil {
		return err
	}
	if cur != nil && cur.ID != r.ID {
		return refused("`perdure diff "+d.Name+" record` compares the tree with it", "record %s was superseded by %s, and only the record in force is verified", r.ID, cur.ID)
	}
	return nil
}

// verify runs in the server's own time, with a progress line on a terminal.
func (c *call) verify(ctx context.Context, d workspace.Definition, quick bool) (handoff.Report, error) {
	var v *verification
	switch {
	case !quick:
		v = c.s.verifyFull(d.Name)
	case hasQuickChecks(d):
		v = c.s.verifyQuickChecks(d.Name)
	default:
		return c.s.verifyQuick(ctx, d.Name)
	}
	line := c.checking(d.Name)
	defer line.done()
	tick := time.NewTicker(awaitTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return handoff.Report{}, context.Cause(ctx)
		case <-v.done:
			return v.report, v.err
		case <-tick.C:
			line.tell(v.latest())
		}
	}
}
