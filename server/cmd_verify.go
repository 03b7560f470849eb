package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/server/store"
	"perdure/workspace"
)

func (c *call) verifyCommand() *cobra.Command {
	var quick, verbose bool
	cmd := &cobra.Command{Use: "verify NAME [ID] [--quick]", Short: "compare the record with the work; the exit status is the verdict", Args: cobra.MaximumNArgs(2)}
	cmd.Flags().BoolVar(&quick, "quick", false, "run no check")
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
		_, err = fmt.Fprint(c.out, rep.Text(verbose))
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

func (c *call) verify(ctx context.Context, d workspace.Definition, quick bool) (handoff.Report, error) {
	if quick {
		return c.s.verifyQuick(ctx, d.Name)
	}
	return c.s.verifyFull(d.Name).wait(ctx)
}

func (c *call) overrideCommand() *cobra.Command {
	var because string
	cmd := &cobra.Command{Use: "override NAME --because T", Short: "release a halted workspace without repair; it is logged for ever", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVar(&because, "because", "", "why")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.who.mustBePerson("override a halt"); err != nil {
			return err
		}
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		if strings.TrimSpace(because) == "" {
			return usage("--because T", "an override says why")
		}
		h, err := c.s.store.Halt(d.Name)
		if err != nil {
			return err
		}
		if h == nil {
			return refused("", "%s is not halted", d.Name)
		}
		return c.override(cmd.Context(), d.Name, because, h)
	}
	return cmd
}

func (c *call) override(ctx context.Context, name, because string, h *store.Halt) error {
	id := newID()
	o := map[string]any{"id": id, "at": time.Now().UTC(), "because": because, "by": c.who.name, "verdict": h.Verdict, "record": h.Record}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := c.s.snaps.Put(ctx, name, kindOverride, id, data); err != nil {
		return fmt.Errorf("keep the override: %w", err)
	}
	if err := c.s.store.PutOverride(name, id, data); err != nil {
		return err
	}
	if err := c.s.release(ctx, name, "overridden", map[string]any{"because": because, "by": c.who.name, "verdict": string(h.Verdict)}); err != nil {
		return err
	}
	if c.json {
		return c.print(o)
	}
	_, err = fmt.Fprintf(c.out, "%s is released; the override is logged\n", name)
	return err
}
