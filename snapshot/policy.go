package snapshot

import (
	"fmt"
	"time"
)

// Policy says which snapshots are kept: all of the first stretch of time, then
// the newest of each hour, of each day and of each week.
type Policy struct {
	All    time.Duration // from now back
	Hourly time.Duration
	Daily  time.Duration
	Weekly time.Duration
}

// DefaultPolicy holds where nothing else is said.
var DefaultPolicy = Policy{All: 24 * time.Hour, Hourly: 7 * 24 * time.Hour, Daily: 8 * 7 * 24 * time.Hour, Weekly: 365 * 24 * time.Hour}

func (p Policy) String() string {
	days := func(d time.Duration) string { return fmt.Sprintf("%d days", int(d.Hours()/24)) }
	return fmt.Sprintf("all for %s, hourly for %s, daily for %s, weekly for %s; those that a handoff names, the first and the newest for ever",
		days(p.All), days(p.Hourly), days(p.Daily), days(p.Weekly))
}

// bucket names the stretch of time of which one snapshot is kept, "" where
// each is, "-" where none is.
func (p Policy) bucket(at, now time.Time) string {
	age := now.Sub(at)
	at = at.UTC()
	switch {
	case age <= p.All:
		return ""
	case age <= p.Hourly:
		return at.Format("2006-01-02T15")
	case age <= p.Daily:
		return at.Format("2006-01-02")
	case age <= p.Weekly:
		year, week := at.ISOWeek()
		return fmt.Sprintf("%d-W%02d", year, week)
	}
	return "-"
}

// Drop returns those of one workspace's snapshots, newest first, that the
// policy gives up. named are the ids that something else refers to; they, the
// newest and the first are always kept.
func (p Policy) Drop(list []Snapshot, named map[string]bool, now time.Time) []Snapshot {
	taken := map[string]bool{}
	var drop []Snapshot
	for i, snap := range list {
		key := p.bucket(snap.At, now)
		keep := key == "" || key != "-" && !taken[key]
		taken[key] = true
		if !keep && !named[snap.ID] && i != 0 && i != len(list)-1 {
			drop = append(drop, snap)
		}
	}
	return drop
}
