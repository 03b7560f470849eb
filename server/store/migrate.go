package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// migrations bring a store from a schema to the next: migrations[1] from 1 to 2. Each may be repeated, since the
// schema's number is written after it, and must leave what it doesn't know.
var migrations = map[int]func(*Store) error{
	1: indexSessions,
}

// migrate brings an older store up to Schema, after a backup: an older perdure can still be given that.
func (s *Store) migrate(me identity) error {
	if me.Schema == Schema {
		return nil
	}
	for v := me.Schema; v < Schema; v++ {
		if migrations[v] == nil {
			return &ErrSchema{Have: me.Schema, Want: Schema}
		}
	}
	if err := s.Backup(backupsKept); err != nil {
		return err
	}
	for v := me.Schema; v < Schema; v++ {
		if err := migrations[v](s); err != nil {
			return fmt.Errorf("bring the store from schema %d to %d: %w", v, v+1, err)
		}
		me.Schema = v + 1
		if err := s.putJSON(key("meta", "store"), me); err != nil {
			return fmt.Errorf("bring the store to schema %d: %w", me.Schema, err)
		}
	}
	return nil
}

// backupsKept is how many backups stay when a migration makes one more.
const backupsKept = 5

// indexSessions writes the keys by which Told finds an event without reading all of them.
func indexSessions(s *Store) error {
	events, err := s.Events("", 0, 0)
	if err != nil {
		return err
	}
	for len(events) > 0 {
		n := min(len(events), purgeBatch)
		err := s.write(func(t *badger.Txn) error {
			for _, e := range events[:n] {
				if err := indexSession(t, e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// indexSession marks that an event about a session was told, for the kinds that are told once.
func indexSession(t *badger.Txn, e Event) error {
	id, _ := e.Fields["session"].(string)
	if e.Workspace == "" || checkParts(id) != nil || e.Kind != "ended" && e.Kind != "lost" {
		return nil
	}
	return t.Set(key("told", e.Workspace, e.Kind, id), nil)
}

// Told says whether an event of this kind, ended or lost, was stored for a session.
func (s *Store) Told(ws, kind, session string) (bool, error) {
	found := false
	err := s.read(func(t *badger.Txn) error {
		return walk(t, key("told", ws, kind, session), nil, false, func(k, _ []byte) error {
			found = found || bytes.Equal(k, key("told", ws, kind, session))
			return nil
		})
	})
	return found, wrap(err, "look for an event of %q", ws)
}

// readIdentity is what a database says of itself, or ErrNotFound.
func readIdentity(t *badger.Txn) (me identity, err error) {
	data, err := get(t, key("meta", "store"))
	if err != nil {
		return me, err
	}
	return me, json.Unmarshal(data, &me)
}

// Ids are which keys of a kind, a workspace and an id there are.
func (s *Store) Ids(kinds ...string) (map[[3]string]bool, error) {
	out := map[[3]string]bool{}
	err := s.read(func(t *badger.Txn) error {
		for _, kind := range kinds {
			err := walk(t, under(kind), nil, false, func(k, _ []byte) error {
				if parts := bytes.SplitN(k, []byte{0}, 3); len(parts) == 3 {
					out[[3]string{kind, string(parts[1]), string(parts[2])}] = true
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, wrap(err, "list the ids")
}
