package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"perdure/snapshot"
	"perdure/workspace"
)

// defaultInterval is how often a changed tree is snapshotted while a session is live.
const defaultInterval = 30 * time.Second

// capture snapshots a workspace's tree, whether it changed or not: objects and ref first, then the store.
func (s *Server) capture(ctx context.Context, name, reason, message string) (snapshot.Snapshot, error) {
	return s.captureWith(ctx, name, reason, message, nil)
}

// captureWith is capture that also keeps the ignored files that more names.
func (s *Server) captureWith(ctx context.Context, name, reason, message string, more []string) (snapshot.Snapshot, error) {
	d, err := s.store.Workspace(name)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	if err := s.roomFor("snapshot"); err != nil {
		return snapshot.Snapshot{}, s.captured(name, reason, snapshot.Snapshot{}, err)
	}
	req := s.captureRequest(ctx, d, reason, message)
	req.Include = append(slices.Clone(req.Include), more...)
	snap, err := s.snaps.Capture(ctx, req)
	return snap, s.captured(name, reason, snap, err)
}

// captureIfChanged snapshots only what differs from the newest snapshot.
func (s *Server) captureIfChanged(ctx context.Context, name, reason string) (snapshot.Snapshot, bool, error) {
	d, err := s.store.Workspace(name)
	if errors.Is(err, storeNotFound) {
		return snapshot.Snapshot{}, false, nil // removed meanwhile
	}
	if err != nil {
		return snapshot.Snapshot{}, false, err
	}
	last, err := s.latest(name)
	if err != nil {
		return snapshot.Snapshot{}, false, err
	}
	if !isDir(d.Dir) {
		return snapshot.Snapshot{}, false, s.captured(name, reason, snapshot.Snapshot{}, fmt.Errorf("the directory %s is gone", d.Dir))
	}
	if err := s.roomFor("snapshot"); err != nil {
		return snapshot.Snapshot{}, false, s.captured(name, reason, snapshot.Snapshot{}, err)
	}
	snap, changed, err := s.snaps.CaptureChanged(ctx, s.captureRequest(ctx, d, reason, ""), last)
	if err == nil && !changed {
		s.space(name).setFailed(nil)
		return snap, false, nil
	}
	err = s.captured(name, reason, snap, err)
	return snap, err == nil, err
}

// captureRequest says what a snapshot is to hold: the record in force and the journal's place too.
func (s *Server) captureRequest(ctx context.Context, d workspace.Definition, reason, message string) snapshot.CaptureRequest {
	req := snapshot.CaptureRequest{Workspace: d.Name, Dir: d.Dir, Reason: reason, Message: message, At: time.Now().UTC(), Include: d.Include}
	record, _, err := s.inForce(d.Name)
	if err != nil {
		s.log.Warn("snapshot without a record", "workspace", d.Name, "err", err)
	}
	if record != nil {
		req.Handoff, req.RecordTree = record.ID, record.Measured.Tree
	}
	sess := s.space(d.Name).newest()
	switch {
	case sess == nil:
	case sess.State == workspace.Live:
		ask, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if st, err := sess.Status(ask); err == nil {
			req.Session, req.Offset = sess.ID, st.End
		}
	case sess.Exit != nil:
		req.Session, req.Offset = sess.ID, sess.Exit.Offset
	}
	return req
}

// captured indexes a snapshot, or says once that none could be taken.
func (s *Server) captured(name, reason string, snap snapshot.Snapshot, err error) error {
	if err == nil {
		if err = s.store.PutSnapshot(snap); err != nil {
			err = fmt.Errorf("index the snapshot: %w", err)
		}
	} else {
		err = fmt.Errorf("snapshot %s: %w", name, err)
	}
	if err != nil {
		// The same failure at each interval is one event, not one each.
		if s.space(name).setFailed(err) {
			s.event(name, "snapshot_failed", map[string]any{"reason": reason, "error": err.Error()})
		}
		return err
	}
	s.space(name).setFailed(nil)
	s.event(name, "snapshot", map[string]any{"id": snap.ID, "reason": reason, "files": snap.Files, "partial": snap.Partial})
	return nil
}

// failure is a snapshot that could not be taken.
type failure struct {
	Since time.Time `json:"since"`
	Error string    `json:"error"`
}

// setFailed keeps since when no snapshot could be taken, nil once one was. It tells whether that is news.
func (sp *space) setFailed(err error) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if err == nil {
		sp.failed = nil
		return false
	}
	news := sp.failed == nil || sp.failed.Error != err.Error()
	since := time.Now().UTC()
	if sp.failed != nil {
		since = sp.failed.Since
	}
	sp.failed = &failure{since, err.Error()}
	return news
}

func (sp *space) snapshotFailure() *failure {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.failed
}

// recallFailure finds in the events whether an earlier server could take no snapshot.
func (s *Server) recallFailure(sp *space) {
	events, err := s.store.Events(sp.name, 0, 0)
	if err != nil {
		return
	}
	var failed *failure
	for _, e := range events {
		switch e.Kind {
		case "snapshot", "created":
			failed = nil
		case "snapshot_failed":
			text, _ := e.Fields["error"].(string)
			if failed == nil {
				failed = &failure{Since: e.At}
			}
			failed.Error = text
		}
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.failed = failed
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
