package server

import (
	"sync"
	"time"

	"perdure/server/store"
)

// feed tells those who follow events that there are new ones; the events themselves are read from the store.
type feed struct {
	mu   sync.Mutex
	wake chan struct{}
}

// next is closed at the next event.
func (f *feed) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wake == nil {
		f.wake = make(chan struct{})
	}
	return f.wake
}

func (f *feed) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
}

// event logs what happened. It never fails its caller: the deed is done, and the log says if it could not be written.
func (s *Server) event(workspace, kind string, fields map[string]any) {
	e := store.Event{At: time.Now().UTC(), Workspace: workspace, Kind: kind, Fields: fields}
	if _, err := s.store.AppendEvent(e); err != nil {
		s.log.Error("event not written", "workspace", workspace, "kind", kind, "err", err)
	}
	s.log.Info(kind, "workspace", workspace, "fields", fields)
	s.feed.tell()
}
