// Package store is perdure's index, and the only user of BadgerDB.
//
// It holds what the server looks up often: definitions, halts, snapshots, records, reports and events. What
// must last is an object of the snapshot repositories before it comes here, so a store that is damaged or
// deleted is rebuilt from those; Open says so by ErrCorrupt, and never presents an empty store as the truth.
// Every write is on disk when it returns. Keys and values are described in FORMAT.md.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/oklog/ulid/v2"
)

// Schema is the version of keys and values that this package reads and writes.
const Schema = 2

var (
	// ErrNotFound is the answer to a name that the store doesn't have.
	ErrNotFound = errors.New("not found")
	// ErrCorrupt says that a store lost data or can't be read. It has to be rebuilt, not used.
	ErrCorrupt = errors.New("the store is damaged")
	// ErrNoSpace refuses a write, or an opening, that a nearly full disk would turn into a crash.
	ErrNoSpace = errors.New("too little free disk space")
)

// ErrSchema is a store of another schema than ours. Nothing was changed in it.
type ErrSchema struct{ Have, Want int }

func (e *ErrSchema) Error() string {
	if e.Have > e.Want {
		return fmt.Sprintf("the store has schema %d and this perdure knows %d: a newer perdure wrote it", e.Have, e.Want)
	}
	return fmt.Sprintf("the store has schema %d and this perdure needs %d", e.Have, e.Want)
}

// Store is an open store. Its methods may be called concurrently; one process opens a store at a time.
type Store struct {
	dir   string
	id    string
	db    *badger.DB
	once  sync.Once
	close error
}

// identity is the value of the key "meta store".
type identity struct {
	ID     string `json:"id"`
	Schema int    `json:"schema"`
}

// Open opens the store in the folder dir, or makes it, and brings one of an older schema up to date. The sentinel
// lies beside it, in dir + ".id", and so do the ballast and the backups. The error is ErrCorrupt, an *ErrSchema or
// ErrNoSpace where these apply.
func Open(dir string) (*Store, error) {
	dir = filepath.Clean(dir)
	mark, err := readSentinel(dir)
	if err != nil {
		return nil, err
	}
	if mark != nil {
		if err := mark.check(dir); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the store's folder: %w", err)
	}
	if err := checkSpace(dir); err != nil {
		return nil, err
	}
	db, err := openBadger(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, db: db}
	if err := s.recognise(mark); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := errors.Join(s.update(), s.writeSentinel(), s.Tend()); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// update migrates a store that an older perdure wrote.
func (s *Store) update() error {
	var me identity
	err := s.read(func(t *badger.Txn) (err error) {
		me, err = readIdentity(t)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	return s.migrate(me)
}

// badgerOptions keep BadgerDB small, about 15 MB resident, and synced.
func badgerOptions(dir string) badger.Options {
	o := badger.DefaultOptions(dir)
	o.Logger = nil
	o.SyncWrites = true
	o.MemTableSize = 4 << 20
	o.NumMemtables = 1
	o.NumCompactors = 2
	o.NumLevelZeroTables = 2
	o.NumLevelZeroTablesStall = 4
	o.BaseTableSize = 1 << 20
	o.ValueLogFileSize = 16 << 20
	o.ValueThreshold = 256 << 10
	o.Compression = options.None
	o.BlockCacheSize = 0
	o.MetricsEnabled = false
	o.ChecksumVerificationMode = options.OnTableAndBlockRead
	return o
}

// openBadger opens the database. What it can't open is damaged, save where another process holds it; some
// damage makes BadgerDB panic.
func openBadger(dir string) (db *badger.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("%w: %s: %v", ErrCorrupt, dir, p)
		}
	}()
	unlock, err := tryLock(dir)
	if err != nil {
		return nil, err
	}
	unlock()
	db, err = badger.Open(badgerOptions(dir))
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("open the store: %w", err)
	case errors.Is(err, syscall.ENOSPC):
		return nil, fmt.Errorf("%w: %s: %w", ErrNoSpace, dir, err)
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, dir, err)
}

// recognise checks that this is the store that the sentinel tells of, or makes a new one where there is none.
func (s *Store) recognise(mark *sentinel) error {
	var me identity
	err := s.read(func(t *badger.Txn) (err error) {
		me, err = readIdentity(t)
		return err
	})
	switch {
	case errors.Is(err, ErrNotFound) && mark != nil:
		return fmt.Errorf("%w: %s is empty, though %s says that it was in use", ErrCorrupt, s.dir, sentinelPath(s.dir))
	case errors.Is(err, ErrNotFound):
		return s.create()
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, s.dir, err)
	case me.Schema > Schema || me.Schema < 1:
		return &ErrSchema{Have: me.Schema, Want: Schema}
	case mark != nil && mark.ID != me.ID:
		return fmt.Errorf("%w: %s has the id %s, and %s says %s", ErrCorrupt, s.dir, me.ID, sentinelPath(s.dir), mark.ID)
	}
	s.id = me.ID
	if mark == nil {
		return nil
	}
	last, err := s.lastEvent()
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, s.dir, err)
	}
	if last < mark.Events {
		return fmt.Errorf("%w: %s ends at event %d, though it had %d", ErrCorrupt, s.dir, last, mark.Events)
	}
	return nil
}

// create writes who a new store is. A store that has data but doesn't know its name is no new one.
func (s *Store) create() error {
	me := identity{ID: ulid.Make().String(), Schema: Schema}
	data, err := json.Marshal(me)
	if err != nil {
		return fmt.Errorf("make the store: %w", err)
	}
	err = s.write(func(t *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.PrefetchValues = false
		it := t.NewIterator(o)
		it.Rewind()
		used := it.Valid()
		it.Close()
		if used {
			return fmt.Errorf("%w: %s has data, but not its own identity", ErrCorrupt, s.dir)
		}
		return t.Set(key("meta", "store"), data)
	})
	if err != nil {
		return fmt.Errorf("make the store: %w", err)
	}
	s.id = me.ID
	return nil
}

// lastEvent is the number of the newest event, 0 if there is none.
func (s *Store) lastEvent() (n uint64, err error) {
	err = s.read(func(t *badger.Txn) error {
		n, err = eventCount(t)
		return err
	})
	return n, err
}

func eventCount(t *badger.Txn) (uint64, error) {
	data, err := get(t, key("meta", "events"))
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(data), 10, 64)
}

// Close closes the store. Only the first call does anything; the others return what it returned. On a full disk it
// is ErrNoSpace, and the store is left as a kill would leave it, all writes on disk: closing writes through mapped
// files too. Then it may be called again.
func (s *Store) Close() error {
	if err := checkSpace(s.dir); errors.Is(err, ErrNoSpace) {
		return fmt.Errorf("close the store: %w", err)
	}
	s.once.Do(func() {
		s.close = s.writeSentinel()
		if err := s.db.Close(); err != nil {
			s.close = errors.Join(s.close, fmt.Errorf("close the store: %w", err))
		}
	})
	return s.close
}
