package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// packsBeforeFold is how many packs a repository may have before they are
// folded into fewer.
var packsBeforeFold = 50

// PruneReport says what a pruning did.
type PruneReport struct {
	Snapshots int   // how many were dropped
	Freed     int64 // bytes of disk; less than nothing where the store grew meanwhile
}

// Prune drops snapshots and gives back the space that only they took. It waits
// for captures under way, and they for it. progress, which may be nil, is told
// how many of how many repositories are done.
func (s *Store) Prune(ctx context.Context, drop []Snapshot, progress func(done, total int)) (PruneReport, error) {
	var report PruneReport
	byRepo := map[string][]Snapshot{}
	for _, snap := range drop {
		byRepo[snap.Repo] = append(byRepo[snap.Repo], snap)
	}
	repos, err := s.repos()
	if err != nil {
		return report, err
	}
	for i, repo := range repos {
		n, freed, err := s.pruneRepo(ctx, repo, byRepo[repo])
		report.Snapshots += n
		report.Freed += freed
		if err != nil {
			return report, fmt.Errorf("prune %s: %w", s.RepoPath(repo), err)
		}
		if progress != nil {
			progress(i+1, len(repos))
		}
	}
	return report, s.sweepRoot(ctx)
}

func (s *Store) pruneRepo(ctx context.Context, repo string, drop []Snapshot) (dropped int, freed int64, err error) {
	dir := s.RepoPath(repo)
	before, err := diskSize(dir)
	if err != nil {
		return 0, 0, err
	}
	unlock, err := s.alone(ctx, "use."+repo)
	if err != nil {
		return 0, 0, err
	}
	defer unlock()
	sweep(dir)
	if len(drop) > 0 {
		if dropped, err = s.dropRefs(ctx, repo, drop); err != nil {
			return 0, 0, err
		}
	}
	gone, err := s.removeUnused(ctx, repo)
	if err != nil || gone {
		return dropped, before, err
	}
	loose, packs, err := countObjects(dir)
	if err != nil {
		return dropped, 0, err
	}
	switch {
	case dropped > 0 || exists(filepath.Join(dir, "perdure", "garbage")):
		err = s.repack(ctx, repo)
	case packs > packsBeforeFold || loose > 1000:
		_, err = s.git(repo).run(ctx, nil, "repack", "-d", "--geometric=2", "-q")
	}
	after, e := diskSize(dir)
	if err == nil {
		err = e
	}
	return dropped, before - after, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// dropRefs deletes the refs in one transaction.
func (s *Store) dropRefs(ctx context.Context, repo string, drop []Snapshot) (int, error) {
	var lines bytes.Buffer
	n := 0
	for _, snap := range drop {
		part, err := refPart(snap.Workspace)
		if err != nil {
			return 0, err
		}
		ref := snapshotRefs + part + "/" + snap.ID
		if _, err := s.git(repo).run(ctx, nil, "rev-parse", "-q", "--verify", ref); err != nil {
			continue // dropped before
		}
		fmt.Fprintf(&lines, "delete %s\n", ref)
		n++
	}
	if n == 0 {
		return 0, ctx.Err()
	}
	// Should we die before the objects are gone, the next pruning goes on.
	if err := replaceSynced(filepath.Join(s.RepoPath(repo), "perdure", "garbage"), nil); err != nil {
		return 0, err
	}
	hook("prune-marked")
	unlock, err := s.lock(ctx, "refs."+repo)
	if err != nil {
		return 0, err
	}
	defer unlock()
	_, err = s.git(repo).run(ctx, lines.Bytes(), "update-ref", "--stdin")
	hook("prune-refs")
	return n, err
}

// repack writes one pack of what is referred to, and drops the rest.
func (s *Store) repack(ctx context.Context, repo string) error {
	dir := s.RepoPath(repo)
	// What the stat caches take to be held may be gone from here on.
	next, _ := strconv.Atoi(generation(dir))
	if err := replaceSynced(filepath.Join(dir, "perdure", "generation"), []byte(strconv.Itoa(next+1))); err != nil {
		return err
	}
	g := s.git(repo)
	if _, err := g.run(ctx, nil, "repack", "-a", "-d", "-q", "--threads=1", "--window-memory=64m"); err != nil {
		return err
	}
	hook("prune-packed")
	if _, err := g.run(ctx, nil, "prune", "--expire=now"); err != nil {
		return err
	}
	if err := trimShallow(ctx, g); err != nil {
		return err
	}
	return ignoreGone(os.Remove(filepath.Join(dir, "perdure", "garbage")))
}

// trimShallow takes commits that are gone out of the shallow file.
func trimShallow(ctx context.Context, g git) error {
	path := filepath.Join(g.dir, "shallow")
	text, err := os.ReadFile(path)
	if err != nil {
		return ignoreGone(err)
	}
	all := strings.Fields(string(text))
	gone, err := lacking(ctx, g, all)
	if err != nil || len(gone) == 0 {
		return err
	}
	dead := map[string]bool{}
	for _, id := range gone {
		dead[id] = true
	}
	var kept []string
	for _, id := range all {
		if !dead[id] {
			kept = append(kept, id)
		}
	}
	if len(kept) == 0 {
		return os.Remove(path)
	}
	return replaceSynced(path, []byte(strings.Join(kept, "\n")+"\n"))
}

// removeUnused removes a repository that holds no snapshot at all.
func (s *Store) removeUnused(ctx context.Context, repo string) (bool, error) {
	out, err := s.git(repo).run(ctx, nil, "for-each-ref", "--count=1", "--format=%(refname)")
	if err != nil || len(out) > 0 {
		return false, err
	}
	return true, os.RemoveAll(s.RepoPath(repo))
}

// sweep removes what dead writers left in a repository: nobody else writes
// while it is held alone.
func sweep(dir string) {
	packs := filepath.Join(dir, "objects", "pack")
	entries, err := os.ReadDir(packs)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := e.Name()
		base, isPack := strings.CutSuffix(name, ".pack")
		stale := strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-") || strings.HasSuffix(name, ".idx.tmp") ||
			isPack && !exists(filepath.Join(packs, base+".idx")) || strings.HasSuffix(name, ".idx") && !exists(filepath.Join(packs, strings.TrimSuffix(name, ".idx")+".pack"))
		if stale {
			os.Remove(filepath.Join(packs, name))
		}
	}
	for _, sub := range []string{"refs", "perdure"} {
		_ = filepath.WalkDir(filepath.Join(dir, sub), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (strings.HasSuffix(path, ".lock") || strings.HasPrefix(d.Name(), "tmp-")) {
				os.Remove(path)
			}
			return nil
		})
	}
	for _, name := range []string{"packed-refs.lock", "shallow.lock", "config.lock", "HEAD.lock"} {
		os.Remove(filepath.Join(dir, name))
	}
}

// sweepRoot removes repositories that were never finished, and folds the ledger.
func (s *Store) sweepRoot(ctx context.Context) error {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return fmt.Errorf("snapshot store: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "new-") && s.abandoned(e) {
			os.RemoveAll(filepath.Join(s.root, e.Name()))
		}
	}
	if !exists(filepath.Join(s.RepoPath(ledgerID), "HEAD")) {
		return nil
	}
	unlock, err := s.lock(ctx, "ledger")
	if err != nil {
		return err
	}
	defer unlock()
	loose, packs, err := countObjects(s.RepoPath(ledgerID))
	if err != nil || loose < 500 && packs < packsBeforeFold {
		return err
	}
	g := s.git(ledgerID)
	if _, err := g.run(ctx, nil, "repack", "-a", "-d", "-q"); err != nil {
		return fmt.Errorf("fold the ledger: %w", err)
	}
	_, err = g.run(ctx, nil, "prune", "--expire=1.hour.ago")
	return err
}

// abandoned tells whether a repository has been in the making for an hour.
func (s *Store) abandoned(e fs.DirEntry) bool {
	info, err := e.Info()
	return err == nil && sinceHour(info.ModTime())
}

// countObjects counts loose objects and packs.
func countObjects(dir string) (loose, packs int, err error) {
	dirs, err := os.ReadDir(filepath.Join(dir, "objects"))
	if err != nil {
		return 0, 0, fmt.Errorf("objects: %w", err)
	}
	for _, d := range dirs {
		files, err := os.ReadDir(filepath.Join(dir, "objects", d.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for _, f := range files {
			switch {
			case len(d.Name()) == 2:
				loose++
			case strings.HasSuffix(f.Name(), ".pack"):
				packs++
			}
		}
	}
	return loose, packs, nil
}
