package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perdure/handoff"
)

// logEntry is one thing that happened to a chain, as `handoff log --json` promises it.
type logEntry struct {
	ID      string    `json:"id"`
	Kind    string    `json:"kind"` // record | verification | observation | override | delivered | received
	Seq     int       `json:"seq,omitempty"`
	At      time.Time `json:"at"`
	Author  string    `json:"author,omitempty"`
	Head    string    `json:"head,omitempty"`
	Repairs string    `json:"repairs,omitempty"`
	Carried bool      `json:"carried,omitempty"` // the claims of the record it repairs
	Explain []string  `json:"explain,omitempty"`
	// Verdicts and Verifications are a record's, the oldest first.
	Verdicts      []string  `json:"verdicts,omitempty"`
	Verifications []verdict `json:"verifications,omitempty"`
	// Record is what a verification, an override or a delivery was about.
	Record   string            `json:"record,omitempty"`
	Verdict  handoff.Verdict   `json:"verdict,omitempty"`
	Scope    string            `json:"scope,omitempty"`
	Findings []handoff.Finding `json:"findings,omitempty"`
	More     int               `json:"more,omitempty"`
	With     string            `json:"with,omitempty"`  // the other side of a delivery
	State    string            `json:"state,omitempty"` // of a delivery
	Changed  []string          `json:"changed,omitempty"`
	Text     string            `json:"text,omitempty"`
	Error    string            `json:"error,omitempty"`
}

func (c *call) handoffLogCommand() *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{Use: "log NAME", Short: "the chain of records with each one's verdicts, observations, overrides and deliveries", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "every finding and changed file that is kept")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		list, err := c.s.handoffLog(d.Name)
		if err != nil {
			return err
		}
		if c.json {
			return c.print(list)
		}
		return c.printLog(list, verbose)
	}
	return cmd
}

// handoffLog is everything about a workspace's records, in the order of time.
func (s *Server) handoffLog(name string) ([]logEntry, error) {
	verdicts, err := s.history(name)
	if err != nil {
		return nil, err
	}
	out := []logEntry{}
	for _, v := range verdicts {
		out = append(out, logEntry{ID: v.ID, Kind: "verification", At: v.At, Record: v.Record, Verdict: v.Verdict, Scope: v.Scope, Findings: v.Findings, More: v.More})
	}
	for _, add := range []func(string, []verdict) ([]logEntry, error){s.loggedRecords, s.loggedObservations, s.loggedOverrides, s.loggedDeliveries} {
		entries, err := add(name, verdicts)
		if err != nil {
			return nil, err
		}
		out = append(out, entries...)
	}
	slices.SortStableFunc(out, func(a, b logEntry) int { return a.At.Compare(b.At) })
	return out, nil
}

// history is every verification: those of the ledger, and before there were any the store's reports.
func (s *Server) history(name string) ([]verdict, error) {
	out, err := s.verdicts(name)
	if err != nil {
		return nil, err
	}
	reports, err := s.store.Reports(name)
	if err != nil {
		return nil, err
	}
	var older []verdict
	for _, rep := range reports {
		if !slices.ContainsFunc(out, func(v verdict) bool { return v.At.Equal(rep.At) && v.Record == rep.Record }) {
			v := verdictOf(rep)
			v.ID = ""
			older = append(older, v)
		}
	}
	return append(older, out...), nil
}

func (s *Server) loggedRecords(name string, verdicts []verdict) ([]logEntry, error) {
	records, err := s.store.Records(name)
	if err != nil {
		return nil, err
	}
	var out []logEntry
	for _, encoded := range records {
		out = append(out, recordEntry(encoded, verdicts))
	}
	return out, nil
}

func recordEntry(encoded []byte, verdicts []verdict) logEntry {
	r, err := handoff.Decode(encoded)
	if err != nil {
		return logEntry{Kind: "record", Error: "can't be read: " + err.Error()}
	}
	e := logEntry{ID: r.ID, Kind: "record", Seq: r.Seq, At: r.Measured.At, Author: r.Author, Head: r.Measured.Head, Repairs: r.Repairs, Explain: r.Explain, Carried: r.Repairs != "" && len(r.Explain) == 0}
	if r.Claim != nil && r.Claim.Next != nil {
		e.Text = "next: " + r.Claim.Next.Do
	} else if r.Claim != nil && r.Claim.Finished {
		e.Text = "finished"
	}
	for _, v := range verdicts {
		if v.Record != r.ID {
			continue
		}
		e.Verifications = append(e.Verifications, v)
		if v.Scope == handoff.ScopeFull {
			e.Verdicts = append(e.Verdicts, string(v.Verdict))
		}
	}
	return e
}

func (s *Server) loggedObservations(name string, _ []verdict) ([]logEntry, error) {
	observations, err := s.store.Observations(name)
	if err != nil {
		return nil, err
	}
	var out []logEntry
	for _, data := range observations {
		var o observation
		if err := json.Unmarshal(data, &o); err != nil {
			continue // never in a record's place, so never a reason to fail
		}
		out = append(out, logEntry{ID: o.ID, Kind: "observation", At: o.At, Author: o.Author, Head: o.Head, Record: o.Record, Changed: o.Changed,
			Text: fmt.Sprintf("%s, %d file(s) changed since the record", o.Reason, len(o.Changed))})
	}
	return out, nil
}

func (s *Server) loggedOverrides(name string, _ []verdict) ([]logEntry, error) {
	all, err := s.overrides(name)
	if err != nil {
		return nil, err
	}
	var out []logEntry
	for _, o := range all {
		out = append(out, logEntry{ID: o.ID, Kind: "override", At: o.At, Author: handoff.AuthorPerson, Record: o.Record, Verdict: o.Verdict, Findings: o.Findings, Text: o.Because})
	}
	return out, nil
}

func (s *Server) loggedDeliveries(name string, _ []verdict) ([]logEntry, error) {
	var out []logEntry
	for _, x := range s.deliveriesOf(name) {
		e := logEntry{ID: x.ID, Kind: "delivered", At: x.At, Author: x.By, Record: x.Record, With: x.To, State: x.State, Verdict: x.Verdict, Text: x.Message}
		if x.To == name {
			e.Kind, e.With = "received", x.From
		}
		if x.Because != "" {
			e.Text = strings.TrimSpace(e.Text + " rejected: " + x.Because)
		}
		out = append(out, e)
	}
	return out, nil
}

// told is what the log says of an entry, beside its time and kind; number names a record by its place in the chain.
func (e logEntry) told(verbose bool, number func(id string) string) (head string, more []string) {
	switch e.Kind {
	case "record":
		head = fmt.Sprintf("#%d %s by %s", e.Seq, e.ID, e.Author)
		switch {
		case e.Error != "":
			head = e.Error
		case e.Carried:
			head += ", carries " + number(e.Repairs)
		case e.Repairs != "":
			head += ", repairs " + number(e.Repairs)
		}
		if e.Text != "" {
			head += ": " + e.Text
		}
		return head, e.Explain
	case "verification":
		head = fmt.Sprintf("%s  %s, of %s", e.Verdict, e.Scope, number(e.Record))
		return head, findingLines(e.Findings, e.More, verbose)
	case "override":
		return fmt.Sprintf("%s of %s: %s", e.Verdict, number(e.Record), e.Text), nil
	case "delivered", "received":
		side := "to "
		if e.Kind == "received" {
			side = "from "
		}
		head = fmt.Sprintf("%s %s%s, record %s: %s", e.ID, side, e.With, number(e.Record), e.State)
		if e.Verdict != "" {
			head += " (" + string(e.Verdict) + ")"
		}
		return strings.TrimSpace(head + " " + e.Text), nil
	}
	if verbose {
		more = e.Changed
	}
	return e.Text, more
}

// shortFindings is how many findings of a verification the log names without -v.
const shortFindings = 3

func findingLines(findings []handoff.Finding, more int, verbose bool) []string {
	var out []string
	for i, f := range findings {
		if i == shortFindings && !verbose {
			more += len(findings) - i
			break
		}
		out = append(out, f.Line())
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// logColumn is where the log's text begins, after a time.
const logColumn = len(time.DateTime) + 4

// printLog shows a line an entry, and under it what belongs to it.
func (c *call) printLog(list []logEntry, verbose bool) error {
	style := c.style(verbose)
	numbers := map[string]string{"": "nothing"}
	for _, e := range list {
		if e.Kind == "record" && e.ID != "" {
			numbers[e.ID] = fmt.Sprintf("#%d", e.Seq)
		}
	}
	number := func(id string) string { return cmp.Or(numbers[id], id) }
	below := strings.Repeat(" ", logColumn)
	if style.Width > 0 && style.Width < 100 {
		below = "    "
	}
	for _, e := range list {
		head, more := e.told(verbose, number)
		kind, color := e.Kind, string(e.Verdict)
		switch kind {
		case "verification":
			kind = "verified"
		case "override":
			color = string(handoff.Contradicted) // stands out for ever
		}
		first := style.Dim(e.At.Local().Format(time.DateTime)) + "  " + style.Verdict(color, handoff.Pad(kind, len("observation"))) + "  "
		lines := []string{style.Wrap(first, handoff.Escape(head))}
		for _, m := range more {
			lines = append(lines, style.Wrap(below, handoff.Escape(m)))
		}
		if _, err := fmt.Fprintln(c.out, strings.Join(lines, "\n")); err != nil {
			return nil // the reader left
		}
	}
	return nil
}
