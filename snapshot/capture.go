package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

const snapshotRefs = "refs/snapshots/"

// Read tells what a directory holds now. The tree's objects go to the store,
// so that it can be compared, but nothing refers to them. Of a directory that
// didn't change since the last Read or Capture, only the stats are read.
func (s *Store) Read(ctx context.Context, workspace, dir string) (State, error) {
	p, m, unlock, err := s.open(ctx, workspace, dir)
	if err != nil {
		return State{}, fmt.Errorf("read tree: %w", err)
	}
	defer unlock()
	t, err := m.measure(ctx, p)
	if err != nil {
		return State{}, fmt.Errorf("read tree: %w", err)
	}
	return t.state(), nil
}

// open locks the workspace and finds its repository's place in the store.
func (s *Store) open(ctx context.Context, workspace, dir string) (place, *measurer, func(), error) {
	fail := func(err error) (place, *measurer, func(), error) { return place{}, nil, nil, err }
	part, err := refPart(workspace)
	if err != nil {
		return fail(err)
	}
	real, err := s.checkDir(dir)
	if err != nil {
		return fail(err)
	}
	unlock, err := s.lock(ctx, "workspace."+part)
	if err != nil {
		return fail(err)
	}
	p, err := locate(ctx, real)
	if err == nil && p.prefix != "" && p.ignoredWhole(ctx, "") {
		p = place{dir: real, top: real, format: "sha1"}
	}
	if err == nil {
		err = s.ensure(ctx, p.id(), p.format)
	}
	area := filepath.Join(s.RepoPath(p.id()), "perdure", part)
	if err == nil {
		err = os.MkdirAll(area, 0o700)
	}
	if err != nil {
		unlock()
		return fail(err)
	}
	return p, &measurer{store: s.git(p.id()), area: area, state: s.state}, unlock, nil
}

func (t *measured) state() State {
	p := t.place
	return State{Repo: p.id(), Tree: t.tree, Head: p.head, Branch: p.branch, Operations: operations(p.gitDir),
		Skipped: t.skipped, Files: t.files, Bytes: t.bytes, IsRepo: p.isRepo(), Partial: t.partial, Nested: t.nestedID()}
}

// nestedID identifies the content of the nested repositories.
func (t *measured) nestedID() string {
	if len(t.nested) == 0 {
		return ""
	}
	var lines []string
	for _, n := range t.nested {
		lines = append(lines, n.place.dir+"\x00"+n.tree+"\x00"+n.nestedID())
	}
	sort.Strings(lines)
	return hashID(strings.Join(lines, "\x00"))
}

// Capture takes a snapshot: objects, then the commit, then its ref, each on
// disk before the next. It is whole, or partial with the list of what is
// missing, or it fails; an older tree never stands in for it.
func (s *Store) Capture(ctx context.Context, r CaptureRequest) (Snapshot, error) {
	p, m, unlock, err := s.open(ctx, r.Workspace, r.Dir)
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	defer unlock()
	t, err := m.measure(ctx, p)
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	root, err := m.root(ctx, t)
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	if r.At.IsZero() {
		r.At = time.Now()
	}
	snap := Snapshot{ID: ulid.MustNew(ulid.Timestamp(r.At), ulid.DefaultEntropy()).String(), At: r.At.UTC(), Reason: r.Reason,
		Tree: t.tree, Head: p.head, Branch: p.branch, Files: t.files, Bytes: t.bytes, Handoff: r.Handoff,
		Behind: r.Behind, Skipped: t.skipped, Workspace: r.Workspace, Repo: p.id(), Message: r.Message,
		Partial: t.partial, Nested: t.nestedID()}
	if snap.Skipped == nil {
		snap.Skipped = []Skip{}
	}
	if err := s.commit(ctx, &snap, root); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	return snap, nil
}

// commit writes the commit, with the snapshot's description as its body, and
// the ref that makes the snapshot exist.
func (s *Store) commit(ctx context.Context, snap *Snapshot, root string) error {
	about, err := json.Marshal(snap)
	if err != nil {
		return err
	}
	message := fmt.Sprintf("snapshot %s of %s\n\n%s\n", snap.ID, snap.Workspace, about)
	g := s.git(snap.Repo)
	if snap.Commit, err = g.line(ctx, []byte(message), "commit-tree", root); err != nil {
		return err
	}
	part, err := refPart(snap.Workspace)
	if err != nil {
		return err
	}
	ref := snapshotRefs + part + "/" + snap.ID
	if _, err := g.run(ctx, nil, "update-ref", ref, snap.Commit); err != nil {
		return err
	}
	return syncDir(filepath.Dir(filepath.Join(g.dir, ref)))
}

// List gives a workspace's snapshots, newest first, as their refs tell.
func (s *Store) List(ctx context.Context, workspace string) ([]Snapshot, error) {
	part, err := refPart(workspace)
	if err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	repos, err := s.repos()
	if err != nil {
		return nil, err
	}
	var list []Snapshot
	for _, repo := range repos {
		out, err := s.git(repo).run(ctx, nil, "for-each-ref",
			"--format=%(objectname)%00%(contents:body)%00", snapshotRefs+part+"/")
		if err != nil {
			return nil, fmt.Errorf("snapshots: %w", err)
		}
		parts := strings.Split(string(out), "\x00")
		for i := 0; i+1 < len(parts); i += 2 {
			var snap Snapshot
			commit := strings.TrimSpace(parts[i])
			if err := json.Unmarshal([]byte(parts[i+1]), &snap); err != nil {
				return nil, fmt.Errorf("snapshot commit %s: %w", commit, err)
			}
			snap.Commit = commit
			list = append(list, snap)
		}
	}
	sort.SliceStable(list, func(a, b int) bool {
		if !list[a].At.Equal(list[b].At) {
			return list[a].At.After(list[b].At)
		}
		return list[a].ID > list[b].ID
	})
	return list, nil
}

// Remove deletes the refs of a workspace's snapshots, and its private indexes.
func (s *Store) Remove(ctx context.Context, workspace string) error {
	part, err := refPart(workspace)
	if err != nil {
		return err
	}
	unlock, err := s.lock(ctx, "workspace."+part)
	if err != nil {
		return err
	}
	defer unlock()
	repos, err := s.repos()
	if err != nil {
		return err
	}
	for _, repo := range repos {
		if err := s.removeFrom(ctx, repo, part); err != nil {
			return fmt.Errorf("remove snapshots of %s: %w", workspace, err)
		}
	}
	return nil
}

func (s *Store) removeFrom(ctx context.Context, repo, part string) error {
	unlock, err := s.lock(ctx, "refs."+repo)
	if err != nil {
		return err
	}
	defer unlock()
	// Deleting refs is done under this lock only: a lock file is a dead process's.
	os.Remove(filepath.Join(s.RepoPath(repo), "packed-refs.lock"))
	if err := s.deleteRefs(ctx, repo, snapshotRefs+part+"/"); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(s.RepoPath(repo), "perdure", part))
}
