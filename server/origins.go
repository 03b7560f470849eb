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
			out[c.Path] = originOf(d.Name, s.pin(d, dated[c.Path], record.Measured.At, c.Path), spells)
		}
		return out
	}
}

// visit is one command that a person ran in a workspace's directory: an exec or a file transfer.
type visit struct {
	by          string
	from, until time.Time // until is zero while it runs
}

// maxVisits bounds how many of a workspace's newest visits are remembered. They are in memory alone: what a restart
// forgets is unknown afterwards, and never laid at anybody's door.
const maxVisits = 100

// clockTick is by how much a file's time may lag behind the clock: the kernel takes it from its last tick.
const clockTick = 10 * time.Millisecond

// visit notes that a person's command begins; the function notes that it ended.
func (sp *space) visit(by string) (end func()) {
	v := &visit{by: by, from: time.Now()}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.visits = append(sp.visits[max(0, len(sp.visits)-maxVisits+1):], v)
	return func() {
		sp.mu.Lock()
		defer sp.mu.Unlock()
		v.until = time.Now()
	}
}

// visitsIn are the visits to a directory, by whichever workspace's name.
func (s *Server) visitsIn(dir string) []visit {
	var out []visit
	for _, name := range s.namesIn(dir) {
		sp := s.space(name)
		sp.mu.Lock()
		for _, v := range sp.visits {
			out = append(out, *v)
		}
		sp.mu.Unlock()
	}
	return out
}

// othersEdits says who made changes that a workspace's own agent did not make, and when, by path: another workspace
// whose session worked then, a person whose command ran then, or nobody that is known.
func (s *Server) othersEdits(ctx context.Context, d workspace.Definition, since time.Time, changes []snapshot.Change) map[string]string {
	spells := slices.DeleteFunc(s.spells(d.Dir), func(p spell) bool { return p.workspace == d.Name })
	visits := s.visitsIn(d.Dir)
	dated := s.dateChanges(ctx, d, since, changes)
	out := map[string]string{}
	for _, c := range changes {
		w := s.pin(d, dated[c.Path], since, c.Path)
		var who []string
		for _, p := range spells {
			if !p.from.After(w.until.Add(clockTick)) && !p.until.Before(w.from) {
				who = append(who, "workspace "+p.workspace)
			}
		}
		for _, v := range visits {
			if !v.from.After(w.until.Add(clockTick)) && (v.until.IsZero() || !v.until.Before(w.from)) {
				who = append(who, "a person ("+handoff.Escape(v.by)+")")
			}
		}
		slices.Sort(who)
		switch who = slices.Compact(who); len(who) {
		case 0:
			out[c.Path] = "by someone unknown " + w.text() + ": no other session and no command of a person's ran"
		case 1:
			out[c.Path] = "by " + who[0] + " " + w.text()
		default:
			out[c.Path] = "by one of " + strings.Join(who, ", ") + " " + w.text()
		}
	}
	return out
}

// pin narrows the time of a change by the file's own, where there is one.
func (s *Server) pin(d workspace.Definition, w window, since time.Time, path string) window {
	if w.from.IsZero() {
		w.from = since
	}
	if w.until.IsZero() {
		w.until = time.Now()
	}
	if at, ok := changeTime(filepath.Join(d.Dir, path)); ok && !at.Before(w.from.Add(-time.Second)) && !at.After(w.until) {
		w.from, w.until = at, at
	}
	return w
}

// text tells a person when: at a time, or between two.
func (w window) text() string {
	if w.from.Equal(w.until) {
		return "at " + w.from.Local().Format("15:04:05")
	}
	return fmt.Sprintf("between %s and %s", w.from.Local().Format("15:04:05"), w.until.Local().Format("15:04:05"))
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
	when := w.text()
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
