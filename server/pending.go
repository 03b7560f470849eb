package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"perdure/handoff"
)

// ledgerOwn is where the ledger keeps what belongs to no single workspace; no workspace can have the name.
const ledgerOwn = "perdure"

// kindPending are records whose checks still run, by the id they will have.
const kindPending = "pending"

// pendingRecord is a record that was asked for: what a server that starts again needs to finish it.
type pendingRecord struct {
	ID        string        `json:"id"`
	Workspace string        `json:"workspace"`
	At        time.Time     `json:"at"`
	Author    string        `json:"author"`
	Kind      string        `json:"kind"` // record, repair or carry
	Claim     handoff.Claim `json:"claim"`
	Explain   []string      `json:"explain,omitempty"`
}

// finish makes the record.
func (s *Server) finish(ctx context.Context, p pendingRecord, progress func(handoff.Progress)) (handoff.Record, error) {
	q := recordRequest{id: p.ID, author: p.Author, claim: p.Claim, explain: p.Explain}
	switch p.Kind {
	case "repair":
		return s.repair(ctx, p.Workspace, q, progress)
	case "carry":
		return s.carry(ctx, p.Workspace, q, progress)
	}
	return s.record(ctx, p.Workspace, q, progress)
}

// keepPending makes a pending record last, nil data ends it.
func (s *Server) keepPending(ctx context.Context, p pendingRecord, done bool) error {
	var data []byte
	if !done {
		var err error
		if data, err = json.Marshal(p); err != nil {
			return fmt.Errorf("encode the pending record: %w", err)
		}
	}
	if err := s.snaps.Put(ctx, ledgerOwn, kindPending, p.ID, data); err != nil {
		return fmt.Errorf("keep the pending record: %w", err)
	}
	return nil
}

// resumePending finishes what an earlier server had promised.
func (s *Server) resumePending(ctx context.Context) {
	var found []pendingRecord
	err := s.snaps.EntriesOf(ctx, ledgerOwn, func(kind, key string, data []byte) error {
		var p pendingRecord
		if kind != kindPending || len(data) == 0 {
			return nil
		}
		if err := json.Unmarshal(data, &p); err != nil || p.ID != key {
			s.log.Error("a pending record can't be read", "id", key, "err", err)
			return nil
		}
		found = append(found, p)
		return nil
	})
	if err != nil {
		s.log.Error("read the pending records", "err", err)
	}
	for _, p := range found {
		if _, err := s.store.Workspace(p.Workspace); err != nil {
			_ = s.keepPending(ctx, p, true) // the workspace was removed
			continue
		}
		s.wg.Go(func() {
			_, err := s.finish(s.ctx, p, nil)
			s.pendingEnded(p, err)
		})
	}
}

// pendingEnded tells how a pending record ended, unless the server ends first: then the next one begins anew.
func (s *Server) pendingEnded(p pendingRecord, err error) {
	if s.ctx.Err() != nil {
		return
	}
	if err != nil {
		s.event(p.Workspace, "refused", map[string]any{"record": p.ID, "why": err.Error()})
	}
	if err := s.keepPending(s.ctx, p, true); err != nil {
		s.log.Error("end a pending record", "id", p.ID, "err", err)
	}
}

// recordOutcome is how a record that was asked for ended.
type recordOutcome struct {
	record handoff.Record
	err    error
}

// measured makes a record in the server's own time: after a while the caller is told `pending ID`, and leaving cancels
// nothing.
func (c *call) measured(ctx context.Context, wait bool, p pendingRecord) error {
	p.ID, p.At, p.Author = newID(), time.Now().UTC(), c.who.author()
	done := make(chan recordOutcome, 1)
	var mu sync.Mutex
	kept, over := false, false
	line := c.checking(p.Workspace)
	c.s.wg.Go(func() {
		r, err := c.s.finish(c.s.ctx, p, line.tell)
		mu.Lock()
		over = true
		promised := kept
		mu.Unlock()
		if promised {
			c.s.pendingEnded(p, err)
		}
		done <- recordOutcome{r, err}
	})
	var late <-chan time.Time
	if !wait {
		t := time.NewTimer(pendingAfter)
		defer t.Stop()
		late = t.C
	}
	defer line.done()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			mu.Lock()
			if over {
				mu.Unlock()
				late = nil
				continue
			}
			err := c.s.keepPending(c.s.ctx, p, false)
			kept = err == nil
			mu.Unlock()
			line.done()
			if err != nil {
				return err
			}
			return c.printPending(p)
		case o := <-done:
			line.done()
			if o.err != nil {
				return o.err
			}
			return c.printRecorded(o.record)
		}
	}
}

func (c *call) printPending(p pendingRecord) error {
	if c.json {
		return c.print(map[string]any{"pending": true, "id": p.ID})
	}
	_, err := fmt.Fprintf(c.out, "pending %s: the checks still run; the record is not in force yet (`perdure handoff show %s %s` once it is)\n", p.ID, p.Workspace, p.ID)
	return err
}

// checkLine is the progress line of checks, drawn over itself on a terminal.
type checkLine struct {
	p    *progress
	what string
	mu   sync.Mutex
	over bool
}

func (c *call) checking(name string) *checkLine { return &checkLine{p: c.bar(name), what: name} }

func (l *checkLine) tell(p handoff.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.p.out == nil || l.over || p.Elapsed < progressAfter {
		return
	}
	l.p.mu.Lock()
	l.p.drawn = time.Now()
	l.p.mu.Unlock()
	text := fmt.Sprintf("perdure: checking %s  %s  %s  %d tests  %s", l.what, p.Elapsed.Round(100*time.Millisecond), p.Label, p.Tests, handoff.Escape(p.Tail))
	fmt.Fprint(l.p.out, "\r\x1b[K"+clip(text, cmp.Or(l.p.cols, 101)-1))
}

func (l *checkLine) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.over = true
		l.p.done()
	}
}
