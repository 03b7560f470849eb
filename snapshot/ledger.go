package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ledgerID is the repository of durable objects that belong to no tree.
const ledgerID = "ledger"

const ledgerRefs = "refs/perdure/"

// Put stores one durable object: on return it is on disk, under
// refs/perdure/WORKSPACE/KIND/KEY. An older object of that key is replaced.
func (s *Store) Put(ctx context.Context, workspace, kind, key string, data []byte) error {
	ref, err := ledgerRef(workspace, kind, key)
	if err != nil {
		return fmt.Errorf("put %s %s: %w", kind, key, err)
	}
	if err := s.ensure(ctx, ledgerID, "sha1"); err != nil {
		return fmt.Errorf("put %s %s: %w", kind, key, err)
	}
	unlock, err := s.lock(ctx, "ledger")
	if err != nil {
		return err
	}
	defer unlock()
	g := s.git(ledgerID)
	id, err := g.line(ctx, data, "hash-object", "-w", "--no-filters", "--stdin")
	if err != nil {
		return fmt.Errorf("put %s %s: %w", kind, key, err)
	}
	// We hold the only lock there is: a lock file here is a dead writer's.
	os.Remove(filepath.Join(g.dir, ref+".lock"))
	if _, err := g.run(ctx, nil, "update-ref", ref, id); err != nil {
		return fmt.Errorf("put %s %s: %w", kind, key, err)
	}
	return syncDir(filepath.Dir(filepath.Join(g.dir, ref)))
}

// Get is the durable object of a key, nil if there is none.
func (s *Store) Get(ctx context.Context, workspace, kind, key string) ([]byte, error) {
	ref, err := ledgerRef(workspace, kind, key)
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", kind, key, err)
	}
	g := s.git(ledgerID)
	if _, err := os.Stat(filepath.Join(g.dir, "HEAD")); os.IsNotExist(err) {
		return nil, nil
	}
	out, err := g.run(ctx, nil, "for-each-ref", "--format=%(objectname)", ref)
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", kind, key, err)
	}
	id := strings.TrimSpace(string(out))
	if id == "" {
		return nil, nil
	}
	data, err := g.run(ctx, nil, "cat-file", "blob", id)
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", kind, key, err)
	}
	return data, nil
}

func ledgerRef(parts ...string) (string, error) {
	out := make([]string, 0, len(parts))
	for _, p := range parts {
		part, err := refPart(p)
		if err != nil {
			return "", err
		}
		out = append(out, part)
	}
	return ledgerRefs + strings.Join(out, "/"), nil
}

// Entries gives every durable object, in the order of workspace, kind and key.
// It stops at fn's first error, and goes on over damaged ones: the error is then
// a *DamagedError.
func (s *Store) Entries(ctx context.Context, fn func(workspace, kind, key string, data []byte) error) error {
	return s.entries(ctx, ledgerRefs, nil, fn)
}

// EntriesOf gives the durable objects of one workspace, as Entries does.
func (s *Store) EntriesOf(ctx context.Context, workspace string, fn func(kind, key string, data []byte) error) error {
	prefix, err := ledgerRef(workspace)
	if err != nil {
		return err
	}
	return s.entries(ctx, prefix+"/", nil, func(_, kind, key string, data []byte) error { return fn(kind, key, data) })
}

// entries reads those that want says yes to, or all where it is nil.
func (s *Store) entries(ctx context.Context, prefix string, want func(workspace, kind, key string) bool, fn func(workspace, kind, key string, data []byte) error) error {
	g := s.git(ledgerID)
	if _, err := os.Stat(filepath.Join(g.dir, "HEAD")); os.IsNotExist(err) {
		return nil
	}
	out, err := g.run(ctx, nil, "for-each-ref", "--format=%(objectname) %(refname)", prefix)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	objects, err := openObjects(ctx, g)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer func() { objects.close() }()
	var damaged []error
	for _, line := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		id, ref, _ := strings.Cut(line, " ")
		parts := strings.Split(strings.TrimPrefix(ref, ledgerRefs), "/")
		if len(parts) != 3 || want != nil && !want(unrefPart(parts[0]), unrefPart(parts[1]), unrefPart(parts[2])) {
			continue
		}
		var data bytes.Buffer
		if _, err := objects.copy(id, &data); err != nil {
			damaged = append(damaged, fmt.Errorf("ledger %s: %w", ref, err))
			// git ends at an object that is damaged: the others are read by a new one.
			objects.close()
			if objects, err = openObjects(ctx, g); err != nil {
				return fmt.Errorf("ledger: %w", err)
			}
			continue
		}
		if err := fn(unrefPart(parts[0]), unrefPart(parts[1]), unrefPart(parts[2]), data.Bytes()); err != nil {
			return err
		}
	}
	if len(damaged) > 0 {
		return &DamagedError{Objects: damaged}
	}
	return nil
}

// DamagedError says which durable objects could not be read; all others were given.
type DamagedError struct{ Objects []error }

func (e *DamagedError) Error() string { return errors.Join(e.Objects...).Error() }

// Forget deletes the refs of a workspace's durable objects.
func (s *Store) Forget(ctx context.Context, workspace string) error {
	part, err := refPart(workspace)
	if err != nil {
		return err
	}
	if _, err := os.Stat(s.RepoPath(ledgerID)); os.IsNotExist(err) {
		return nil
	}
	unlock, err := s.lock(ctx, "ledger")
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.deleteRefs(ctx, ledgerID, ledgerRefs+part+"/"); err != nil {
		return fmt.Errorf("forget %s: %w", workspace, err)
	}
	return nil
}

// deleteRefs removes all refs below prefix in one transaction. The caller
// holds the lock under which they are written.
func (s *Store) deleteRefs(ctx context.Context, repo, prefix string) error {
	g := s.git(repo)
	out, err := g.run(ctx, nil, "for-each-ref", "--format=delete %(refname)", prefix)
	if err != nil || len(out) == 0 {
		return err
	}
	_, err = g.run(ctx, out, "update-ref", "--stdin")
	return err
}
