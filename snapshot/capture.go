package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	if err == nil {
		_, err = m.keep()
	}
	if err == nil {
		err = s.cut(ctx, p.id(), m.shallow)
	}
	if err != nil {
		return State{}, fmt.Errorf("read tree: %w", err)
	}
	return t.state(), nil
}

// open locks the workspace and finds its repository's place in the store.
func (s *Store) open(ctx context.Context, workspace, dir string) (p place, m *measurer, done func(), err error) {
	part, err := refPart(workspace)
	if err != nil {
		return p, nil, nil, err
	}
	real, err := s.checkDir(dir)
	if err != nil {
		return p, nil, nil, err
	}
	unlock, err := s.lock(ctx, "workspace."+part)
	if err != nil {
		return p, nil, nil, err
	}
	if p, err = locate(ctx, real); err == nil && p.prefix != "" && p.ignoredWhole(ctx, "") {
		p = place{dir: real, top: real, format: "sha1"}
	}
	unuse := func() {}
	if err == nil {
		if unuse, err = s.share(ctx, "use."+p.id()); err != nil {
			unuse = func() {}
		}
	}
	if err == nil {
		err = s.ensure(ctx, p.id(), p.format)
	}
	if err == nil {
		m, err = s.measurer(p, part)
	}
	if err != nil {
		unuse()
		unlock()
		return p, nil, nil, err
	}
	return p, m, func() { m.pack.abort(); unuse(); unlock() }, nil
}

func (s *Store) measurer(p place, part string) (*measurer, error) {
	b, err := s.budget(p.id())
	if err != nil {
		return nil, err
	}
	size := idSize(p.format)
	area := filepath.Join(s.RepoPath(p.id()), "perdure", part)
	if err := os.MkdirAll(area, 0o700); err != nil {
		return nil, fmt.Errorf("stat cache: %w", err)
	}
	return &measurer{store: s.git(p.id()), area: area, caches: &s.caches, state: s.state, size: size, pack: newPacker(s.RepoPath(p.id()), size), budget: b}, nil
}

func (t *measured) state() State {
	p := t.place
	return State{Repo: p.id(), Tree: t.tree, Head: p.head, Branch: p.branch, Operations: operations(p.gitDir),
		Skipped: t.skipped, Files: t.files, Bytes: t.bytes, IsRepo: p.isRepo(), Partial: t.partial, Nested: t.nestedID(), Inner: t.inner()}
}

// inner names each nested repository with an id of its content.
func (t *measured) inner() map[string]string {
	out := map[string]string{}
	for _, n := range t.nested {
		at := strings.TrimPrefix(strings.TrimPrefix(n.place.dir, t.place.dir), "/")
		out[shown(at)] = strings.TrimSuffix(n.tree+"+"+n.nestedID(), "+")
	}
	return out
}

// nestedID identifies what is kept beside the tree: the content of the nested
// repositories, and the files that are opted in.
func (t *measured) nestedID() string {
	if len(t.nested) == 0 && t.opted == nil {
		return ""
	}
	var lines []string
	if t.opted != nil {
		t.opted.each(func(f *folder) {
			for _, e := range f.entries {
				lines = append(lines, fmt.Sprintf("%s\x00%x %o", joinPath(f.path, e.name), e.id, e.st.Mode))
			}
		})
	}
	for _, n := range t.nested {
		lines = append(lines, n.place.dir+"\x00"+n.tree+"\x00"+n.nestedID())
	}
	sort.Strings(lines)
	return hashID(strings.Join(lines, "\x00"))
}

// CaptureChanged is Capture, but where the directory is as last has it: then
// there is no new snapshot, and changed is false.
func (s *Store) CaptureChanged(ctx context.Context, r CaptureRequest, last *Snapshot) (snap Snapshot, changed bool, err error) {
	snap, err = s.capture(ctx, r, last)
	if errors.Is(err, errSame) {
		return *last, false, nil
	}
	return snap, err == nil, err
}

// errSame: there is nothing to capture that last doesn't have.
var errSame = errors.New("nothing changed")

// Capture takes a snapshot: objects, then its ref, each on disk before the
// next. It is whole, or partial with the list of what is missing, or it fails;
// an older tree never stands in for it.
func (s *Store) Capture(ctx context.Context, r CaptureRequest) (Snapshot, error) {
	return s.capture(ctx, r, nil)
}

func (s *Store) capture(ctx context.Context, r CaptureRequest, last *Snapshot) (Snapshot, error) {
	p, m, done, err := s.open(ctx, r.Workspace, r.Dir)
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	defer done()
	m.include = r.Include
	t, err := m.measure(ctx, p)
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	hook("measured")
	if last != nil && t.same(last) {
		if _, err := m.keep(); err != nil {
			return Snapshot{}, fmt.Errorf("snapshot: %w", err)
		}
		return Snapshot{}, errSame
	}
	if r.RecordTree != "" {
		if r.Behind, err = t.behind(ctx, m, r.RecordTree); err != nil {
			return Snapshot{}, fmt.Errorf("snapshot: %w", err)
		}
	}
	w := &writer{measurer: m, c: newCompressor()}
	root, err := w.root(ctx, t)
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	t.addSkips(w.notes)
	snap := describe(r, p, t)
	snap.Stashes = w.stashes
	if err := s.commit(ctx, &snap, w, root); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	return snap, nil
}

// same tells whether a snapshot has all that was measured.
func (t *measured) same(last *Snapshot) bool {
	p := t.place
	return last.Repo == p.id() && last.Tree == t.tree && last.Head == p.head && last.Branch == p.branch &&
		last.Nested == t.nestedID() && last.Partial == t.partial && slices.Equal(last.Operations, operations(p.gitDir))
}

// behind counts the files by which the tree differs from one of the store; all
// of them, where the store lacks that one.
func (t *measured) behind(ctx context.Context, m *measurer, tree string) (int, error) {
	if tree == t.tree {
		return 0, nil
	}
	then := map[string]tracked{}
	if hexID(tree) {
		out, err := m.store.run(ctx, nil, "ls-tree", "-r", "-z", tree)
		if err != nil && ctx.Err() != nil {
			return 0, err
		}
		for _, line := range fields(out) {
			if f, ok := parseTree(line); ok && f.mode != "160000" {
				then[f.path] = f
			}
		}
	}
	count := 0
	t.scan.top.each(func(f *folder) {
		for i := range f.entries {
			e := &f.entries[i]
			line, ok := (&trees{}).line(f, e)
			if !ok || e.folder != nil || line.mode == "160000" {
				continue
			}
			name := joinPath(f.path, e.name)
			if old, ok := then[name]; !ok || old.mode != line.mode || old.oid != e.id.text(m.size) {
				count++
			}
			delete(then, name)
		}
	})
	return count + len(then), nil
}

// describe is the snapshot but for its commit.
func describe(r CaptureRequest, p place, t *measured) Snapshot {
	if r.At.IsZero() {
		r.At = time.Now()
	}
	snap := Snapshot{ID: ulid.MustNew(ulid.Timestamp(r.At), ulid.DefaultEntropy()).String(), At: r.At.UTC(), Reason: r.Reason,
		Tree: t.tree, Head: p.head, Branch: p.branch, Files: t.files, Bytes: t.bytes, Handoff: r.Handoff,
		Behind: r.Behind, Skipped: t.skipped, Workspace: r.Workspace, Repo: p.id(), Message: r.Message,
		Partial: t.partial, Nested: t.nestedID(), Operations: operations(p.gitDir), Session: r.Session, Offset: r.Offset}
	if snap.Skipped == nil {
		snap.Skipped = []Skip{}
	}
	for _, n := range t.nested {
		at := strings.TrimPrefix(strings.TrimPrefix(n.place.dir, p.dir), "/")
		snap.Repositories = append(snap.Repositories, Repository{Path: shown(at), Head: n.place.head, Branch: n.place.branch})
	}
	if t.opted != nil {
		t.opted.each(func(f *folder) {
			for i := range f.entries {
				if f.entries[i].folder == nil {
					snap.Included++
				}
			}
		})
	}
	return snap
}

// commit writes the commit, with the snapshot's description as its body and
// the user's commits as parents, and the ref that makes the snapshot exist.
func (s *Store) commit(ctx context.Context, snap *Snapshot, w *writer, root objectID) error {
	about, err := json.Marshal(snap)
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "tree %s\n", root.text(w.size))
	for _, parent := range unique(w.kept) {
		fmt.Fprintf(&text, "parent %s\n", parent)
	}
	who := fmt.Sprintf("perdure <perdure@localhost> %d +0000\n", snap.At.Unix())
	fmt.Fprintf(&text, "author %scommitter %s\nsnapshot %s of %s\n\n%s\n", who, who, snap.ID, snap.Workspace, about)
	id, err := w.pack.put(w.c, typeCommit, []byte(text.String()))
	if err != nil {
		return err
	}
	snap.Commit = id.text(w.size)
	if _, err := w.keep(); err != nil {
		return err
	}
	part, err := refPart(snap.Workspace)
	if err != nil {
		return err
	}
	if err := s.cut(ctx, snap.Repo, append(w.cut, w.shallow...)); err != nil {
		return err
	}
	hook("before-ref")
	return writeRef(w.store.dir, snapshotRefs+part+"/"+snap.ID, snap.Commit)
}

func (s *Store) cut(ctx context.Context, repo string, commits []string) error {
	if len(commits) == 0 {
		return nil
	}
	unlock, err := s.lock(ctx, "shallow."+repo)
	if err != nil {
		return err
	}
	defer unlock()
	return writeShallow(s.RepoPath(repo), commits)
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
	if err := replaceSynced(filepath.Join(s.RepoPath(repo), "perdure", "garbage"), nil); err != nil {
		return err
	}
	if err := s.deleteRefs(ctx, repo, snapshotRefs+part+"/"); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(s.RepoPath(repo), "perdure", part))
}
