package main

import (
	"fmt"
	"os"

	"perdure/snapshot"
)

// limitNames are the environment variables that bound what snapshots take in.
var limitNames = [...]string{"PERDURE_MAX_FILE", "PERDURE_MAX_SNAPSHOT", "PERDURE_MAX_STORE", "PERDURE_MIN_FREE"}

// limits are the caps of snapshots in force, with where each came from.
func limits() (l snapshot.Limits, values [4]value, err error) {
	l = snapshot.DefaultLimits
	for i, to := range []*int64{&l.File, &l.Snapshot, &l.Store, &l.Free} {
		values[i] = value{snapshot.SizeText(*to), "default"}
		text := os.Getenv(limitNames[i])
		if text == "" {
			continue
		}
		if *to, err = snapshot.ParseSize(text); err != nil {
			return l, values, &problem{status: statusUsage, code: "usage", err: fmt.Errorf("%s: %w", limitNames[i], err)}
		}
		values[i] = value{snapshot.SizeText(*to), limitNames[i]}
	}
	return l, values, nil
}
