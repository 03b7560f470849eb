package snapshot

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Usage is what one repository of the store takes.
type Usage struct {
	Repo       string         `json:"repo"`
	Path       string         `json:"path"`
	Bytes      int64          `json:"bytes"` // on disk
	Packs      int            `json:"packs"`
	Workspaces map[string]int `json:"workspaces"` // how many snapshots each has in it
}

// Usage tells what each repository of the store takes, and the ledger.
func (s *Store) Usage(ctx context.Context) (repos []Usage, ledger int64, err error) {
	ids, err := s.repos()
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		u := Usage{Repo: id, Path: s.RepoPath(id), Workspaces: map[string]int{}}
		if u.Bytes, err = diskSize(u.Path); err != nil {
			return nil, 0, err
		}
		if _, u.Packs, err = countObjects(u.Path); err != nil {
			return nil, 0, err
		}
		out, err := s.git(id).run(ctx, nil, "for-each-ref", "--format=%(refname)", snapshotRefs)
		if err != nil {
			return nil, 0, fmt.Errorf("usage: %w", err)
		}
		for _, ref := range strings.Fields(string(out)) {
			if part, _, ok := strings.Cut(strings.TrimPrefix(ref, snapshotRefs), "/"); ok {
				u.Workspaces[unrefPart(part)]++
			}
		}
		repos = append(repos, u)
	}
	ledger, err = diskSize(s.RepoPath(ledgerID))
	return repos, ledger, err
}

// Bundle writes a workspace's snapshots as git bundles into dir, one for each
// repository they are in, and returns their names. Where history is cut, the
// commits in it are copies without parents: a bundle can't say that it is cut.
func (s *Store) Bundle(ctx context.Context, list []Snapshot, dir string) ([]string, error) {
	byRepo := map[string][]Snapshot{}
	for _, snap := range list {
		byRepo[snap.Repo] = append(byRepo[snap.Repo], snap)
	}
	var names []string
	for repo, snaps := range byRepo {
		name := "snapshots-" + repo + ".bundle"
		if len(byRepo) == 1 {
			name = "snapshots.bundle"
		}
		if err := s.bundle(ctx, repo, snaps, filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("bundle: %w", err)
		}
		names = append(names, name)
	}
	return names, nil
}

func (s *Store) bundle(ctx context.Context, repo string, snaps []Snapshot, to string) error {
	g := s.git(repo)
	unlock, err := s.share(ctx, "use."+repo)
	if err != nil {
		return err
	}
	defer unlock()
	cut := exists(filepath.Join(g.dir, "shallow"))
	prefix := fmt.Sprintf("refs/export/%d-%d/", os.Getpid(), time.Now().UnixNano())
	defer func() {
		// The refs only served the bundle.
		_ = s.deleteRefs(context.WithoutCancel(ctx), repo, prefix)
	}()
	var refs strings.Builder
	for _, snap := range snaps {
		part, err := refPart(snap.Workspace)
		if err != nil {
			return err
		}
		if !cut {
			refs.WriteString(snapshotRefs + part + "/" + snap.ID + "\n")
			continue
		}
		id, err := s.withoutParents(ctx, g, snap)
		if err != nil {
			return err
		}
		ref := prefix + part + "/" + snap.ID
		if err := writeRef(g.dir, ref, id); err != nil {
			return err
		}
		refs.WriteString(ref + "\n")
	}
	_, err = g.run(ctx, []byte(refs.String()), "bundle", "create", "-q", to, "--stdin")
	return err
}

func (s *Store) withoutParents(ctx context.Context, g git, snap Snapshot) (string, error) {
	text, err := g.run(ctx, nil, "cat-file", "commit", snap.Commit)
	if err != nil {
		return "", err
	}
	head, body, _ := strings.Cut(string(text), "\n\n")
	var lines []string
	for _, line := range strings.Split(head, "\n") {
		if !strings.HasPrefix(line, "parent ") {
			lines = append(lines, line)
		}
	}
	return g.line(ctx, []byte(strings.Join(lines, "\n")+"\n\n"+body), "hash-object", "-t", "commit", "-w", "--stdin")
}

func sinceHour(at time.Time) bool { return time.Since(at) > time.Hour }
