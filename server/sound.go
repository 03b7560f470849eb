package server

import (
	"bytes"
	"context"
	"fmt"

	"perdure/handoff"
)

// sound says why a workspace's records can't be trusted: a broken chain, an end that isn't the sealed one, or a store
// and a ledger that differ, since one of them was edited behind perdure's back.
func (s *Server) sound(ctx context.Context, name string, chain [][]byte) error {
	seal, err := s.seal(ctx, name)
	if err != nil {
		return err
	}
	if err := handoff.CheckChain(chain); err != nil {
		return fmt.Errorf("the chain is broken: %w", err)
	}
	if err := seal.Check(chain); err != nil {
		return fmt.Errorf("the chain is broken: %w", err)
	}
	return s.sameInLedger(ctx, name, chain)
}

// sameInLedger compares the records with their copies in the ledger, byte for byte. What came before the newest record
// that replaces a broken chain was answered.
func (s *Server) sameInLedger(ctx context.Context, name string, chain [][]byte) error {
	if len(chain) == 0 {
		return nil
	}
	kept := map[string][]byte{}
	err := s.snaps.EntriesOf(ctx, name, func(kind, key string, data []byte) error {
		if kind == kindRecord {
			kept[key] = bytes.Clone(data)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the records in the ledger can't be read: %w", err)
	}
	for i := len(chain) - 1; i >= 0; i-- {
		r, err := handoff.Decode(chain[i])
		if err != nil {
			return fmt.Errorf("record %d: %w", i+1, err)
		}
		if err := sameBytes(r, chain[i], kept); err != nil {
			return err
		}
		if r.Broken != "" {
			return nil
		}
	}
	return nil
}

func sameBytes(r handoff.Record, stored []byte, kept map[string][]byte) error {
	copied, ok := kept[r.ID]
	switch {
	case !ok:
		return fmt.Errorf("record %s (#%d) is missing in the ledger", r.ID, r.Seq)
	case bytes.Equal(copied, stored):
		return nil
	}
	if _, err := handoff.Decode(copied); err != nil {
		return fmt.Errorf("record %s (#%d) is damaged in the ledger: %w", r.ID, r.Seq, err)
	}
	return fmt.Errorf("record %s (#%d) differs between the ledger and the store: it was edited", r.ID, r.Seq)
}
