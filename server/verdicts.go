package server

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"perdure/handoff"
)

// kindVerdict is what a verification came to, by its id. Reports are large and the store's alone; this is what must
// outlive the store: it says when a record was last known to hold.
const kindVerdict = "verdict"

// verdictFindings bounds how many findings of a verification are kept for ever.
const verdictFindings = 8

// verdict is one verification, in short.
type verdict struct {
	ID       string            `json:"id"`
	At       time.Time         `json:"at"`
	Record   string            `json:"record,omitempty"` // "" where there was none
	Verdict  handoff.Verdict   `json:"verdict"`
	Scope    string            `json:"scope"` // quick or full; only a full one is the record's verdict
	Ms       int64             `json:"ms"`
	Findings []handoff.Finding `json:"findings"`       // the worst
	More     int               `json:"more,omitempty"` // findings beyond these
}

// verdictOf is a report in short. Notes come last in a report, and are left out.
func verdictOf(rep handoff.Report) verdict {
	v := verdict{ID: newID(), At: rep.At.UTC(), Record: rep.Record, Verdict: rep.Verdict, Scope: rep.Scope, Ms: rep.Ms, Findings: []handoff.Finding{}}
	for _, f := range rep.Findings {
		switch {
		case f.Kind == handoff.Note:
		case len(v.Findings) == verdictFindings:
			v.More++
		default:
			v.Findings = append(v.Findings, f)
		}
	}
	return v
}

// keepVerdict makes a verification's outcome last: ledger first, then the store.
func (s *Server) keepVerdict(ctx context.Context, name string, rep handoff.Report) error {
	v := verdictOf(rep)
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the verdict: %w", err)
	}
	if err := s.snaps.Put(ctx, name, kindVerdict, v.ID, data); err != nil {
		return fmt.Errorf("keep the verdict: %w", err)
	}
	return s.store.PutVerdict(name, v.ID, data)
}

// verdicts are the verifications of a workspace, oldest first. One that can't be read is left out: it is never a reason
// to fail.
func (s *Server) verdicts(name string) ([]verdict, error) {
	all, err := s.store.Verdicts(name)
	if err != nil {
		return nil, err
	}
	var out []verdict
	for _, data := range all {
		var v verdict
		if json.Unmarshal(data, &v) == nil {
			out = append(out, v)
		}
	}
	return out, nil
}

// lastReport is the newest full verification of a record ("" for where there was none), nil without one. Where the
// store lost the report, it is what the ledger has of it.
func (s *Server) lastReport(name, record string) (*handoff.Report, error) {
	reports, err := s.store.Reports(name)
	if err != nil {
		return nil, fmt.Errorf("read the reports of %s: %w", name, err)
	}
	var last *handoff.Report
	for i := range reports {
		if reports[i].Record == record {
			last = &reports[i]
		}
	}
	all, err := s.verdicts(name)
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if v.Record == record && v.Scope == handoff.ScopeFull && (last == nil || v.At.After(last.At.Add(time.Millisecond))) {
			last = &handoff.Report{Workspace: name, Verdict: v.Verdict, Record: v.Record, Scope: v.Scope, At: v.At, Ms: v.Ms, Findings: v.Findings}
		}
	}
	return last, nil
}
