package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"perdure/handoff"
	"perdure/snapshot"
	"perdure/workspace"
)

// keepingEvery is how often the keeping policy is applied without being asked.
const keepingEvery = 10 * time.Minute

// journalsFor is how long the journal of an ended session is kept; the newest session's stays.
const journalsFor = 30 * 24 * time.Hour

// keeping is what the policy gives up now.
type keeping struct {
	drop     []snapshot.Snapshot
	kept     int
	journals []oldJournal
}

type oldJournal struct {
	Workspace string    `json:"workspace"`
	Session   string    `json:"session"`
	Ended     time.Time `json:"ended"`
	Bytes     int64     `json:"bytes"`
	dir       string
}

// plan finds what the policy gives up, of removed workspaces too.
func (s *Server) planKeeping(ctx context.Context, now time.Time) (keeping, error) {
	var k keeping
	repos, _, err := s.snaps.Usage(ctx)
	if err != nil {
		return k, err
	}
	var names []string
	for _, u := range repos {
		for name := range u.Workspaces {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		list, err := s.snaps.List(ctx, name)
		if err != nil {
			return k, err
		}
		named, err := s.namedSnapshots(name)
		if err != nil {
			return k, err
		}
		drop := s.conf().policy().Drop(list, named, now)
		k.drop = append(k.drop, drop...)
		k.kept += len(list) - len(drop)
	}
	all, err := s.store.Workspaces()
	if err != nil {
		return k, err
	}
	for _, d := range all {
		k.journals = append(k.journals, s.oldJournals(d.Name, now)...)
	}
	return k, nil
}

// namedSnapshots are those that a handoff refers to: they are kept for ever. A record that can't be read stops the
// pruning: it may name any.
func (s *Server) namedSnapshots(name string) (map[string]bool, error) {
	records, err := s.store.Records(name)
	if err != nil {
		return nil, fmt.Errorf("read the records of %s: %w", name, err)
	}
	named := map[string]bool{}
	for _, encoded := range records {
		r, err := handoff.Decode(encoded)
		if err != nil {
			return nil, fmt.Errorf("a record of %s can't be read, and may name any snapshot: %w", name, err)
		}
		named[r.Measured.Snapshot] = true
	}
	return named, nil
}

func (s *Server) oldJournals(name string, now time.Time) []oldJournal {
	root := filepath.Join(s.workspaceDir(name), "sessions")
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil
	}
	var out []oldJournal
	for i, e := range entries {
		dir := filepath.Join(root, e.Name())
		if i == len(entries)-1 || !isDir(filepath.Join(dir, "journal")) {
			continue // the newest session's; names sort by time
		}
		sess, err := workspace.Load(dir)
		if err != nil || sess.State == workspace.Live {
			continue
		}
		ended := sess.Started
		if sess.Ended != nil {
			ended = *sess.Ended
		}
		if now.Sub(ended) > time.Duration(s.conf().Keep.Journals) {
			out = append(out, oldJournal{name, sess.ID, ended, folderSize(filepath.Join(dir, "journal")), filepath.Join(dir, "journal")})
		}
	}
	return out
}

// folderSize is the sum of the sizes of the files in a folder, in bytes; what can't be read counts as nothing.
func folderSize(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

// pruning lets one pruning run at a time: two would only wait for each other.
var pruning sync.Mutex

// applyKeeping carries a plan out: the index first, so that it never lists what is gone.
func (s *Server) applyKeeping(ctx context.Context, k keeping, progress func(done, total int)) (snapshot.PruneReport, error) {
	pruning.Lock()
	defer pruning.Unlock()
	byWorkspace := map[string][]string{}
	for _, snap := range k.drop {
		byWorkspace[snap.Workspace] = append(byWorkspace[snap.Workspace], snap.ID)
	}
	for name, ids := range byWorkspace {
		if err := s.store.DeleteSnapshots(name, ids); err != nil {
			return snapshot.PruneReport{}, err
		}
	}
	report, err := s.snaps.Prune(ctx, k.drop, progress)
	if err != nil {
		return report, err
	}
	for _, j := range k.journals {
		if err := os.RemoveAll(j.dir); err != nil {
			return report, fmt.Errorf("remove an old journal: %w", err)
		}
		report.Freed += j.Bytes
	}
	return report, nil
}

// keep applies the policy from time to time.
func (s *Server) keep(ctx context.Context) {
	tick := time.NewTicker(keepingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		k, err := s.planKeeping(ctx, time.Now())
		if err == nil {
			_, err = s.applyKeeping(ctx, k, nil)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Error("keep", "err", err)
		}
	}
}
