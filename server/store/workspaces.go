package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"perdure/handoff"
	"perdure/snapshot"
	"perdure/workspace"
)

// PutWorkspace stores a definition in place of an earlier one of its name.
func (s *Store) PutWorkspace(d workspace.Definition) error {
	err := checkParts(d.Name)
	if err == nil {
		err = s.putJSON(key("workspace", d.Name), d)
	}
	return wrap(err, "store the workspace %q", d.Name)
}

// Workspace is the definition of a name, or ErrNotFound.
func (s *Store) Workspace(name string) (d workspace.Definition, err error) {
	err = s.read(func(t *badger.Txn) error { return getJSON(t, key("workspace", name), &d) })
	return d, wrap(err, "workspace %q", name)
}

// Workspaces are all definitions, by name.
func (s *Store) Workspaces() ([]workspace.Definition, error) {
	out, err := list[workspace.Definition](s, under("workspace"))
	return out, wrap(err, "list the workspaces")
}

// DeleteWorkspace removes a definition and the workspace's halt; what it recorded stays.
func (s *Store) DeleteWorkspace(name string) error {
	err := s.write(func(t *badger.Txn) error {
		if _, err := get(t, key("workspace", name)); err != nil {
			return err
		}
		if err := t.Delete(key("workspace", name)); err != nil {
			return err
		}
		return t.Delete(key("halt", name))
	})
	return wrap(err, "remove the workspace %q", name)
}

// Halt says why no ordinary session of a workspace may start.
type Halt struct {
	Workspace string          `json:"workspace"`
	At        time.Time       `json:"at"`
	Verdict   handoff.Verdict `json:"verdict"`
	Record    string          `json:"record"` // the id of the record that didn't hold
	Reason    string          `json:"reason"` // one line for a person
	Report    []byte          `json:"report"` // the verification's report, as JSON
}

// PutHalt halts a workspace, or changes why it is halted.
func (s *Store) PutHalt(h Halt) error {
	err := checkParts(h.Workspace)
	if err == nil {
		err = s.putJSON(key("halt", h.Workspace), h)
	}
	return wrap(err, "halt %q", h.Workspace)
}

// Halt is nil for a workspace that isn't halted.
func (s *Store) Halt(name string) (*Halt, error) {
	var h Halt
	err := s.read(func(t *badger.Txn) error { return getJSON(t, key("halt", name), &h) })
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("halt of %q: %w", name, err)
	}
	return &h, nil
}

// DeleteHalt releases a workspace, halted or not.
func (s *Store) DeleteHalt(name string) error {
	err := s.write(func(t *badger.Txn) error { return t.Delete(key("halt", name)) })
	return wrap(err, "release %q", name)
}

// PutSnapshot stores a snapshot's metadata.
func (s *Store) PutSnapshot(n snapshot.Snapshot) error {
	err := checkParts(n.Workspace, n.ID)
	if err == nil {
		err = s.putJSON(key("snapshot", n.Workspace, n.ID), n)
	}
	return wrap(err, "store the snapshot %q", n.ID)
}

// Snapshots are those of a workspace, newest first.
func (s *Store) Snapshots(ws string) ([]snapshot.Snapshot, error) {
	out, err := list[snapshot.Snapshot](s, under("snapshot", ws))
	slices.Reverse(out)
	return out, wrap(err, "list the snapshots of %q", ws)
}

// DeleteSnapshots forgets snapshots by their ids; those it doesn't know are no error.
func (s *Store) DeleteSnapshots(ws string, ids []string) error {
	for len(ids) > 0 {
		n := min(len(ids), purgeBatch)
		err := s.write(func(t *badger.Txn) error {
			for _, id := range ids[:n] {
				if err := t.Delete(key("snapshot", ws, id)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("forget snapshots of %q: %w", ws, err)
		}
		ids = ids[n:]
	}
	return nil
}

// workspaceKinds are the kinds of keys whose second part is a workspace's name, all that purging removes.
var workspaceKinds = []string{"snapshot", "record", "recordid", "observation", "report", "verdict", "override", "told"}

// purgeBatch is how many keys a purge removes at a time; a transaction of BadgerDB's is bounded.
const purgeBatch = 1000

// PurgeWorkspace removes all that the store has of a name. One that was broken off is finished by a repeat.
func (s *Store) PurgeWorkspace(name string) error {
	prefixes := [][]byte{}
	for _, kind := range workspaceKinds {
		prefixes = append(prefixes, under(kind, name))
	}
	for _, p := range prefixes {
		if err := s.purge(p, nil); err != nil {
			return fmt.Errorf("purge %q: %w", name, err)
		}
	}
	of := under("eventof", name)
	err := s.purge(of, func(k []byte) []byte { return key("event", string(bytes.TrimPrefix(k, of))) })
	if err == nil {
		err = s.write(func(t *badger.Txn) error {
			return errors.Join(t.Delete(key("halt", name)), t.Delete(key("workspace", name)))
		})
	}
	return wrap(err, "purge %q", name)
}

// purge removes the keys under a prefix, each with the other key that also maps it to.
func (s *Store) purge(prefix []byte, also func([]byte) []byte) error {
	for more := true; more; {
		err := s.write(func(t *badger.Txn) error {
			var keys [][]byte
			err := walk(t, prefix, nil, false, func(k, _ []byte) error {
				if keys = append(keys, k); len(keys) == purgeBatch {
					return errStop
				}
				return nil
			})
			if err != nil {
				return err
			}
			more = len(keys) == purgeBatch
			for _, k := range keys {
				if also != nil {
					if err := t.Delete(also(k)); err != nil {
						return err
					}
				}
				if err := t.Delete(k); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// wrap says what failed; nil stays nil.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
