package server

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// What a connection costs its source that ended outside, as sshd_config(5) has it for PerSourcePenalties. Penalties
// add up; from penaltyLeast on the source is kept out until they are over.
const (
	penaltyFailed = 5 * time.Second  // credentials were refused
	penaltyLate   = 10 * time.Second // it was still not in when the grace time ended
	penaltyNoAuth = time.Second      // it left without trying
	penaltyLeast  = 15 * time.Second
	penaltyMost   = 10 * time.Minute
	// maxPenalties bounds the sources that are remembered.
	maxPenalties = 64 << 10
)

// penaltyBox remembers the sources that failed.
type penaltyBox struct {
	mu    sync.Mutex
	until map[netip.Prefix]penalty
}

// penalty counts from when it has reached penaltyLeast, and until it is over.
type penalty struct {
	until  time.Time
	active bool
}

// sourceOf is what shares a penalty: an address of IPv4, a /64 of IPv6, since one host has as many addresses there as
// it likes.
func sourceOf(a netip.Addr) netip.Prefix {
	bits := 32
	if a = a.Unmap().WithZone(""); a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

func (b *penaltyBox) add(source netip.Prefix, cost time.Duration, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.until[source]
	if !ok && len(b.until) >= maxPenalties {
		b.shrink(now)
	}
	if !p.until.After(now) {
		p = penalty{until: now}
	}
	p.until = p.until.Add(cost)
	if most := now.Add(penaltyMost); p.until.After(most) {
		p.until = most
	}
	p.active = p.active || p.until.Sub(now) >= penaltyLeast
	if b.until == nil {
		b.until = map[netip.Prefix]penalty{}
	}
	b.until[source] = p
}

// shrink forgets what is over, and half of the rest where that isn't enough: a flood from a great many sources is met
// by the bound on those who wait.
func (b *penaltyBox) shrink(now time.Time) {
	for s, p := range b.until {
		if !p.until.After(now) {
			delete(b.until, s)
		}
	}
	for s := range b.until {
		if len(b.until) < maxPenalties/2 {
			return
		}
		delete(b.until, s)
	}
}

// keeps says whether a source is kept out now.
func (b *penaltyBox) keeps(source netip.Prefix, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.until[source]
	if ok && !t.until.After(now) {
		delete(b.until, source)
	}
	return ok && t.until.After(now) && t.active
}

// doorCounts are what has happened at the door since the server started.
type doorCounts struct {
	connections, entered, refused, kept atomic.Int64
}

// keptOut turns a connection away whose source has failed too often.
func (d *door) keptOut(c *peerConn) bool {
	rules := d.rules.Load()
	source, ok := rules.penalized(c)
	if !ok || !d.penalties.keeps(source, time.Now()) {
		return false
	}
	d.counts.kept.Add(1)
	d.log.Info("connection refused: its source has failed too often", "source", c.source)
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte("Not allowed at this time\r\n")) // as sshd says it; a courtesy
	c.Close()
	return true
}

// judge adds up what a connection that has ended without entering costs its source.
func (d *door) judge(c *peerConn) {
	source, ok := d.rules.Load().penalized(c)
	select {
	case <-c.inside:
		return
	default:
	}
	if !ok {
		return
	}
	cost := penaltyNoAuth
	switch {
	case c.late.Load():
		cost = penaltyLate
	case c.failed.Load() > 0:
		cost = penaltyFailed
	}
	d.penalties.add(source, cost, time.Now())
}

// penalized is the source that c's failures count for, if they do.
func (r *doorRules) penalized(c *peerConn) (netip.Prefix, bool) {
	if !r.Penalties || c.local() {
		return netip.Prefix{}, false
	}
	a, err := netip.ParseAddr(c.source)
	if err != nil {
		return netip.Prefix{}, false
	}
	for _, p := range r.exempt {
		if p.Contains(a.Unmap().WithZone("")) {
			return netip.Prefix{}, false
		}
	}
	return sourceOf(a), true
}

func parseNetworks(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no network in CIDR form, such as 10.0.0.0/8", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
