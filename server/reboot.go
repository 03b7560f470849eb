package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"perdure/handoff"
	"perdure/snapshot"
	"perdure/workspace"
	"perdure/workspace/journal"
)

// comeBack starts again what was live when the box went down: verified first. Where the verdict halts, a repair
// session starts if only the workspace's own last session edited; else the workspace waits for its person.
func (s *Server) comeBack(ctx context.Context) {
	for _, sp := range s.allSpaces() {
		if ctx.Err() != nil {
			return
		}
		sess := sp.newest()
		if sess == nil || !endedByReboot(sess, workspace.BootID()) {
			continue
		}
		d, err := s.store.Workspace(sp.name)
		if err != nil || d.Restart == "never" {
			continue
		}
		if err := s.restart(ctx, d, sess); err != nil && !errors.Is(err, context.Canceled) {
			s.log.Error("start after a reboot", "workspace", sp.name, "err", err)
		}
	}
}

// endedByReboot is a session whose box went down under it: its host vanished, or was told to end. A reboot is a
// changed boot id; any other lost host waits for an attach.
func endedByReboot(sess *workspace.Session, boot string) bool {
	if sess.Boot == "" || boot == "" || sess.Boot == boot {
		return false
	}
	return sess.State == workspace.Lost || sess.Exit != nil && sess.Exit.Terminated
}

func (s *Server) restart(ctx context.Context, d workspace.Definition, last *workspace.Session) error {
	own := s.ownEditsOnly(ctx, d, last) // before the verification's own snapshot
	rep, err := s.verifyFull(d.Name).wait(ctx)
	if err != nil {
		return fmt.Errorf("verify %s: %w", d.Name, err)
	}
	h, err := s.store.Halt(d.Name)
	if err != nil {
		return err
	}
	if h == nil {
		_, err = s.startSession(ctx, d, startOptions{verdict: rep.Verdict})
		return err
	}
	if rep.Verdict == handoff.Invalid || d.OnMismatch == "hold" || !own || !isDir(d.Dir) {
		return nil
	}
	agent := !d.Person() && d.OnMismatch != "shell"
	_, err = s.startSession(ctx, d, startOptions{verdict: h.Verdict, repair: true, shell: !agent})
	return err
}

// agentRepairs says whether the repair session is the agent's: where only the workspace's own last session edited
// the tree, unless the person fixed it.
func (s *Server) agentRepairs(ctx context.Context, d workspace.Definition) bool {
	switch d.OnMismatch {
	case "agent":
		return true
	case "shell":
		return false
	}
	return !d.Person() && s.ownEditsOnly(ctx, d, s.space(d.Name).newest())
}

// ownEditsOnly says whether nobody but the workspace's own last session can have edited the tree since the record: a
// snapshot of that session has the tree of now, or all that differs changed between its start and its last byte.
func (s *Server) ownEditsOnly(ctx context.Context, d workspace.Definition, last *workspace.Session) bool {
	now, err := s.snaps.Read(ctx, d.Name, d.Dir)
	if err != nil || last == nil {
		return false
	}
	list, err := s.store.Snapshots(d.Name)
	if err != nil {
		return false
	}
	for _, snap := range list {
		if ofSession[snap.Reason] && snap.At.After(last.Started) {
			if snap.Tree == now.Tree {
				return true
			}
			break
		}
	}
	record, _, err := s.inForce(d.Name)
	if err != nil || record == nil {
		return false
	}
	until, err := lastOutput(last)
	if err != nil {
		return false
	}
	changes, err := s.snaps.Diff(ctx, now.Repo, record.Measured.Tree, now.Tree)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(changes, func(c snapshot.Change) bool {
		return !changedWithin(filepath.Join(d.Dir, c.Path), last.Started, until)
	})
}

// ofSession are the reasons of snapshots that show what a session left.
var ofSession = map[string]bool{"exit": true, "interval": true, "disconnect": true, "shutdown": true, "compact": true}

// changedWithin goes by ctime, which no program sets; of a deleted file, its folder's.
func changedWithin(path string, from, until time.Time) bool {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if errors.Is(err, unix.ENOENT) {
		err = unix.Lstat(filepath.Dir(path), &st)
	}
	at := time.Unix(st.Ctim.Sec, st.Ctim.Nsec)
	return err == nil && !at.Before(from) && !at.After(until)
}

// lastOutput is when a session that is over printed its last byte.
func lastOutput(sess *workspace.Session) (time.Time, error) {
	r, err := journal.OpenReader(filepath.Join(sess.Dir, "journal"))
	if err != nil {
		return time.Time{}, err
	}
	defer r.Close()
	start, end := r.Bounds()
	if start == end {
		return time.Time{}, errors.New("the session printed nothing")
	}
	var at time.Time
	err = r.Chunks(end-1, func(_ uint64, t time.Time, _ []byte) error { at = t; return nil })
	return at, err
}
