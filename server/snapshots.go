package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"perdure/snapshot"
	"perdure/workspace"
)

// defaultInterval is how often a changed tree is snapshotted while a session is live.
const defaultInterval = 30 * time.Second

// capture snapshots a workspace's tree, whether it changed or not: objects and ref first, then the store.
func (s *Server) capture(ctx context.Context, name, reason, message string) (snapshot.Snapshot, error) {
	d, err := s.store.Workspace(name)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	record, _, err := s.inForce(name)
	if err != nil {
		s.log.Warn("snapshot without a record", "workspace", name, "err", err)
	}
	req := snapshot.CaptureRequest{Workspace: name, Dir: d.Dir, Reason: reason, Message: message, At: time.Now().UTC()}
	if record != nil {
		req.Handoff = record.ID
		req.Behind = s.behind(ctx, d, record.Measured.Tree)
	}
	snap, err := s.snaps.Capture(ctx, req)
	if err != nil {
		s.event(name, "snapshot_failed", map[string]any{"reason": reason, "error": err.Error()})
		return snap, fmt.Errorf("snapshot %s: %w", name, err)
	}
	if err := s.store.PutSnapshot(snap); err != nil {
		return snap, fmt.Errorf("index the snapshot: %w", err)
	}
	s.event(name, "snapshot", map[string]any{"id": snap.ID, "reason": reason, "files": snap.Files, "partial": snap.Partial})
	return snap, nil
}

// captureIfChanged snapshots only a tree, branch or commit that differs from the newest snapshot's.
func (s *Server) captureIfChanged(ctx context.Context, name, reason string) (snapshot.Snapshot, bool, error) {
	d, err := s.store.Workspace(name)
	if errors.Is(err, storeNotFound) {
		return snapshot.Snapshot{}, false, nil // removed meanwhile
	}
	if err != nil {
		return snapshot.Snapshot{}, false, err
	}
	if !isDir(d.Dir) {
		return snapshot.Snapshot{}, false, fmt.Errorf("the directory %s is gone", d.Dir)
	}
	last, err := s.latest(name)
	if err != nil {
		return snapshot.Snapshot{}, false, err
	}
	if last != nil {
		now, err := s.snaps.Read(ctx, name, d.Dir)
		if err != nil {
			return snapshot.Snapshot{}, false, fmt.Errorf("read the tree of %s: %w", name, err)
		}
		if now.Tree == last.Tree && now.Head == last.Head && now.Branch == last.Branch {
			return *last, false, nil
		}
	}
	snap, err := s.capture(ctx, name, reason, "")
	return snap, err == nil, err
}

// latest is the newest snapshot, or nil.
func (s *Server) latest(name string) (*snapshot.Snapshot, error) {
	list, err := s.store.Snapshots(name)
	if err != nil {
		return nil, fmt.Errorf("list the snapshots: %w", err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return &list[0], nil
}

// behind counts the files by which the tree has moved on from a record's.
func (s *Server) behind(ctx context.Context, d workspace.Definition, tree string) int {
	if tree == "" || !isDir(d.Dir) {
		return 0
	}
	now, err := s.snaps.Read(ctx, d.Name, d.Dir)
	if err != nil || now.Tree == tree {
		return 0
	}
	changes, err := s.snaps.Diff(ctx, now.Repo, tree, now.Tree)
	if err != nil {
		return 0
	}
	return len(changes)
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// watchIntervals snapshots the workspaces whose live session printed since the last look.
func (s *Server) watchIntervals(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, sp := range s.allSpaces() {
			if ctx.Err() != nil {
				return
			}
			s.intervalSnapshot(ctx, sp)
		}
	}
}

func (s *Server) intervalSnapshot(ctx context.Context, sp *space) {
	sess := sp.live()
	if sess == nil {
		return
	}
	sp.mu.Lock()
	taken := sp.taken
	sp.mu.Unlock()
	d, err := s.store.Workspace(sp.name)
	if err != nil {
		return
	}
	every := d.Interval
	if every <= 0 {
		every = defaultInterval
	}
	if time.Since(taken) < every {
		return
	}
	ask, cancel := context.WithTimeout(ctx, time.Second)
	status, err := sess.Status(ask)
	cancel()
	sp.mu.Lock()
	quiet := err != nil || !status.LastOutput.After(sp.last)
	sp.taken = time.Now()
	if !quiet {
		sp.last = status.LastOutput
	}
	sp.mu.Unlock()
	if quiet || taken.IsZero() {
		return
	}
	if _, _, err := s.captureIfChanged(ctx, sp.name, "interval"); err != nil {
		s.log.Warn("interval snapshot", "workspace", sp.name, "err", err)
	}
}
