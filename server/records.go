package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2"

	"perdure/handoff"
	"perdure/server/store"
	"perdure/snapshot"
	"perdure/workspace"
)

// storeNotFound and storeEvent keep the store's words out of files that need only one of them.
var storeNotFound = store.ErrNotFound

type storeEvent = store.Event

// The ledger's kinds. Each entry is an fsynced git object before the store knows of it, and the store can be
// rebuilt from them.
const (
	kindDefinition  = "definition"
	kindRecord      = "record"
	kindObservation = "observation"
	kindHalt        = "halt"
	kindOverride    = "override"
	kindSeal        = "seal"    // of the newest record
	kindConsent     = "consent" // by the hash of the command
)

// chain is the encoded records of a workspace, oldest first, from the last one that started a chain. A workspace
// that was removed and made anew starts without one.
func (s *Server) chain(name string) ([][]byte, error) {
	all, err := s.store.Records(name)
	if err != nil {
		return nil, fmt.Errorf("read the records of %s: %w", name, err)
	}
	d, err := s.store.Workspace(name)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(e []byte) bool {
		r, err := handoff.Decode(e)
		return err == nil && r.Measured.At.Before(d.Created)
	})
	for i := len(all) - 1; i >= 0; i-- {
		if r, err := handoff.Decode(all[i]); err == nil && r.Seq == 1 {
			return all[i:], nil
		}
	}
	return all, nil
}

// inForce is the newest record with a claim, or nil where there is none; the encoded chain comes with it.
func (s *Server) inForce(name string) (*handoff.Record, [][]byte, error) {
	chain, err := s.chain(name)
	if err != nil || len(chain) == 0 {
		return nil, chain, err
	}
	r, err := handoff.Decode(chain[len(chain)-1])
	if err != nil {
		return nil, chain, fmt.Errorf("the newest record of %s can't be read: %w", name, err)
	}
	return &r, chain, nil
}

// append chains a record to those before it and makes it last: ledger first, then the store.
func (s *Server) appendRecord(ctx context.Context, name string, r handoff.Record) (handoff.Record, error) {
	chain, err := s.chain(name)
	if err != nil {
		return r, err
	}
	s.follow(ctx, name, chain, &r)
	encoded, err := r.Encode()
	if err != nil {
		return r, fmt.Errorf("encode the record: %w", err)
	}
	if err := s.snaps.Put(ctx, name, kindRecord, r.ID, encoded); err != nil {
		return r, fmt.Errorf("keep the record: %w", err)
	}
	if err := s.putSeal(ctx, name, handoff.SealOf(r, encoded)); err != nil {
		return r, err
	}
	if err := s.store.PutRecord(name, r.ID, r.Seq, encoded); err != nil {
		return r, fmt.Errorf("index the record: %w", err)
	}
	return r, nil
}

// follow gives a record its place after a sound chain; after a broken one it starts a new chain, which names the end
// of the other.
func (s *Server) follow(ctx context.Context, name string, chain [][]byte, r *handoff.Record) {
	r.Seq, r.Prev = 1, ""
	seal, _ := s.seal(ctx, name) // one that can't be read makes the chain unsound
	broken := s.sound(ctx, name, chain)
	n := len(chain)
	switch {
	case broken != nil && seal.Hash != "":
		r.Broken = seal.Hash
	case broken != nil && n > 0:
		r.Broken = handoff.Hash(chain[n-1])
	case n > 0:
		if last, err := handoff.Decode(chain[n-1]); err == nil {
			r.Seq, r.Prev = last.Seq+1, handoff.Hash(chain[n-1])
		}
	}
}

// putSeal makes the seal of a workspace's newest record last; an empty one begins a chain.
func (s *Server) putSeal(ctx context.Context, name string, seal handoff.Seal) error {
	data, err := json.Marshal(seal)
	if err != nil {
		return fmt.Errorf("encode the seal: %w", err)
	}
	if err := s.snaps.Put(ctx, name, kindSeal, "current", data); err != nil {
		return fmt.Errorf("seal the record: %w", err)
	}
	return nil
}

// seal is the ledger's, not the store's: the two then vouch for each other.
func (s *Server) seal(ctx context.Context, name string) (seal handoff.Seal, err error) {
	data, err := s.snaps.Get(ctx, name, kindSeal, "current")
	if err != nil || len(data) == 0 {
		return seal, err
	}
	if err := json.Unmarshal(data, &seal); err != nil {
		return seal, fmt.Errorf("the seal of the newest record can't be read: %w", err)
	}
	return seal, nil
}

// observation is what perdure notes by itself at a break: facts, never a claim, never verified in a record's place.
type observation struct {
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	Author   string    `json:"author"` // always perdure
	Reason   string    `json:"reason"`
	Head     string    `json:"head"`
	Branch   string    `json:"branch"`
	Tree     string    `json:"tree"`
	Snapshot string    `json:"snapshot"`
	Record   string    `json:"record,omitempty"`
	Changed  []string  `json:"changed,omitempty"` // paths that differ from the record in force
}

// observe notes the state at a break. It says what failed in the log: a break can't be refused.
func (s *Server) observe(ctx context.Context, name, reason string) {
	last, err := s.latest(name)
	if err != nil || last == nil {
		return
	}
	o := observation{ID: newID(), At: time.Now().UTC(), Author: "perdure", Reason: reason, Head: last.Head, Branch: last.Branch, Tree: last.Tree, Snapshot: last.ID}
	if r, _, err := s.inForce(name); err == nil && r != nil {
		o.Record = r.ID
		if changes, err := s.snaps.Diff(ctx, last.Repo, r.Measured.Tree, last.Tree); err == nil {
			for _, c := range changes {
				o.Changed = append(o.Changed, c.Path)
			}
		}
	}
	data, err := json.Marshal(o)
	if err != nil {
		s.log.Error("observation", "workspace", name, "err", err)
		return
	}
	if err := s.snaps.Put(ctx, name, kindObservation, o.ID, data); err != nil {
		s.log.Error("observation", "workspace", name, "err", err)
		return
	}
	if err := s.store.PutObservation(name, o.ID, data); err != nil {
		s.log.Error("observation", "workspace", name, "err", err)
	}
}

// saveDefinition makes a definition last.
func (s *Server) saveDefinition(ctx context.Context, d workspace.Definition) error {
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode the workspace: %w", err)
	}
	if err := s.snaps.Put(ctx, d.Name, kindDefinition, "current", data); err != nil {
		return fmt.Errorf("keep the workspace: %w", err)
	}
	return s.store.PutWorkspace(d)
}

// restoreEntry brings an entry of the ledger into the store, and tells whether that changed it.
func (s *Server) restoreEntry(ws, kind, key string, data []byte) (changed bool, err error) {
	switch kind {
	case kindDefinition:
		return s.restoreDefinition(ws, data)
	case kindRecord:
		r, err := handoff.Decode(data)
		if err != nil {
			s.log.Error("a record in the ledger can't be read", "workspace", ws, "id", key, "err", err)
		}
		return true, s.store.PutRecord(ws, key, r.Seq, data)
	case kindObservation:
		return true, s.store.PutObservation(ws, key, data)
	case kindVerdict:
		return true, s.store.PutVerdict(ws, key, data)
	case kindOverride:
		return true, s.store.PutOverride(ws, key, data)
	case kindHalt:
		return s.restoreHalt(ws, data)
	}
	return false, nil
}

func (s *Server) restoreDefinition(ws string, data []byte) (bool, error) {
	old, err := s.store.Workspace(ws)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	if len(data) == 0 { // removed
		if err != nil {
			return false, nil
		}
		return true, s.store.DeleteWorkspace(ws)
	}
	var d workspace.Definition
	if err := json.Unmarshal(data, &d); err != nil {
		return false, fmt.Errorf("definition of %s: %w", ws, err)
	}
	if err == nil && sameJSON(old, data) {
		return false, nil
	}
	return true, s.store.PutWorkspace(d)
}

func (s *Server) restoreHalt(ws string, data []byte) (bool, error) {
	old, err := s.store.Halt(ws)
	if err != nil {
		return false, err
	}
	if len(data) == 0 { // released
		if old == nil {
			return false, nil
		}
		return true, s.store.DeleteHalt(ws)
	}
	var h store.Halt
	if err := json.Unmarshal(data, &h); err != nil {
		return false, fmt.Errorf("halt of %s: %w", ws, err)
	}
	if old != nil && sameJSON(old, data) {
		return false, nil
	}
	return true, s.store.PutHalt(h)
}

// writeBrief renders what a fresh session is told into the workspace's folder and returns its text.
func (s *Server) writeBrief(ctx context.Context, d workspace.Definition) (string, error) {
	text, err := s.brief(ctx, d)
	if err != nil {
		return "", err
	}
	dir := s.workspaceDir(d.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("write the brief: %w", err)
	}
	if err := renameio.WriteFile(filepath.Join(dir, "brief.md"), []byte(text), 0o400, renameio.WithTempDir(dir)); err != nil {
		return "", fmt.Errorf("write the brief: %w", err)
	}
	return text, nil
}

func (s *Server) brief(_ context.Context, d workspace.Definition) (string, error) {
	r, _, err := s.inForce(d.Name)
	if err != nil {
		r = nil // the report says that the record is broken; the brief still tells what is known
	}
	record := ""
	if r != nil {
		record = r.ID
	}
	last, err := s.lastReport(d.Name, record)
	if err != nil {
		return "", err
	}
	overrides, err := s.overrides(d.Name)
	if err != nil {
		return "", err
	}
	var overridden []string
	for _, o := range overrides {
		if !o.At.Before(d.Created) {
			overridden = append(overridden, o.line())
		}
	}
	return handoff.Brief(handoff.BriefRequest{Name: d.Name, Dir: d.Dir, Goal: d.Goal, Owns: d.Owns, Questions: d.Questions, Record: r, Report: last, Checks: checkSpecs(d), Deliveries: s.deliveryLines(d), Overrides: overridden}), nil
}

func checkSpecs(d workspace.Definition) []handoff.CheckSpec {
	out := make([]handoff.CheckSpec, 0, len(d.Checks))
	for _, c := range d.Checks {
		spec := handoff.CheckSpec{Label: c.Label, Cmd: c.Cmd, Dir: c.Dir, Results: d.Results, Timeout: d.CheckTimeout, Quick: c.Quick, Env: d.CheckEnv}
		if c.Results != "" {
			spec.Results = c.Results
		}
		if c.Timeout > 0 {
			spec.Timeout = c.Timeout
		}
		out = append(out, spec)
	}
	return out
}

// measurement is what a run of the checks found, with the snapshot of the tree it ran on.
type measurement struct {
	measured handoff.Measured
	snap     snapshot.Snapshot
}

// errTreeMoved refuses a measurement whose tree changed under the checks.
var errTreeMoved = errors.New("the tree changed while the checks ran")
