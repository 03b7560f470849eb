package server

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/handoff/results"
	"perdure/workspace"
)

func (c *call) deliverCommand() *cobra.Command {
	var from, record, message string
	cmd := &cobra.Command{Use: "deliver TO [--from NAME] [--record ID] [-m T]", Short: "send the record in force, with its snapshot and commits, to another workspace", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&from, "from", "", "the workspace that sends (default: the session's own)")
	cmd.Flags().StringVar(&record, "record", "", "the record in force, to be sure that it still is")
	cmd.Flags().StringVarP(&message, "message", "m", "", "what to tell the receiver")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		if from != "" {
			names = []string{from}
		}
		sender, err := c.own(names)
		if err != nil {
			return err
		}
		receiver, err := c.workspace(args)
		if err != nil {
			return err
		}
		if sender.Name == receiver.Name {
			return usage("", "%s can't deliver to itself", sender.Name)
		}
		d, err := c.s.deliver(cmd.Context(), sender, receiver, record, c.who.author(), message)
		if err != nil {
			return err
		}
		if c.json {
			return c.print(shownDelivery(d))
		}
		_, err = fmt.Fprintf(c.out, "delivered %s to %s: %s, unverified\n", d.Record, d.To, d.ID)
		return err
	}
	return cmd
}

// shown is a delivery without the bytes of its record.
func shownDelivery(d delivery) delivery {
	d.Encoded = nil
	return d
}

func (c *call) inboxCommand() *cobra.Command {
	return &cobra.Command{Use: "inbox [NAME]", Short: "deliveries, to or from one workspace", Args: cobra.MaximumNArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		name := c.who.inside
		if len(args) > 0 {
			d, err := c.workspace(args)
			if err != nil {
				return err
			}
			name = d.Name
		}
		list := []delivery{}
		for _, d := range c.s.deliveriesOf(name) {
			list = append(list, shownDelivery(d))
		}
		if c.json {
			return c.print(list)
		}
		if len(list) == 0 {
			_, err := fmt.Fprintln(c.out, "no deliveries")
			return err
		}
		t := tabwriter.NewWriter(c.out, 2, 8, 2, ' ', 0)
		for _, d := range list {
			fmt.Fprintf(t, "%s\t%s → %s\t%s\t%s\t%s\t%s\n", d.ID, d.From, d.To, d.At.Local().Format(time.DateTime), d.State, d.Verdict, handoff.Escape(strings.TrimSpace(d.Message+" "+d.Because)))
		}
		return t.Flush()
	}}
}

func (c *call) acceptCommand() *cobra.Command {
	var merge bool
	cmd := &cobra.Command{Use: "accept ID [--merge]", Short: "verify a delivery in a scratch checkout; the exit status is the verdict", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&merge, "merge", false, "verify the merge too, and bring it into the tree if it holds")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.decidable(args[0])
		if err != nil {
			return err
		}
		// In the server's own time: leaving cancels nothing half-way through a merge.
		type outcome struct {
			d   delivery
			err error
		}
		done := make(chan outcome, 1)
		c.s.wg.Go(func() {
			d, err := c.s.acceptDelivery(c.s.ctx, d.ID, merge)
			done <- outcome{d, err}
		})
		select {
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		case o := <-done:
			if o.err != nil {
				return o.err
			}
			return c.printAccepted(o.d)
		}
	}
	return cmd
}

func (c *call) printAccepted(d delivery) error {
	c.status = d.Verdict.ExitStatus()
	if c.json {
		return c.print(shownDelivery(d))
	}
	fmt.Fprint(c.out, d.Report.Render(c.style(false)))
	switch {
	case d.State != deliveryAccepted:
		fmt.Fprintf(c.out, "not accepted: %s from %s stays unverified\n", d.ID, d.From)
	case d.Merged != "":
		fmt.Fprintf(c.out, "accepted and merged as %.12s\n", d.Merged)
	default:
		fmt.Fprintln(c.out, "accepted")
	}
	return nil
}

// decidable is a delivery that the caller may decide on.
func (c *call) decidable(id string) (delivery, error) {
	d, err := c.s.findDelivery(id)
	if err != nil {
		return d, err
	}
	return d, c.who.mayActFor(d.To)
}

func (c *call) rejectCommand() *cobra.Command {
	var because string
	cmd := &cobra.Command{Use: "reject ID --because T", Short: "turn a delivery down; both sides see why", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&because, "because", "", "why")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.decidable(args[0])
		if err != nil {
			return err
		}
		if strings.TrimSpace(because) == "" {
			return usage("--because T", "a rejection says why")
		}
		d, free, err := c.s.claimDelivery(d.ID)
		if err != nil {
			return err
		}
		defer free()
		now := time.Now().UTC()
		d.State, d.Because, d.Decided = deliveryRejected, because, &now
		if err := c.s.putDelivery(cmd.Context(), d); err != nil {
			return err
		}
		c.s.deliveryEvent("rejected", d, map[string]any{"because": because})
		if c.json {
			return c.print(shownDelivery(d))
		}
		_, err = fmt.Fprintf(c.out, "rejected %s\n", d.ID)
		return err
	}
	return cmd
}

// deliveryLines tell a fresh session of what waits, and of what became of what was sent.
func (s *Server) deliveryLines(d workspace.Definition) []string {
	var out []string
	for _, x := range s.deliveriesOf(d.Name) {
		if !x.At.Before(d.Created) {
			out = append(out, deliveryLine(d.Name, x))
		}
	}
	return out
}

// deliveryLine tells one side of a delivery how it stands.
func deliveryLine(side string, x delivery) string {
	state := x.State
	if x.Verdict != "" {
		state += " (" + string(x.Verdict) + ")"
	}
	switch {
	case x.To == side && x.State == deliveryUnverified:
		return strings.TrimSpace(fmt.Sprintf("%s from %s: %s. Don't rely on it before `perdure accept %s` verified it. %s", x.ID, x.From, state, x.ID, x.Message))
	case x.To == side:
		return strings.TrimSpace(fmt.Sprintf("%s from %s: %s %s", x.ID, x.From, state, x.Because))
	}
	return strings.TrimSpace(fmt.Sprintf("%s to %s: %s %s", x.ID, x.To, state, x.Because))
}

func removeAll(dir string) { os.RemoveAll(dir) }

func sortedKeys(m map[string]results.Outcome) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
