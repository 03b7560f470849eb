package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"perdure/server/store"
	"perdure/snapshot"
	"perdure/workspace"
)

const (
	backupsKept = 5
	backupEvery = 6 * time.Hour
)

// openStore opens the index, after another process has read all of it. A damaged one is kept aside; the newest backup
// that is whole takes its place, and then, as at every start, whatever the ledger has that the index lacks.
func (s *Server) openStore(ctx context.Context) error {
	dir := filepath.Join(s.opts.State, "store")
	_, missing := os.Stat(filepath.Join(dir, "MANIFEST"))
	err := store.Probe(ctx, s.probeArgv(), dir)
	if err == nil {
		s.store, err = store.Open(dir)
	}
	aside, from := "", ""
	if errors.Is(err, store.ErrCorrupt) {
		aside = dir + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000")
		s.log.Error("the store is damaged: it is kept aside and rebuilt from backup, snapshot repositories and session folders", "aside", aside, "err", err)
		if err := setAside(dir, aside); err != nil {
			return fmt.Errorf("keep the damaged store aside: %w", err)
		}
		from = s.restoreBackup(dir)
		s.store, err = store.Open(dir)
	}
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	err = s.reconcile(ctx, aside != "")
	if err != nil && (aside != "" && from == "" || errors.Is(err, store.ErrNoSpace) || ctx.Err() != nil) {
		s.store.Close() // an empty list is never presented as the truth
		return fmt.Errorf("rebuild the store: %w", err)
	}
	if err != nil {
		s.log.Error("the store couldn't be compared with the ledger, and is used as it is; see `perdure doctor`", "err", err)
	}
	if aside != "" || missing != nil && s.knowsAny() { // a store that is gone with its sentinel leaves no other trace
		s.event("", "rebuilt", map[string]any{"aside": aside, "backup": from})
	}
	return nil
}

// knowsAny says whether the store holds a workspace.
func (s *Server) knowsAny() bool {
	all, err := s.store.Workspaces()
	return err == nil && len(all) > 0
}

// probeArgv is the command that reads a store in a process of its own; main knows its first word.
func (s *Server) probeArgv() []string { return []string{s.opts.Executable, ProbeCommand} }

// ProbeCommand is the hidden argument by which the binary probes a store for the server.
const ProbeCommand = "probe-store"

// Probe is what the binary does when it is called with ProbeCommand and a folder.
func Probe(dir string) int { return store.ProbeHere(dir, os.Stderr) }

// restoreBackup puts the newest backup that is whole in the store's place, and says which that was.
func (s *Server) restoreBackup(dir string) string {
	all, err := store.Backups(dir)
	if err != nil {
		s.log.Error("the backups can't be read", "err", err)
	}
	for _, b := range all {
		err := store.Restore(dir, b)
		if err == nil {
			s.log.Warn("the store was restored from a backup", "backup", b)
			return b
		}
		s.log.Error("a backup can't be used", "backup", b, "err", err)
	}
	s.log.Error("there is no backup of the store to go back to: events and reports of the past are lost")
	return ""
}

func setAside(dir, aside string) error {
	if err := os.Rename(dir, aside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err := os.Remove(dir + ".id") // the sentinel, which a fresh store writes anew
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// reconcile makes the index say what the ledger, the snapshot repositories and, after damage, the session folders
// say: a crash may have come between the two, and a store that was restored is an old one.
func (s *Server) reconcile(ctx context.Context, damaged bool) error {
	defined, err := s.indexEntries(ctx)
	if err != nil {
		return err
	}
	all, err := s.store.Workspaces()
	if err != nil {
		return err
	}
	if damaged || len(all) == 0 {
		if err := s.definitionsFromSessions(ctx, defined); err != nil {
			return err
		}
	}
	return s.indexSnapshots(ctx)
}

// indexEntries brings in what the ledger has, and gives the names that it defines or says are removed.
func (s *Server) indexEntries(ctx context.Context) (map[string]bool, error) {
	known, err := s.store.Ids("recordid", "observation", "override", "verdict")
	if err != nil {
		return nil, err
	}
	defined, added := map[string]bool{}, 0
	want := func(ws, kind, key string) bool {
		if kind == kindRecord {
			kind = "recordid"
		}
		return !known[[3]string{kind, ws, key}] // what may change is never among these
	}
	err = s.snaps.EntriesWanted(ctx, want, func(ws, kind, key string, data []byte) error {
		changed, err := s.restoreEntry(ws, kind, key, data)
		if kind == kindDefinition && err == nil {
			defined[ws] = true
		}
		if changed {
			added++
		}
		if err != nil && !errors.Is(err, store.ErrNoSpace) {
			s.log.Error("an entry of the ledger can't be used", "workspace", ws, "kind", kind, "id", key, "err", err)
			return nil
		}
		return err
	})
	var damaged *snapshot.DamagedError
	if errors.As(err, &damaged) {
		s.log.Error("objects of the ledger are damaged: what needs them will not verify", "err", err)
		err = nil
	}
	if added > 0 {
		s.log.Warn("the store lacked what the ledger has, and was filled up", "entries", added)
	}
	return defined, err
}

// sameJSON tells whether a value would be stored as data already is.
func sameJSON(v any, data []byte) bool {
	now, err := json.Marshal(v)
	return err == nil && bytes.Equal(now, data)
}

// definitionsFromSessions finds workspaces of which nothing but session folders is left.
func (s *Server) definitionsFromSessions(ctx context.Context, defined map[string]bool) error {
	sessions, _ := workspace.Scan(filepath.Join(s.opts.State, "workspaces"), adoptBudget)
	newest := map[string]*workspace.Session{}
	for _, sess := range sessions {
		if old := newest[sess.Workspace]; !defined[sess.Workspace] && (old == nil || old.ID < sess.ID) {
			newest[sess.Workspace] = sess
		}
	}
	for name, sess := range newest {
		if _, err := s.store.Workspace(name); err == nil || workspace.ValidName(name) != nil {
			continue
		}
		d := workspace.Definition{Name: name, Dir: sess.WorkDir, Created: sess.Started}
		if !shellArgv(sess.Argv) {
			d.Command = sess.Argv
		}
		s.log.Error("the definition of a workspace is lost: it is made anew from its newest session, without goal, checks and owned paths", "workspace", name)
		if err := s.saveDefinition(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// indexSnapshots makes the list of snapshots that of the refs.
func (s *Server) indexSnapshots(ctx context.Context) error {
	refs, err := s.snaps.Refs(ctx)
	if err != nil {
		return err
	}
	known, err := s.store.Ids("snapshot")
	if err != nil {
		return err
	}
	for name, ids := range refs {
		complete := true
		for id := range ids {
			complete = complete && known[[3]string{"snapshot", name, id}]
		}
		if complete {
			continue
		}
		if err := s.indexSnapshotsOf(ctx, name, known); err != nil {
			return err
		}
	}
	return s.dropUnheld(refs, known)
}

func (s *Server) indexSnapshotsOf(ctx context.Context, name string, known map[[3]string]bool) error {
	list, err := s.snaps.List(ctx, name)
	if err != nil {
		s.log.Error("the snapshots of a workspace can't be listed", "workspace", name, "err", err)
		return nil
	}
	for _, snap := range list {
		if known[[3]string{"snapshot", name, snap.ID}] {
			continue
		}
		if err := s.store.PutSnapshot(snap); err != nil {
			return err
		}
	}
	return nil
}

// dropUnheld forgets the snapshots whose ref is gone though their repository is there: pruned, and then a crash came.
func (s *Server) dropUnheld(refs map[string]map[string]string, known map[[3]string]bool) error {
	gone := map[string][]string{}
	for k := range known {
		if name, id := k[1], k[2]; refs[name][id] == "" {
			gone[name] = append(gone[name], id)
		}
	}
	for name, ids := range gone {
		list, err := s.store.Snapshots(name)
		if err != nil {
			return err
		}
		missing := map[string]bool{}
		for _, id := range ids {
			missing[id] = true
		}
		var drop []string
		for _, snap := range list {
			if missing[snap.ID] && isDir(s.snaps.RepoPath(snap.Repo)) {
				drop = append(drop, snap.ID)
			}
		}
		if len(drop) > 0 {
			s.log.Warn("snapshots that no ref holds any more are forgotten", "workspace", name, "count", len(drop))
		}
		if err := s.store.DeleteSnapshots(name, drop); err != nil {
			return err
		}
	}
	return nil
}
