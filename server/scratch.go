package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"perdure/handoff"
	"perdure/snapshot"
	"perdure/workspace"
)

// maxLinks bounds what is linked into a scratch checkout.
const maxLinks = 1000

// errSetup is wrapped where a scratch checkout could not be prepared.
var errSetup = errors.New("the scratch checkout could not be prepared")

// scratch makes a checkout of a snapshot, shares with it what --link names, and prepares it by --setup. The function
// that it returns removes it.
func (s *Server) scratch(ctx context.Context, d workspace.Definition, snap snapshot.Snapshot, setup string) (dir string, remove func(), err error) {
	dir = filepath.Join(s.opts.State, "scratch", newID())
	remove = func() { os.RemoveAll(dir) }
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", nil, fmt.Errorf("make a scratch checkout: %w", err)
	}
	if _, err := s.snaps.Restore(ctx, snap, dir, nil, false); err != nil {
		remove()
		return "", nil, fmt.Errorf("make a scratch checkout: %w", err)
	}
	if err := linkInto(d.Dir, dir, d.Link); err != nil {
		remove()
		return "", nil, fmt.Errorf("%w: %w", errSetup, err)
	}
	if setup == "" {
		return dir, remove, nil
	}
	r := s.checkRunner(d, dir)
	run := r.Run(ctx, handoff.CheckSpec{Label: "setup", Cmd: setup, Results: "exit", Timeout: d.CheckTimeout, Env: d.CheckEnv})
	if run.Exit != 0 || run.Problem != "" {
		remove()
		return "", nil, fmt.Errorf("%w: --setup ended with status %d %s\n%s", errSetup, run.Exit, run.Problem, run.Tail)
	}
	return dir, remove, nil
}

// linkInto links what the globs name in from, and isn't in to.
func linkInto(from, to string, globs []string) error {
	n := 0
	for _, g := range globs {
		names, err := doublestar.Glob(os.DirFS(from), filepath.ToSlash(filepath.Clean(g)), doublestar.WithNoFollow())
		if err != nil {
			return fmt.Errorf("--link %s: %w", g, err)
		}
		for _, name := range names {
			at := filepath.Join(to, name)
			if _, err := os.Lstat(at); err == nil {
				continue
			}
			if n++; n > maxLinks {
				return fmt.Errorf("--link %s names more than %d files: name their folder", g, maxLinks)
			}
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				return fmt.Errorf("--link %s: %w", name, err)
			}
			if err := os.Symlink(filepath.Join(from, name), at); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("--link %s: %w", name, err)
			}
		}
	}
	return nil
}

// snapshotOfTree is the newest snapshot of a workspace that has a tree.
func (s *Server) snapshotOfTree(name, tree string) (snapshot.Snapshot, bool, error) {
	list, err := s.store.Snapshots(name)
	if err != nil {
		return snapshot.Snapshot{}, false, fmt.Errorf("list the snapshots: %w", err)
	}
	for _, snap := range list {
		if snap.Tree == tree {
			return snap, true, nil
		}
	}
	return snapshot.Snapshot{}, false, nil
}

// needsBackoff is how long after a verification whose environment wasn't ready it is tried again; the last is for all
// later ones.
var needsBackoff = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute}

// maxNeedsTries bounds how often: after an hour a person has to look.
const maxNeedsTries = 60

// readyTries is how often a record asks whether the environment is ready, with needsBackoff between.
const readyTries = 3

// waitReady runs --needs until it succeeds: a measurement in an environment that isn't ready says nothing.
func (s *Server) waitReady(ctx context.Context, r *handoff.Runner, d workspace.Definition, may allowed) error {
	if may.needs == "" {
		return nil
	}
	plain := *r
	plain.Trace = false
	for try := 0; ; try++ {
		run := plain.Run(ctx, handoff.CheckSpec{Label: "needs", Cmd: may.needs, Results: "exit", Env: d.CheckEnv})
		if run.Exit == 0 && run.Problem == "" {
			return nil
		}
		if try == readyTries {
			return &problem{handoff.Inconclusive.ExitStatus(), "inconclusive", fmt.Errorf("the environment isn't ready: %s\n%s", may.needs, run.Tail),
				fmt.Sprintf("record again once it is, or change it: `perdure set %s --needs …`", d.Name)}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(needsBackoff[try]):
		}
	}
}

// retryWhenReady verifies again, later and later, while the environment isn't ready and the workspace is halted for it.
// The halt ends by itself once the record holds.
func (s *Server) retryWhenReady(name string) {
	sp := s.space(name)
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.retrying {
		return
	}
	sp.retrying = true
	s.wg.Go(func() {
		defer func() {
			sp.mu.Lock()
			sp.retrying = false
			sp.mu.Unlock()
		}()
		for try := range maxNeedsTries {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(needsBackoff[min(try, len(needsBackoff)-1)]):
			}
			if h, err := s.store.Halt(name); err != nil || h == nil {
				return
			}
			rep, err := s.verifyFull(name).wait(s.ctx)
			if err != nil || !waitsForNeeds(rep) {
				return
			}
		}
	})
}

// waitsForNeeds says whether a verification has no answer because the environment isn't ready.
func waitsForNeeds(rep handoff.Report) bool {
	if rep.Verdict != handoff.Inconclusive {
		return false
	}
	for _, f := range rep.Findings {
		if f.Subject == "needs" && f.Kind == string(handoff.Inconclusive) {
			return true
		}
	}
	return false
}
