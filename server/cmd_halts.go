package server

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// haltsFor is how far back halts are counted.
const haltsFor = 7 * 24 * time.Hour

// halted is one time that a workspace was halted.
type halted struct {
	Workspace string     `json:"workspace"`
	At        time.Time  `json:"at"`
	Verdict   string     `json:"verdict"`
	Ended     *time.Time `json:"ended"` // null while it lasts
	By        string     `json:"by"`    // verification, carry, repair, override, removal or ""
	// Needless: nothing was wrong with the work. A verification held after all, or the claims were carried, since no
	// result had changed.
	Needless bool `json:"needless"`
}

func (c *call) haltsCommand() *cobra.Command {
	return &cobra.Command{Use: "halts", Short: "the halts of the last week, and which were needless", Hidden: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		list, err := c.s.halts(time.Now().Add(-haltsFor))
		if err != nil {
			return err
		}
		if c.json {
			return c.print(list)
		}
		for _, h := range list {
			fmt.Fprintf(c.out, "%s  %s  %s  %s\n", h.At.Local().Format(time.DateTime), h.Workspace, h.Verdict, strings.TrimSpace(h.By+map[bool]string{true: " needless"}[h.Needless]))
		}
		return nil
	}}
}

// eventsAtOnce is how many events are read at a time.
const eventsAtOnce = 5000

// halts are those that began since a time, oldest first, as the events tell them.
func (s *Server) halts(since time.Time) ([]halted, error) {
	out := []halted{}
	open := map[string]int{} // by workspace, into out
	for after, more := uint64(0), true; more; {
		events, err := s.store.Events("", after, eventsAtOnce)
		if err != nil {
			return nil, fmt.Errorf("read the events: %w", err)
		}
		more = len(events) == eventsAtOnce
		for _, e := range events {
			after = e.Seq
			if e.Kind == "halted" && !e.At.Before(since) {
				open[e.Workspace] = len(out)
				out = append(out, halted{Workspace: e.Workspace, At: e.At, Verdict: fmt.Sprint(e.Fields["verdict"])})
				continue
			}
			i, ok := open[e.Workspace]
			by := endsHalt(e)
			if !ok || by == "" {
				continue
			}
			delete(open, e.Workspace)
			h := &out[i]
			h.Ended, h.By, h.Needless = &e.At, by, by == "verification" || by == "carry"
		}
	}
	return out, nil
}

// endsHalt is what an event ends a halt by, "" if it doesn't.
func endsHalt(e storeEvent) string {
	switch e.Kind {
	case "released":
		return "verification"
	case "repaired":
		if e.Fields["carried"] == true {
			return "carry"
		}
		return "repair"
	case "overridden":
		return "override"
	case "removed":
		return "removal"
	}
	return ""
}
