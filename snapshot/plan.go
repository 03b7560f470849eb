package snapshot

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
)

// What a step of a plan does to a path.
const (
	StepAdd     = "add"     // it isn't there
	StepReplace = "replace" // it has other content, or is of another kind
	StepMode    = "mode"    // only its mode differs
	StepDelete  = "delete"  // the snapshot doesn't have it, and an earlier one recorded it
	StepKeep    = "keep"    // the snapshot doesn't have it, nor does any: it stays
)

// Step is one path of a plan.
type Step struct {
	Path   string `json:"path"`
	Action string `json:"action"`
	// Newer: it was written after the snapshot, so that a restore takes
	// something away.
	Newer bool `json:"newer,omitempty"`
	// Unkept: what is there belongs to no tree (it is ignored, say), so that
	// the snapshot of the present has to be told to keep it.
	Unkept bool `json:"unkept,omitempty"`

	was fileStat // zero where there was nothing
}

// Plan is what a restore in place would do.
type Plan struct {
	Snapshot Snapshot
	Dir      string
	Steps    []Step // sorted by path

	parts []*part
	only  []string
}

// Conflicts are the steps that would take away what is newer than the
// snapshot, or what no snapshot holds.
func (p *Plan) Conflicts() []Step {
	var out []Step
	for _, s := range p.Steps {
		if s.Action != StepKeep && (s.Newer || s.Unkept) {
			out = append(out, s)
		}
	}
	return out
}

// Changes counts the steps that do something.
func (p *Plan) Changes() int {
	n := 0
	for _, s := range p.Steps {
		if s.Action != StepKeep {
			n++
		}
	}
	return n
}

// Unkept are globs that make a snapshot keep what it otherwise would not.
func (p *Plan) Unkept() []string {
	var out []string
	for _, s := range p.Steps {
		if s.Unkept {
			out = append(out, escapeGlob(s.Path))
		}
	}
	return out
}

func escapeGlob(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if strings.IndexByte(`*?[]{}\`, name[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

// PlanRequest says where a snapshot is to be brought back.
type PlanRequest struct {
	Dir     string
	Only    []string // files and folders, relative to Dir; empty for all
	Include []string // globs of ignored files that are snapshotted too
	// Earlier are the workspace's snapshots: only what one of them recorded is
	// ever deleted.
	Earlier []Snapshot
}

// PlanRestore says what bringing the snapshot back into its workspace's
// directory would do. Nothing is written.
func (s *Store) PlanRestore(ctx context.Context, snap Snapshot, r PlanRequest) (*Plan, error) {
	only := r.Only
	parts, err := s.parts(ctx, snap)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if err := selectedOrGone(parts, only, snap); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	place, m, done, err := s.open(ctx, snap.Workspace, r.Dir)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	defer done()
	m.include = r.Include
	// Only ids are compared: what is new is not kept, as nothing would refer to it.
	t, err := m.measure(ctx, place)
	if err == nil {
		err = s.cut(ctx, place.id(), m.shallow)
	}
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	root, err := os.OpenRoot(place.dir)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	defer root.Close()
	p := &planner{plan: &Plan{Snapshot: snap, Dir: place.dir, parts: parts, only: only}, root: root,
		present: map[string]*entry{}, empty: map[string]uint32{}, wanted: map[string]bool{}, size: m.size}
	p.gather(t, "", parts)
	for _, part := range parts {
		for _, f := range part.files {
			if err := p.want(part, f); err != nil {
				return nil, fmt.Errorf("restore: %q: %w", f.path, err)
			}
		}
		p.wantEmpty(part)
		p.wantFolders(part)
	}
	if err := s.planDeletions(ctx, p, r.Earlier); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	sort.Slice(p.plan.Steps, func(a, b int) bool { return p.plan.Steps[a].Path < p.plan.Steps[b].Path })
	return p.plan, nil
}
