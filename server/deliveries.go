package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"perdure/handoff"
	"perdure/snapshot"
	"perdure/workspace"
)

// kindDelivery are handoffs that one workspace sent to another, by their id.
const kindDelivery = "delivery"

// The states of a delivery. It only moves from unverified to one of the others.
const (
	deliveryUnverified = "unverified"
	deliveryAccepted   = "accepted"
	deliveryRejected   = "rejected"
)

// delivery is a record with its snapshot and commits, sent by one workspace to another. Until the receiver verified it
// nothing in it counts.
type delivery struct {
	ID       string            `json:"id"`
	At       time.Time         `json:"at"`
	From     string            `json:"from"`
	To       string            `json:"to"`
	By       string            `json:"by"`
	Message  string            `json:"message,omitempty"`
	Record   string            `json:"record"`
	Hash     string            `json:"hash"` // of the record's bytes
	Encoded  []byte            `json:"encoded"`
	Snapshot snapshot.Snapshot `json:"snapshot"`
	Base     string            `json:"base,omitempty"` // the commit that the sender's work began at
	Dir      string            `json:"dir"`            // the sender's
	State    string            `json:"state"`
	// Verdict is of the receiver's last verification, "" before one.
	Verdict handoff.Verdict `json:"verdict,omitempty"`
	Report  *handoff.Report `json:"report,omitempty"`
	Decided *time.Time      `json:"decided,omitempty"`
	Because string          `json:"because,omitempty"`
	Merged  string          `json:"merged,omitempty"` // the commit it was merged as
}

// deliveries are all there are. The ledger holds them; memory is its index.
type deliveries struct {
	mu   sync.Mutex
	all  map[string]delivery
	busy map[string]bool // being sent, or decided on
}

// loadDeliveries reads them at the start.
func (s *Server) loadDeliveries(ctx context.Context) error {
	s.deliveries.mu.Lock()
	defer s.deliveries.mu.Unlock()
	s.deliveries.all, s.deliveries.busy = map[string]delivery{}, map[string]bool{}
	err := s.snaps.EntriesOf(ctx, ledgerOwn, func(kind, key string, data []byte) error {
		var d delivery
		if kind != kindDelivery || len(data) == 0 {
			return nil
		}
		if err := json.Unmarshal(data, &d); err != nil || d.ID != key {
			s.log.Error("a delivery can't be read", "id", key, "err", err)
			return nil
		}
		s.deliveries.all[d.ID] = d
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the deliveries: %w", err)
	}
	return nil
}

// putDelivery makes a delivery last.
func (s *Server) putDelivery(ctx context.Context, d delivery) error {
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode the delivery: %w", err)
	}
	if err := s.snaps.Put(ctx, ledgerOwn, kindDelivery, d.ID, data); err != nil {
		return fmt.Errorf("keep the delivery: %w", err)
	}
	s.deliveries.mu.Lock()
	defer s.deliveries.mu.Unlock()
	s.deliveries.all[d.ID] = d
	return nil
}

// deliveriesOf are those to or from a workspace that is there now, oldest first; "" is for all.
func (s *Server) deliveriesOf(name string) []delivery {
	s.deliveries.mu.Lock()
	defer s.deliveries.mu.Unlock()
	var out []delivery
	for _, d := range s.deliveries.all {
		if name == "" || d.To == name || d.From == name {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b delivery) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// waiting are the deliveries that a workspace has not decided on.
func (s *Server) waiting(d workspace.Definition) []delivery {
	return slices.DeleteFunc(s.deliveriesOf(d.Name), func(x delivery) bool {
		return x.To != d.Name || x.State != deliveryUnverified || x.At.Before(d.Created)
	})
}

// findDelivery is the one whose id begins so.
func (s *Server) findDelivery(id string) (delivery, error) {
	var found []delivery
	for _, d := range s.deliveriesOf("") {
		if id != "" && strings.HasPrefix(d.ID, strings.ToUpper(id)) {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return delivery{}, missing("`perdure inbox` lists them", "no delivery %s", quoteName(id))
	}
	return delivery{}, usage("write more of it", "%d deliveries begin with %s", len(found), quoteName(id))
}

// deliver sends a sound record in force with its snapshot. One that was delivered already is not sent again.
func (s *Server) deliver(ctx context.Context, from, to workspace.Definition, record, by, message string) (delivery, error) {
	r, chain, err := s.inForce(from.Name)
	if err == nil {
		err = s.sound(ctx, from.Name, chain)
	}
	if err != nil {
		return delivery{}, refused(fmt.Sprintf("see `perdure handoff verify %s`", from.Name), "the record of %s can't be trusted: %w", from.Name, err)
	}
	if r == nil {
		return delivery{}, missing(fmt.Sprintf("record one with `perdure handoff record %s`", from.Name), "%s has no record to deliver", from.Name)
	}
	if record != "" && !strings.HasPrefix(r.ID, strings.ToUpper(record)) {
		return delivery{}, refused("only the record in force is delivered", "record %s is not in force: %s is", quoteName(record), r.ID)
	}
	free, err := s.reserve(from.Name + " " + to.Name + " " + r.ID)
	if err != nil {
		return delivery{}, err
	}
	defer free() // two at the same time would both find that there is none yet
	for _, d := range s.deliveriesOf(to.Name) {
		if d.From == from.Name && d.Record == r.ID && !d.At.Before(to.Created) {
			return delivery{}, refused("`perdure inbox "+to.Name+"` shows it", "record %s was delivered to %s already: %s", r.ID, to.Name, d.ID)
		}
	}
	snap, ok, err := s.snapshotOfTree(from.Name, r.Measured.Tree)
	if err != nil {
		return delivery{}, err
	}
	if !ok {
		return delivery{}, refused("record again", "the snapshot of record %s is gone", r.ID)
	}
	encoded := chain[len(chain)-1]
	d := delivery{ID: newID(), At: time.Now().UTC(), From: from.Name, To: to.Name, By: by, Message: message, Record: r.ID, Hash: handoff.Hash(encoded), Encoded: encoded,
		Snapshot: snap, Base: from.Base, Dir: from.Dir, State: deliveryUnverified}
	if err := s.putDelivery(ctx, d); err != nil {
		return d, err
	}
	s.deliveryEvent("delivered", d, nil)
	return d, nil
}

// deliveryEvent tells both sides.
func (s *Server) deliveryEvent(kind string, d delivery, more map[string]any) {
	for _, name := range unique([]string{d.To, d.From}) {
		fields := map[string]any{"delivery": d.ID, "from": d.From, "to": d.To, "record": d.Record}
		for k, v := range more {
			fields[k] = v
		}
		s.event(name, kind, fields)
	}
}

// reserve keeps others from the same thing meanwhile; free gives it back.
func (s *Server) reserve(what string) (free func(), err error) {
	s.deliveries.mu.Lock()
	defer s.deliveries.mu.Unlock()
	if s.deliveries.busy[what] {
		return nil, refused("wait for it", "the same is being delivered")
	}
	s.deliveries.busy[what] = true
	return func() {
		s.deliveries.mu.Lock()
		defer s.deliveries.mu.Unlock()
		delete(s.deliveries.busy, what)
	}, nil
}

// claimDelivery reserves a delivery for one who decides on it; free gives it back.
func (s *Server) claimDelivery(id string) (d delivery, free func(), err error) {
	free, err = s.reserve(id)
	if err != nil {
		return d, nil, refused("wait for it", "delivery %s is being verified", id)
	}
	s.deliveries.mu.Lock()
	d = s.deliveries.all[id]
	s.deliveries.mu.Unlock()
	if d.State != deliveryUnverified {
		free()
		return d, nil, refused("", "delivery %s was %s already", id, d.State)
	}
	return d, free, nil
}

// deliveredTrees shows the verifier a delivered tree as the directory it came from was.
type deliveredTrees struct {
	*snapshot.Store
	state snapshot.State
	dir   string
}

func (t deliveredTrees) Read(context.Context, string, string) (snapshot.State, error) {
	return t.state, nil
}

func (t deliveredTrees) ChangedSince(ctx context.Context, _, repo, base, tree string) ([]string, bool, error) {
	return t.Store.ChangedSince(ctx, t.dir, repo, base, tree)
}

// verifyDelivery checks a delivered record in a scratch checkout of its own tree, prepared as the receiver's are: by the
// checks it was recorded with, and by the receiver's own, since a weaker one may have recorded it.
func (s *Server) verifyDelivery(ctx context.Context, d delivery, to workspace.Definition, dir string) handoff.Report {
	r, err := handoff.Decode(d.Encoded)
	req := handoff.VerifyRequest{Workspace: d.From, Dir: to.Dir, Base: d.Base, Snapshots: deliveredTrees{s.snaps, stateOf(d.Snapshot, r), d.Dir},
		Runner: s.checkRunner(to, dir), Untested: to.Untested, Flaky: to.Flaky, Now: time.Now}
	switch {
	case err != nil:
		req.DecodeErr = err
	case handoff.Hash(d.Encoded) != d.Hash || r.ID != d.Record:
		req.DecodeErr = fmt.Errorf("record %s isn't the one that was delivered: it was edited", r.ID)
	}
	req.Record = &r
	may, err := s.allowedCommands(ctx, to)
	if err != nil {
		req.DecodeErr = err
	}
	req.Refused, req.Needs, req.Env = s.refusedChecks(ctx, to, r.Measured.Checks), may.needs, to.CheckEnv
	for _, c := range r.Measured.Checks {
		req.Checks = append(req.Checks, specOf(to, c))
	}
	for _, own := range checkSpecs(to) {
		known := slices.ContainsFunc(r.Measured.Checks, func(c handoff.CheckRun) bool { return c.RanAs(own) })
		if !known && may.refused[own.Cmd] == "" && d.Snapshot.Repo == to.Repo {
			req.Checks = append(req.Checks, own)
		}
	}
	return handoff.Verify(ctx, req)
}

func stateOf(snap snapshot.Snapshot, r handoff.Record) snapshot.State {
	return snapshot.State{Repo: snap.Repo, Tree: snap.Tree, Head: snap.Head, Branch: snap.Branch, IsRepo: snap.Head != "", Files: snap.Files, Inner: r.Measured.Nested}
}

// specOf is a recorded check as the receiver runs it: by its own settings where it has the same command.
func specOf(to workspace.Definition, c handoff.CheckRun) handoff.CheckSpec {
	for _, own := range checkSpecs(to) {
		if c.RanAs(own) {
			own.Label = c.Label
			return own
		}
	}
	return c.Spec(handoff.CheckSpec{Results: to.Results, Timeout: to.CheckTimeout, Env: to.CheckEnv})
}

// refusedChecks are the commands of checks that no person allowed for a workspace: a delivered command is a stranger's.
func (s *Server) refusedChecks(ctx context.Context, to workspace.Definition, checks []handoff.CheckRun) map[string]string {
	known, err := s.consents(ctx, to)
	out := map[string]string{}
	for _, c := range checks {
		if err != nil || !known[commandHash(c.Cmd)].Allowed {
			out[c.Cmd] = fmt.Sprintf("a person allows it with `perdure consent %s --allow %s`", to.Name, commandHash(c.Cmd)[:shownHash])
		}
	}
	return out
}
