package store

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Event is something that happened to a workspace.
type Event struct {
	Seq       uint64 // given by AppendEvent, from 1
	At        time.Time
	Workspace string // empty for the server's own
	Kind      string
	Fields    map[string]any // what more is known, by lower-case names
}

// storedEvent is an event's value; its fields are kept apart, so that none can shadow another key.
type storedEvent struct {
	Seq       uint64         `json:"seq"`
	At        time.Time      `json:"at"`
	Workspace string         `json:"workspace,omitempty"`
	Kind      string         `json:"kind"`
	Fields    map[string]any `json:"fields,omitempty"`
}

// MarshalJSON is the form that programs read: at, workspace and kind, then the fields by name. A field that
// is named like one of the three is left out.
func (e Event) MarshalJSON() ([]byte, error) {
	type pair struct {
		k string
		v any
	}
	pairs := []pair{{"at", e.At}, {"workspace", e.Workspace}, {"kind", e.Kind}}
	names := make([]string, 0, len(e.Fields))
	for k := range e.Fields {
		if k != "at" && k != "workspace" && k != "kind" {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		pairs = append(pairs, pair{k, e.Fields[k]})
	}
	var b bytes.Buffer
	for i, p := range pairs {
		b.WriteByte("{,"[min(i, 1)])
		k, err := json.Marshal(p.k)
		if err != nil {
			return nil, err
		}
		v, err := json.Marshal(p.v)
		if err != nil {
			return nil, err
		}
		b.Write(k)
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// AppendEvent stores an event after all others and returns it with its number. An event without a time
// gets the present one.
func (s *Store) AppendEvent(e Event) (Event, error) {
	if e.At.IsZero() {
		e.At = time.Now().UTC()
	}
	err := checkParts(e.Kind)
	if err == nil && e.Workspace != "" {
		err = checkParts(e.Workspace)
	}
	if err == nil {
		err = s.write(func(t *badger.Txn) error { return appendEvent(t, &e) })
	}
	return e, wrap(err, "store the event %q", e.Kind)
}

// appendEvent numbers the event in its own transaction: two writers with the same number conflict, and one
// of them tries again, so no reader sees a later event before an earlier one.
func appendEvent(t *badger.Txn, e *Event) error {
	n, err := eventCount(t)
	if err != nil {
		return err
	}
	e.Seq = n + 1
	data, err := json.Marshal(storedEvent(*e))
	if err != nil {
		return err
	}
	if err := t.Set(key("meta", "events"), strconv.AppendUint(nil, e.Seq, 10)); err != nil {
		return err
	}
	if e.Workspace != "" {
		if err := t.Set(key("eventof", e.Workspace, number(e.Seq)), nil); err != nil {
			return err
		}
	}
	if err := indexSession(t, *e); err != nil {
		return err
	}
	return t.Set(key("event", number(e.Seq)), data)
}

// Events are those after a number, oldest first, of one workspace or, with ws empty, of all. A limit of 0 is
// none.
func (s *Store) Events(ws string, after uint64, limit int) (out []Event, err error) {
	add := func(data []byte) error {
		var e storedEvent
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		if out = append(out, Event(e)); len(out) == limit {
			return errStop
		}
		return nil
	}
	err = s.read(func(t *badger.Txn) error {
		if ws == "" {
			return walk(t, under("event"), key("event", number(after+1)), true, func(_, v []byte) error { return add(v) })
		}
		prefix := under("eventof", ws)
		return walk(t, prefix, key("eventof", ws, number(after+1)), false, func(k, _ []byte) error {
			data, err := get(t, key("event", string(k[len(prefix):])))
			if err != nil {
				return err
			}
			return add(data)
		})
	})
	return out, wrap(err, "list the events")
}
