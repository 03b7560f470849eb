package server

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"perdure/server/store"
)

// tendEvery is how often the disk is looked at.
const tendEvery = 2 * time.Second

// tend watches over the room on the disk, and takes the store's backups.
func (s *Server) tend(ctx context.Context) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	var retry time.Time
	for {
		s.lookAtSpace()
		if time.Now().After(retry) {
			if err := s.backupIfDue(); err != nil {
				s.log.Error("no backup of the store could be made", "err", err)
				retry = time.Now().Add(10 * time.Minute)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Server) backupIfDue() error {
	last, err := store.LastBackup(filepath.Join(s.opts.State, "store"))
	if err != nil {
		return err
	}
	// A clock that was set back makes the newest backup one of the future.
	if since := time.Since(last); since >= 0 && since < backupEvery && last.After(s.started) {
		return nil
	}
	if since := time.Since(last); since >= 0 && since < time.Minute {
		return nil // a server that is started over and over keeps its older backups
	}
	return s.store.Backup(backupsKept)
}

// lookAtSpace says once when the disk gets full, and when there is room again.
func (s *Server) lookAtSpace() {
	if err := s.store.Tend(); err != nil {
		s.log.Warn("the store's folder", "err", err)
	}
	err := s.store.Room()
	s.mu.Lock()
	before := s.lowSpace
	switch {
	case err == nil:
		s.lowSpace = nil
	case before == nil:
		s.lowSpace = &failure{Since: time.Now().UTC(), Error: err.Error()}
	default:
		s.lowSpace = &failure{Since: before.Since, Error: err.Error()}
	}
	s.mu.Unlock()
	if err != nil && before == nil {
		fields := map[string]any{"error": err.Error()}
		if free, err := store.Free(s.opts.State); err == nil {
			fields["free"] = free
		}
		s.event("", "low_space", fields)
	}
}

func (s *Server) fullDisk() *failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lowSpace
}

// roomFor refuses what can wait while the disk is nearly full, so that what has to be written still can be.
func (s *Server) roomFor(what string) error {
	err := s.store.Room()
	if err == nil {
		return nil
	}
	if !errors.Is(err, store.ErrNoSpace) {
		return err
	}
	return &problem{statusFailed, "no-space", &noRoom{what, err}, hintNoSpace}
}

// noRoom is ErrNoSpace with what it kept from being done.
type noRoom struct {
	what string
	err  error
}

func (e *noRoom) Error() string { return e.what + ": " + e.err.Error() }
func (e *noRoom) Unwrap() error { return e.err }

const hintNoSpace = "free some space on that disk; `perdure usage` says what perdure takes, `perdure prune` gives some back"
