package server

import (
	"context"
	"slices"
	"time"
)

// conf are the settings in force.
func (s *Server) conf() *Settings { return s.settings.Load() }

// apply puts settings into force. Who is inside stays there.
func (s *Server) apply(next Settings, d *door) {
	s.settings.Store(&next)
	s.snaps.SetLimits(next.limits())
	s.checks.setMax(next.Checks.Parallel)
	if s.opts.Level != nil {
		s.opts.Level.Set(next.LogLevel)
	}
	if d != nil {
		d.apply(next)
	}
}

// watchReload reads the configuration anew whenever it is asked to. One that is wrong changes nothing.
func (s *Server) watchReload(ctx context.Context, d *door) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.opts.Reload:
		}
		notifySystemd("RELOADING=1\nMONOTONIC_USEC=" + monotonicMicros())
		s.reload(d)
		notifySystemd("READY=1")
	}
}

func (s *Server) reload(d *door) {
	next, err := s.opts.Load()
	if err == nil {
		err = next.Check()
	}
	if err != nil {
		s.log.Error("the configuration is wrong: the one before stays in force", "err", err)
		return
	}
	old := s.conf()
	if !slices.Equal(old.Listen, next.Listen) {
		s.log.Warn("a changed setting", "name", "listen", "note", errNeedsRestart)
	}
	if old.Metrics != next.Metrics {
		s.log.Warn("a changed setting", "name", "metrics", "note", errNeedsRestart)
	}
	s.apply(next, d)
	s.event("", "reloaded", map[string]any{"uptime_s": int(time.Since(s.started).Seconds())})
}
