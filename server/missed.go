package server

import (
	"path/filepath"
	"time"

	"perdure/workspace"
	"perdure/workspace/journal"
	"perdure/workspace/screen"
)

// missed gives a client that was too slow for its session's last output what is left of it: a host waits a few seconds
// for its clients and no longer, and one that was stopped for a while reads on once nobody is there. ok is false where
// the session did not end by itself. at is where the client stands, wire.NoOffset where it was drawn for.
func (a *attachment) missed(sess *workspace.Session, at uint64) (exit Exit, ok bool) {
	now, err := workspace.Load(sess.Dir)
	if err != nil || now.Exit == nil {
		return Exit{}, false
	}
	if r, err := journal.OpenReader(filepath.Join(sess.Dir, "journal")); err == nil {
		defer r.Close()
		start, end := r.Bounds()
		if at >= start && at < end {
			_ = r.Chunks(at, func(_ uint64, _ time.Time, data []byte) error { // the client may be gone
				_, err := a.r.Out.Write(data)
				return err
			})
		}
	}
	_, _ = a.r.Out.Write(screen.Restore())
	return Exit{Status: now.Exit.Code, Signal: now.Exit.Signal}, true
}
