package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"perdure/workspace"
)

// listenMetrics opens the address that Prometheus may ask, nil where none is wanted.
func (s *Server) listenMetrics() (net.Listener, error) {
	addr := s.conf().Metrics
	if addr == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics on %s: %w", addr, err)
	}
	s.log.Info("metrics", "addr", l.Addr().String())
	fmt.Fprintf(s.opts.Stderr, "perdure: metrics on http://%s/metrics\n", l.Addr())
	return l, nil
}

// serveMetrics answers until ctx ends. It shows counts and no names of keys, people or files.
func (s *Server) serveMetrics(ctx context.Context, l net.Listener, d *door) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{s: s, d: d})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	srv := &http.Server{Handler: localOnly(mux), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("metrics", "err", err)
	}
}

// localOnly refuses requests that name another host: a web page could otherwise have a browser read this one by a
// name of its own that points to the loopback.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !loopback(host) {
			http.Error(w, "this listener is the loopback's", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// collector reads everything at the moment it is asked, so that nothing is counted while nobody asks.
type collector struct {
	s *Server
	d *door
}

func metric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("perdure_"+name, help, labels, nil)
}

var (
	metricUp          = metric("uptime_seconds", "Time since the server started.")
	metricSessions    = metric("sessions", "Workspaces by the state of their newest session.", "state")
	metricHalted      = metric("workspaces_halted", "Workspaces whose record doesn't hold.")
	metricAttached    = metric("attachments", "Attachments to live sessions.")
	metricFailing     = metric("snapshots_failing", "Workspaces of which no snapshot can be taken.")
	metricChecks      = metric("checks", "Checks of the box by state.", "state")
	metricLowSpace    = metric("low_space", "1 while the disk is nearly full.")
	metricWaiting     = metric("connections_unauthenticated", "Connections that have not authenticated yet.")
	metricOpen        = metric("connections_open", "Connections that are open.")
	metricConnections = metric("connections_total", "Connections by what became of them.", "outcome")
)

// Describe names what Collect gives.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range []*prometheus.Desc{metricUp, metricSessions, metricHalted, metricAttached, metricFailing, metricChecks, metricLowSpace,
		metricWaiting, metricOpen, metricConnections} {
		ch <- m
	}
}

// Collect reads the figures.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	count := func(v int64, outcome string) {
		ch <- prometheus.MustNewConstMetric(metricConnections, prometheus.CounterValue, float64(v), outcome)
	}
	gauge(metricUp, int(time.Since(c.s.started).Seconds()))
	c.workspaces(gauge)
	inside, waiting := c.s.checks.counts()
	gauge(metricChecks, inside, "running")
	gauge(metricChecks, waiting, "waiting")
	c.s.mu.Lock()
	low := c.s.lowSpace != nil
	c.s.mu.Unlock()
	gauge(metricLowSpace, oneIf(low))
	gauge(metricWaiting, c.d.waiting.count())
	gauge(metricOpen, c.d.open())
	count(c.d.counts.connections.Load(), "accepted")
	count(c.d.counts.entered.Load(), "entered")
	count(c.d.counts.refused.Load(), "attempt_refused")
	count(c.d.counts.kept.Load(), "kept_out")
}

func (c *collector) workspaces(gauge func(*prometheus.Desc, int, ...string)) {
	states := map[workspace.SessionState]int{workspace.Live: 0, workspace.Ended: 0, workspace.Lost: 0}
	halted, attached, failing := 0, 0, 0
	for _, sp := range c.s.allSpaces() {
		if sess := sp.newest(); sess != nil {
			states[sess.State]++
		}
		failing += oneIf(sp.snapshotFailure() != nil)
		h, err := c.s.store.Halt(sp.name)
		halted += oneIf(err == nil && h != nil)
		attached += sp.watching()
	}
	for state, n := range states {
		gauge(metricSessions, n, string(state))
	}
	gauge(metricHalted, halted)
	gauge(metricAttached, attached)
	gauge(metricFailing, failing)
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// open is the number of connections that are open, of the unix socket too.
func (d *door) open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.conns)
}
