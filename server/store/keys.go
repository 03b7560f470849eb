package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dgraph-io/badger/v4"
)

// key joins the parts of a key. Names and ids hold no NUL, which checkParts sees to where they come in.
func key(parts ...string) []byte { return []byte(strings.Join(parts, "\x00")) }

// under is the prefix of all keys that have further parts after these.
func under(parts ...string) []byte { return append(key(parts...), 0) }

// number is a part that sorts as the number does.
func number(n uint64) string { return fmt.Sprintf("%016x", n) }

func checkParts(parts ...string) error {
	for _, p := range parts {
		if p == "" || strings.ContainsRune(p, 0) {
			return fmt.Errorf("%q can't be part of a key", p)
		}
	}
	return nil
}

// read runs fn on one consistent state of the store.
func (s *Store) read(fn func(*badger.Txn) error) error { return s.db.View(fn) }

// write runs fn in a transaction that is on disk, whole, when write returns nil. fn may run more than once:
// again each time another writer came first.
func (s *Store) write(fn func(*badger.Txn) error) error {
	if err := checkSpace(s.dir); err != nil {
		return err
	}
	for {
		err := s.db.Update(fn)
		if !errors.Is(err, badger.ErrConflict) {
			return err
		}
	}
}

func (s *Store) put(k, v []byte) error {
	return s.write(func(t *badger.Txn) error { return t.Set(k, v) })
}

func (s *Store) putJSON(k []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.put(k, data)
}

func get(t *badger.Txn, k []byte) ([]byte, error) {
	item, err := t.Get(k)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

func getJSON(t *badger.Txn, k []byte, v any) error {
	data, err := get(t, k)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// errStop ends a walk early, and is no error.
var errStop = errors.New("stop")

// walk calls fn for every key under a prefix from start on, in order; start is at or after the prefix, or nil.
func walk(t *badger.Txn, prefix, start []byte, values bool, fn func(k, v []byte) error) error {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.PrefetchValues, o.PrefetchSize = prefix, values, 32
	it := t.NewIterator(o)
	defer it.Close()
	if start == nil {
		start = prefix
	}
	for it.Seek(start); it.ValidForPrefix(prefix); it.Next() {
		item := it.Item()
		var v []byte
		if values {
			var err error
			if v, err = item.ValueCopy(nil); err != nil {
				return err
			}
		}
		err := fn(item.KeyCopy(nil), v)
		if errors.Is(err, errStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listRaw is the values under a prefix, in the order of their keys.
func (s *Store) listRaw(prefix []byte) (out [][]byte, err error) {
	err = s.read(func(t *badger.Txn) error {
		return walk(t, prefix, nil, true, func(_, v []byte) error {
			out = append(out, v)
			return nil
		})
	})
	return out, err
}

// list is listRaw with each value decoded.
func list[T any](s *Store, prefix []byte) ([]T, error) {
	raw, err := s.listRaw(prefix)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(raw))
	for i, data := range raw {
		if err := json.Unmarshal(data, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// lastNumber is the number that ends the last key under a prefix, 0 if there is none.
func lastNumber(t *badger.Txn, prefix []byte) (n uint64, err error) {
	err = walk(t, prefix, nil, false, func(k, _ []byte) error {
		_, err := fmt.Sscanf(string(k[len(prefix):]), "%016x", &n)
		return err
	})
	return n, err
}
