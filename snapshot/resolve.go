package snapshot

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Resolve finds the snapshot that spec means in a list, newest first: an id or
// its prefix, "latest", "-N" or "latest-N" (N before the latest), or "@TIME" (the last one at
// or before; RFC 3339, or a date with or without a time, local). It fails with
// ErrNotFound or ErrAmbiguous.
func Resolve(list []Snapshot, spec string) (Snapshot, error) {
	if n, ok := strings.CutPrefix(spec, "latest-"); ok {
		spec = "-" + n
	}
	switch {
	case spec == "":
		return Snapshot{}, fmt.Errorf("snapshot %q: %w", spec, ErrNotFound)
	case spec == "latest":
		return nth(list, 0, spec)
	case spec[0] == '-':
		n, err := strconv.Atoi(spec[1:])
		if err != nil || n < 0 {
			return Snapshot{}, fmt.Errorf("snapshot %q: not a number: %w", spec, ErrNotFound)
		}
		return nth(list, n, spec)
	case spec[0] == '@':
		return before(list, spec)
	}
	var found []Snapshot
	for _, s := range list {
		if strings.EqualFold(s.ID, spec) {
			return s, nil
		}
		if len(spec) <= len(s.ID) && strings.EqualFold(s.ID[:len(spec)], spec) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return Snapshot{}, fmt.Errorf("snapshot %q: %w", spec, ErrNotFound)
	case 1:
		return found[0], nil
	}
	return Snapshot{}, fmt.Errorf("snapshot %q: %w: it fits %d snapshots", spec, ErrAmbiguous, len(found))
}

func nth(list []Snapshot, n int, spec string) (Snapshot, error) {
	if n >= len(list) {
		return Snapshot{}, fmt.Errorf("snapshot %q: %w: there are %d", spec, ErrNotFound, len(list))
	}
	return list[n], nil
}

func before(list []Snapshot, spec string) (Snapshot, error) {
	limit, err := parseTime(spec[1:])
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot %q: %w: %w", spec, ErrNotFound, err)
	}
	for _, s := range list {
		if !s.At.After(limit) {
			return s, nil
		}
	}
	return Snapshot{}, fmt.Errorf("snapshot %q: %w: none at or before", spec, ErrNotFound)
}

func parseTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time like 2006-01-02T15:04:05Z", text)
}
