package server

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"perdure/handoff"
	"perdure/snapshot"
	"perdure/workspace"
)

// maxOriginSnapshots bounds how many snapshots an edit is dated by.
const maxOriginSnapshots = 40

// spell is one session's time in a directory.
type spell struct {
	workspace   string
	from, until time.Time
	repair      bool
}

// originsFor says who changed what, and when: the snapshots of every workspace of the directory bound when a path
// came to be as it is, and the sessions that lived then are those who may have done it. ctime, where there is a
// file, tells the moment.
func (s *Server) originsFor(d workspace.Definition, record *handoff.Record) func(context.Context, []snapshot.Change) map[string]handoff.Origin {
	if record == nil {
		return nil
	}
	return func(ctx context.Context, changes []snapshot.Change) map[string]handoff.Origin {
		spells := s.spells(d.Dir)
		dated := s.dateChanges(ctx, d, record.Measured.At, changes)
		out := map[string]handoff.Origin{}
		for _, c := range changes {
			w := dated[c.Path]
			if w.from.IsZero() {
				w.from = record.Measured.At
			}
			if w.until.IsZero() {
				w.until = time.Now()
			}
			if at, ok := changeTime(filepath.Join(d.Dir, c.Path)); ok && !at.Before(w.from.Add(-time.Second)) && !at.After(w.until) {
				w.from, w.until = at, at
			}
			out[c.Path] = originOf(d.Name, w, spells)
		}
		return out
	}
}

// window is between which times something changed.
type window struct{ from, until time.Time }

// dateChanges bounds each change by the snapshots that have the path as it is now, and those that don't yet.
func (s *Server) dateChanges(ctx context.Context, d workspace.Definition, since time.Time, changes []snapshot.Change) map[string]window {
	now, err := s.snaps.Read(ctx, d.Name, d.Dir)
	if err != nil {
		return nil
	}
	out := map[string]window{}
	for _, snap := range s.snapshotsOf(d.Dir, now.Repo, since) { // newest first
		differing, err := s.snaps.Diff(ctx, snap.Repo, snap.Tree, now.Tree)
		if err != nil {
			continue
		}
		old := map[string]bool{}
		for _, c := range differing {
			old[c.Path] = true
		}
		for _, c := range changes {
			w := out[c.Path]
			switch {
			case !w.from.IsZero(): // dated
			case old[c.Path]:
				w.from = snap.At
			default:
				w.until = snap.At
			}
			out[c.Path] = w
		}
	}
	return out
}

// snapshotsOf are those of all workspaces of a directory since a time, newest first.
func (s *Server) snapshotsOf(dir, repo string, since time.Time) []snapshot.Snapshot {
	var all []snapshot.Snapshot
	for _, name := range s.namesIn(dir) {
		list, err := s.store.Snapshots(name)
		if err != nil {
			continue // a guess about who did it isn't worth failing for
		}
		for _, snap := range list {
			if snap.Repo == repo && !snap.At.Before(since) {
				all = append(all, snap)
			}
		}
	}
	slices.SortFunc(all, func(a, b snapshot.Snapshot) int { return b.At.Compare(a.At) })
	return all[:min(len(all), maxOriginSnapshots)]
}

func (s *Server) namesIn(dir string) []string {
	all, err := s.store.Workspaces()
	if err != nil {
		return nil
	}
	var names []string
	for _, o := range all {
		if o.Dir == dir {
			names = append(names, o.Name)
		}
	}
	return names
}

// spells are the times of all sessions that worked in a directory and whose folders are still kept.
func (s *Server) spells(dir string) []spell {
	var out []spell
	for _, name := range s.namesIn(dir) {
		folders, err := filepath.Glob(filepath.Join(s.workspaceDir(name), "sessions", "*"))
		if err != nil {
			continue
		}
		for _, folder := range folders {
			sess, err := workspace.Load(folder)
			if err != nil {
				continue
			}
			p := spell{workspace: name, from: sess.Started, until: time.Now(), repair: sess.Repair}
			if sess.Ended != nil {
				p.until = *sess.Ended
			} else if sess.State == workspace.Lost {
				if at, err := lastOutput(sess); err == nil {
					p.until = at
				}
			}
			out = append(out, p)
		}
	}
	return out
}

func originOf(own string, w window, spells []spell) handoff.Origin {
	var who []string
	repair := false
	for _, p := range spells {
		if p.from.After(w.until) || p.until.Before(w.from) {
			continue
		}
		repair = repair || p.repair && p.workspace == own
		who = append(who, p.workspace)
	}
	slices.Sort(who)
	who = slices.Compact(who)
	when := "at " + w.from.Local().Format("15:04:05")
	if !w.from.Equal(w.until) {
		when = fmt.Sprintf("between %s and %s", w.from.Local().Format("15:04:05"), w.until.Local().Format("15:04:05"))
	}
	switch {
	case len(who) == 0:
		return handoff.Origin{Text: when + " by someone else: no session ran"}
	case len(who) == 1 && who[0] != own:
		return handoff.Origin{Workspace: who[0], Text: "by workspace " + who[0] + " " + when}
	case len(who) > 1:
		return handoff.Origin{Text: "by one of " + strings.Join(who, ", ") + " " + when}
	case repair:
		return handoff.Origin{Text: "in the repair session " + when}
	}
	return handoff.Origin{Text: "by this workspace's own session " + when + ", after the record"}
}

// changeTime is when a file's content, name or mode last changed, which no program can set back.
func changeTime(path string) (time.Time, bool) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return time.Time{}, false
	}
	return time.Unix(st.Ctim.Unix()), true
}
