package store

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"perdure/handoff"
)

// PutRecord stores an encoded record after those before it. Storing an id again changes its bytes and not
// its place, so that a rebuild may be repeated. The seq is the record's own; a new chain starts at 1 again.
func (s *Store) PutRecord(ws, id string, seq int, encoded []byte) error {
	err := checkParts(ws, id)
	if err == nil {
		err = s.write(func(t *badger.Txn) error { return putRecord(t, ws, id, encoded) })
	}
	return wrap(err, "store record %d of %q", seq, ws)
}

func putRecord(t *badger.Txn, ws, id string, encoded []byte) error {
	at, err := get(t, key("recordid", ws, id))
	if errors.Is(err, ErrNotFound) {
		n, err := lastNumber(t, under("record", ws))
		if err != nil {
			return err
		}
		at = []byte(number(n + 1))
		if err := t.Set(key("recordid", ws, id), at); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return t.Set(key("record", ws, string(at)), encoded)
}

// Records are the encoded records of a workspace, oldest first.
func (s *Store) Records(ws string) ([][]byte, error) {
	out, err := s.listRaw(under("record", ws))
	return out, wrap(err, "list the records of %q", ws)
}

// PutObservation stores what perdure noted by itself.
func (s *Store) PutObservation(ws, id string, data []byte) error {
	err := checkParts(ws, id)
	if err == nil {
		err = s.put(key("observation", ws, id), data)
	}
	return wrap(err, "store an observation of %q", ws)
}

// Observations are those of a workspace, oldest first.
func (s *Store) Observations(ws string) ([][]byte, error) {
	out, err := s.listRaw(under("observation", ws))
	return out, wrap(err, "list the observations of %q", ws)
}

// noRecord stands in the key of a report on a workspace that has no record.
const noRecord = "-"

// PutReport appends a verification's report. The recordID is empty where there was no record.
func (s *Store) PutReport(ws, recordID string, r handoff.Report) error {
	if recordID == "" {
		recordID = noRecord
	}
	data, err := json.Marshal(r)
	if err == nil {
		err = checkParts(ws, recordID)
	}
	if err == nil {
		err = s.write(func(t *badger.Txn) error {
			prefix := under("report", ws, recordID)
			n, err := lastNumber(t, prefix)
			if err != nil {
				return err
			}
			return t.Set(append(prefix, number(n+1)...), data)
		})
	}
	return wrap(err, "store a report on %q", ws)
}

// Reports are those of a workspace, oldest first.
func (s *Store) Reports(ws string) ([]handoff.Report, error) {
	out, err := list[handoff.Report](s, under("report", ws))
	// An old record may have been verified after a newer one was.
	slices.SortStableFunc(out, func(a, b handoff.Report) int { return a.At.Compare(b.At) })
	return out, wrap(err, "list the reports on %q", ws)
}

// PutOverride stores that a person released a halt without repair.
func (s *Store) PutOverride(ws, id string, data []byte) error {
	err := checkParts(ws, id)
	if err == nil {
		err = s.put(key("override", ws, id), data)
	}
	return wrap(err, "store an override of %q", ws)
}

// Overrides are those of a workspace, oldest first.
func (s *Store) Overrides(ws string) ([][]byte, error) {
	out, err := s.listRaw(under("override", ws))
	return out, wrap(err, "list the overrides of %q", ws)
}

// PutVerdict stores what a verification came to, in short; the ledger has it too.
func (s *Store) PutVerdict(ws, id string, data []byte) error {
	err := checkParts(ws, id)
	if err == nil {
		err = s.put(key("verdict", ws, id), data)
	}
	return wrap(err, "store a verdict on %q", ws)
}

// Verdicts are those of a workspace, oldest first.
func (s *Store) Verdicts(ws string) ([][]byte, error) {
	out, err := s.listRaw(under("verdict", ws))
	return out, wrap(err, "list the verdicts on %q", ws)
}
