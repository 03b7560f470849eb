package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Versions keeps of a list, newest first, the snapshots in which a file is not
// what it was in the one before: where it came, was edited, or went.
func (s *Store) Versions(ctx context.Context, list []Snapshot, name string) ([]Snapshot, error) {
	name = path.Clean(name)
	ids := make([]string, len(list))
	for i := 0; i < len(list); {
		// One process answers for neighbours in one repository.
		end := i + 1
		for end < len(list) && list[end].Repo == list[i].Repo {
			end++
		}
		found, err := s.fileIDs(ctx, list[i:end], name)
		if err != nil {
			return nil, err
		}
		copy(ids[i:], found)
		i = end
	}
	var out []Snapshot
	for i, snap := range list {
		before := ""
		if i+1 < len(list) {
			before = ids[i+1]
		}
		if ids[i] != before {
			out = append(out, snap)
		}
	}
	return out, nil
}

// fileIDs gives the id of a file in each of several snapshots of one
// repository, "" where it isn't there.
func (s *Store) fileIDs(ctx context.Context, list []Snapshot, name string) ([]string, error) {
	ids := make([]string, len(list))
	if !repoID(list[0].Repo) {
		return ids, nil
	}
	var ask bytes.Buffer
	for _, snap := range list {
		for _, in := range []string{"tree", "included"} {
			fmt.Fprintf(&ask, "%s:%s/%s\n", snap.Commit, in, name)
		}
	}
	if strings.Contains(name, "\n") || slices.ContainsFunc(list, func(n Snapshot) bool { return len(n.Repositories) > 0 }) {
		for i, snap := range list {
			id, err := s.fileID(ctx, snap, name)
			if err != nil {
				return nil, err
			}
			ids[i] = id
		}
		return ids, nil
	}
	out, err := s.git(list[0].Repo).run(ctx, ask.Bytes(), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return nil, fmt.Errorf("versions of %q: %w", name, err)
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		if id, ok := strings.CutSuffix(line, " blob"); ok && i/2 < len(ids) {
			ids[i/2] = id
		}
	}
	return ids, nil
}

func (s *Store) fileID(ctx context.Context, snap Snapshot, name string) (string, error) {
	parts, err := s.parts(ctx, snap)
	if err != nil {
		return "", fmt.Errorf("versions of %q: %w", name, err)
	}
	for _, p := range parts {
		for _, f := range p.files {
			if path.Join(p.at, f.path) == name && f.mode != "160000" {
				return f.oid, nil
			}
		}
	}
	return "", nil
}

// bring copies a tree that another repository of the store holds into repo, so
// that the two can be compared. It is false where none does.
func (s *Store) bring(ctx context.Context, repo, tree string) (bool, error) {
	others, err := s.repos()
	if err != nil {
		return false, err
	}
	for _, other := range others {
		if other == repo || !s.Has(ctx, other, tree) {
			continue
		}
		from, to := s.git(other), s.git(repo)
		ids, err := from.run(ctx, nil, "rev-list", "--objects", "--no-object-names", tree)
		if err != nil {
			return false, err
		}
		want, err := lacking(ctx, to, strings.Fields(string(ids)))
		if err != nil {
			return false, err
		}
		pack, err := from.run(ctx, []byte(strings.Join(want, "\n")+"\n"), "pack-objects", "-q", "--stdout")
		if err != nil {
			return false, err
		}
		_, err = to.run(ctx, pack, "index-pack", "--stdin")
		return err == nil, err
	}
	return false, nil
}
