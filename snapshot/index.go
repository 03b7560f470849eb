package snapshot

import (
	"context"
	"fmt"
	"strings"
)

// Refs are the ids of the snapshots that repositories hold, with the repository of each, by workspace. Nothing but
// names is read, so that a start can afford it.
func (s *Store) Refs(ctx context.Context) (map[string]map[string]string, error) {
	repos, err := s.repos()
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for _, repo := range repos {
		names, err := s.git(repo).run(ctx, nil, "for-each-ref", "--format=%(refname)", snapshotRefs)
		if err != nil {
			return nil, fmt.Errorf("list the snapshots in %s: %w", repo, err)
		}
		for ref := range strings.Lines(string(names)) {
			part, id, ok := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(ref, "\n"), snapshotRefs), "/")
			if !ok {
				continue
			}
			name := unrefPart(part)
			if out[name] == nil {
				out[name] = map[string]string{}
			}
			out[name][id] = repo
		}
	}
	return out, nil
}

// EntriesWanted is Entries of what want says yes to: the others are not read.
func (s *Store) EntriesWanted(ctx context.Context, want func(workspace, kind, key string) bool, fn func(workspace, kind, key string, data []byte) error) error {
	return s.entries(ctx, ledgerRefs, want, fn)
}
