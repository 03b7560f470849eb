package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"perdure/handoff"
	"perdure/server/store"
	"perdure/workspace"
)

// verification is one full verification under way; later comers join it.
type verification struct {
	done   chan struct{}
	report handoff.Report
	err    error

	mu       sync.Mutex
	progress handoff.Progress
}

func (v *verification) tell(p handoff.Progress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.progress = p
}

func (v *verification) latest() handoff.Progress {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.progress
}

// verifyFull begins a full verification, or joins the one under way. It belongs to the server, so that whoever
// asked may leave without cancelling it.
func (s *Server) verifyFull(name string) *verification {
	sp := s.space(name)
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.running == nil {
		sp.running = s.begin(sp, &sp.running, sp.quick, s.runFull)
	}
	return sp.running
}

// verifyQuickChecks runs the quick checks, or joins a verification under way that does: a workspace has one at a time.
func (s *Server) verifyQuickChecks(name string) *verification {
	sp := s.space(name)
	sp.mu.Lock()
	defer sp.mu.Unlock()
	switch {
	case sp.running != nil:
		return sp.running
	case sp.quick == nil:
		sp.quick = s.begin(sp, &sp.quick, nil, s.runQuickChecks)
	}
	return sp.quick
}

// begin runs a verification after the one before it and empties its place in the end. It is called with sp.mu held.
func (s *Server) begin(sp *space, place **verification, before *verification, run func(context.Context, string, func(handoff.Progress)) (handoff.Report, error)) *verification {
	v := &verification{done: make(chan struct{})}
	s.wg.Go(func() {
		defer func() {
			sp.mu.Lock()
			*place = nil
			sp.mu.Unlock()
			close(v.done)
		}()
		if before != nil {
			<-before.done
		}
		v.report, v.err = run(s.ctx, sp.name, v.tell)
	})
	return v
}

// wait returns the outcome; the caller's leaving ends only the wait.
func (v *verification) wait(ctx context.Context) (handoff.Report, error) {
	select {
	case <-ctx.Done():
		return handoff.Report{}, context.Cause(ctx)
	case <-v.done:
		return v.report, v.err
	}
}

func (s *Server) runFull(ctx context.Context, name string, progress func(handoff.Progress)) (handoff.Report, error) {
	leave, err := s.checks.enter(ctx)
	if err != nil {
		return handoff.Report{}, err
	}
	defer leave()
	d, err := s.store.Workspace(name)
	if err != nil {
		return handoff.Report{}, err
	}
	if isDir(d.Dir) {
		if _, _, err := s.captureIfChanged(ctx, name, "verify"); err != nil {
			return handoff.Report{}, err
		}
	}
	rep, err := s.verifyOnce(ctx, d, scopeFull, progress)
	if err != nil {
		return rep, err
	}
	if ctx.Err() != nil { // the server went: a check that was cut short says nothing of the record
		return rep, ctx.Err()
	}
	if err := s.keepVerdict(ctx, name, rep); err != nil {
		return rep, err
	}
	if err := s.store.PutReport(name, rep.Record, rep); err != nil {
		return rep, fmt.Errorf("keep the report: %w", err)
	}
	s.event(name, "verified", map[string]any{"verdict": string(rep.Verdict), "record": rep.Record})
	err = s.settle(ctx, name, rep)
	if err == nil && waitsForNeeds(rep) {
		s.retryWhenReady(name)
	}
	return rep, err
}

// verifyQuick runs no check; it is never stored as the record's verdict and releases nothing.
func (s *Server) verifyQuick(ctx context.Context, name string) (handoff.Report, error) {
	d, err := s.store.Workspace(name)
	if err != nil {
		return handoff.Report{}, err
	}
	return s.verifyOnce(ctx, d, scopeQuick, nil)
}

// runQuickChecks is a quick verification with the checks that are marked quick; what it finds halts and releases as
// little as without them.
func (s *Server) runQuickChecks(ctx context.Context, name string, progress func(handoff.Progress)) (handoff.Report, error) {
	leave, err := s.checks.enter(ctx)
	if err != nil {
		return handoff.Report{}, err
	}
	defer leave()
	d, err := s.store.Workspace(name)
	if err != nil {
		return handoff.Report{}, err
	}
	rep, err := s.verifyOnce(ctx, d, scopeQuickChecks, progress)
	if err == nil && ctx.Err() == nil && len(rep.Checks) > 0 {
		err = s.keepVerdict(ctx, name, rep)
		s.event(name, "verified", map[string]any{"verdict": string(rep.Verdict), "record": rep.Record, "scope": rep.Scope})
	}
	return rep, err
}

func hasQuickChecks(d workspace.Definition) bool {
	return slices.ContainsFunc(d.Checks, func(c workspace.Check) bool { return c.Quick })
}

// scope is how much a verification runs.
type scope int

const (
	scopeQuick       scope = iota // no check
	scopeQuickChecks              // the checks marked quick, on the present tree
	scopeFull
)

// verifyOnce compares the record in force with the tree. While the session is live the tree may move: then the
// record's own tree is checked in a scratch checkout.
func (s *Server) verifyOnce(ctx context.Context, d workspace.Definition, sc scope, progress func(handoff.Progress)) (handoff.Report, error) {
	record, chain, decodeErr := s.inForce(d.Name)
	seal, err := s.seal(ctx, d.Name)
	if err != nil && decodeErr == nil {
		decodeErr = err
	}
	if decodeErr == nil && sc == scopeFull { // what attaches must not wait for the ledger
		decodeErr = s.sameInLedger(ctx, d.Name, chain)
	}
	if !isDir(d.Dir) {
		return goneReport(d, record), nil
	}
	live := s.space(d.Name).live() != nil
	may := allowed{}
	on := bench{run: s.checkRunner(d, d.Dir), remove: func() {}}
	if sc != scopeQuick {
		if may, err = s.allowedCommands(ctx, d); err != nil {
			return handoff.Report{}, err
		}
		if on, err = s.bench(ctx, d, record, live, sc, may.setup, progress); err != nil {
			return handoff.Report{}, err
		}
	}
	defer on.remove()
	others, err := s.othersOwn(d)
	if err != nil {
		return handoff.Report{}, err
	}
	return handoff.Verify(ctx, handoff.VerifyRequest{
		Workspace: d.Name, Encoded: chain, Seal: seal, Record: record, DecodeErr: decodeErr, Dir: d.Dir, Base: d.Base, BaseTree: s.baseTree(d), Checks: checkSpecs(d),
		Owns: d.Owns, Shares: d.Shares, Untested: d.Untested, Flaky: d.Flaky, OthersOwn: others,
		Quick: sc != scopeFull, QuickTree: on.quickTree, Live: live, RunDoneWhen: may.doneWhen, Refused: may.refused, Needs: may.needs, Env: d.CheckEnv, Unready: on.unready,
		Snapshots: s.snaps, Runner: on.run, Now: time.Now, Origins: s.originsFor(d, record),
		Commits: commitsSince(d.Dir), Recorded: func(c handoff.CheckRun) handoff.CheckSpec { return specOf(d, c) },
	}), nil
}

// bench is where checks run.
type bench struct {
	run       *handoff.Runner
	remove    func() // the scratch checkout, if it is one
	unready   string // why no scratch checkout could be prepared
	quickTree string // the tree that quick checks run on, "" to run none
}

// bench prepares where checks run: in the workspace's directory, or, where a session is live in it, in a scratch
// checkout: of the record's tree, or of the present one for quick checks.
func (s *Server) bench(ctx context.Context, d workspace.Definition, record *handoff.Record, live bool, sc scope, setup string, progress func(handoff.Progress)) (bench, error) {
	b := bench{run: s.checkRunner(d, d.Dir), remove: func() {}}
	b.run.Progress = progress
	if record == nil {
		return b, nil
	}
	tree := record.Measured.Tree
	if sc == scopeQuickChecks {
		snap, _, err := s.captureIfChanged(ctx, d.Name, "verify")
		if err != nil {
			return b, err
		}
		tree, b.quickTree = snap.Tree, snap.Tree
	}
	if !live && !s.othersLiveIn(d) {
		return b, nil
	}
	snap, ok, err := s.snapshotOfTree(d.Name, tree)
	if err != nil || !ok {
		return b, err
	}
	dir, remove, err := s.scratch(ctx, d, snap, setup)
	if errors.Is(err, errSetup) {
		b.unready = err.Error()
		return b, nil
	}
	if err != nil {
		return b, err
	}
	b.run, b.remove = s.checkRunner(d, dir), remove
	b.run.Progress = progress
	return b, nil
}

// checkRunner runs a workspace's checks in dir, within the box's limits. Any folder but its own is a scratch checkout.
func (s *Server) checkRunner(d workspace.Definition, dir string) *handoff.Runner {
	c := s.conf().Checks
	r := &handoff.Runner{Dir: dir, Path: d.Path, Where: "tree", Supervisor: []string{s.opts.Executable, handoff.SuperviseCommand},
		Key: s.inputKey, Limits: handoff.Limits{Processes: c.Processes, Memory: int64(c.Memory)}}
	if dir != d.Dir {
		r.Where = "scratch"
	}
	return r
}

// maxCommits bounds how many commits since a record are read.
const maxCommits = 500

// commitsSince reads the messages of the commits in dir that a recorded one is not among, nor before.
func commitsSince(dir string) func(context.Context, string) []string {
	return func(ctx context.Context, since string) []string {
		out, err := gitIn(ctx, dir, "log", "-z", "--no-show-signature", "--no-mailmap", "--no-color", "--max-count="+strconv.Itoa(maxCommits), "--format=%B", since+"..HEAD", "--")
		if err != nil {
			return nil // the commit is gone, which the verifier notes itself
		}
		return strings.Split(out, "\x00")
	}
}

// baseTree is where edited files count from without a repository, or once the base commit is gone: the first snapshot.
func (s *Server) baseTree(d workspace.Definition) string {
	list, err := s.store.Snapshots(d.Name)
	if err != nil {
		return ""
	}
	for _, snap := range slices.Backward(list) {
		if !snap.At.Before(d.Created) && snap.Repo == d.Repo {
			return snap.Tree
		}
	}
	return ""
}

// othersLiveIn says whether another workspace's session works in the same directory.
func (s *Server) othersLiveIn(d workspace.Definition) bool {
	for _, sp := range s.allSpaces() {
		if sp.name == d.Name || sp.live() == nil {
			continue
		}
		if o, err := s.store.Workspace(sp.name); err == nil && o.Dir == d.Dir {
			return true
		}
	}
	return false
}

// othersOwn is what the other workspaces of the same directory own.
func (s *Server) othersOwn(d workspace.Definition) (map[string][]string, error) {
	all, err := s.store.Workspaces()
	if err != nil {
		return nil, fmt.Errorf("read the workspaces: %w", err)
	}
	out := map[string][]string{}
	for _, o := range all {
		if o.Name != d.Name && o.Dir == d.Dir && len(o.Owns) > 0 {
			out[o.Name] = o.Owns
		}
	}
	return out, nil
}

// goneReport says that the directory is gone and how to get the last snapshot back; nothing is made in its place.
func goneReport(d workspace.Definition, record *handoff.Record) handoff.Report {
	rep := handoff.Report{Workspace: d.Name, Verdict: handoff.Invalid, Scope: "full", At: time.Now().UTC()}
	if record != nil {
		rep.Record = record.ID
	}
	rep.Findings = []handoff.Finding{{Kind: string(handoff.Invalid), Subject: "directory", Recorded: d.Dir, Found: "gone",
		Note: fmt.Sprintf("bring the last snapshot back with `perdure restore %s latest --to %s`", d.Name, d.Dir)}}
	return rep
}

// settle halts a workspace whose record does not hold, and releases one whose record holds after all.
func (s *Server) settle(ctx context.Context, name string, rep handoff.Report) error {
	if rep.Verdict.Halts() {
		if over, err := s.overridden(name, rep); err != nil || over {
			return err
		}
		return s.halt(ctx, name, rep)
	}
	h, err := s.store.Halt(name)
	if err != nil || h == nil {
		return err
	}
	if rep.Verdict == handoff.Unrecorded {
		return nil
	}
	return s.release(ctx, name, "released", map[string]any{"verdict": string(rep.Verdict)})
}

func (s *Server) halt(ctx context.Context, name string, rep handoff.Report) error {
	body, err := json.Marshal(rep)
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	h := store.Halt{Workspace: name, At: time.Now().UTC(), Verdict: rep.Verdict, Record: rep.Record, Reason: haltReason(rep), Report: body}
	old, err := s.store.Halt(name)
	if err != nil {
		return err
	}
	if old != nil {
		h.At = old.At // since when counts from the first
	}
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode the halt: %w", err)
	}
	if err := s.snaps.Put(ctx, name, kindHalt, "current", data); err != nil {
		return fmt.Errorf("keep the halt: %w", err)
	}
	if err := s.store.PutHalt(h); err != nil {
		return fmt.Errorf("index the halt: %w", err)
	}
	if old == nil {
		s.event(name, "halted", map[string]any{"verdict": string(rep.Verdict), "record": rep.Record})
	}
	return nil
}

// haltReason is the worst finding in one line.
func haltReason(rep handoff.Report) string {
	for _, f := range rep.Findings {
		if f.Kind == string(rep.Verdict) {
			return fmt.Sprintf("%s: %s", rep.Verdict, f.Subject)
		}
	}
	return string(rep.Verdict)
}

func (s *Server) release(ctx context.Context, name, kind string, fields map[string]any) error {
	h, err := s.store.Halt(name)
	if err != nil {
		return err
	}
	if h != nil {
		if err := s.snaps.Put(ctx, name, kindHalt, "current", nil); err != nil {
			return fmt.Errorf("release %s: %w", name, err)
		}
		if err := s.store.DeleteHalt(name); err != nil {
			return fmt.Errorf("release %s: %w", name, err)
		}
	}
	s.event(name, kind, fields)
	return nil
}
