package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/workspace"
)

func (c *call) eventsCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{Use: "events [NAME] [--follow]", Short: "what happened", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens next")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := ""
		if len(args) > 0 {
			name = args[0] // a removed workspace's events can still be read
			if err := workspace.ValidName(name); err != nil {
				return usage("", "%w", err)
			}
		}
		return c.follow(cmd.Context(), name, follow)
	}
	return cmd
}

func (c *call) follow(ctx context.Context, name string, follow bool) error {
	var after uint64
	for first := true; ; first = false {
		wake := c.s.feed.next() // before the read, so that nothing falls between
		events, err := c.s.store.Events(name, after, 0)
		if err != nil {
			return fmt.Errorf("read the events: %w", err)
		}
		if first && name != "" && len(events) == 0 {
			if _, err := c.workspace([]string{name}); err != nil {
				return err
			}
		}
		for _, e := range events {
			after = e.Seq
			if err := c.printEvent(e); err != nil {
				return nil // the reader left
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.s.ctx.Done():
			return nil
		case <-wake:
		}
	}
}

func (c *call) printEvent(e storeEvent) error {
	if c.json {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.out, "%s\n", data)
		return err
	}
	keys := make([]string, 0, len(e.Fields))
	for k := range e.Fields {
		keys = append(keys, k)
	}
	line := fmt.Sprintf("%s  %-16s %-12s", e.At.Local().Format("2006-01-02 15:04:05"), e.Workspace, e.Kind)
	for _, k := range sorted(keys) {
		line += fmt.Sprintf(" %s=%v", k, e.Fields[k])
	}
	_, err := fmt.Fprintln(c.out, handoff.Escape(line))
	return err
}
