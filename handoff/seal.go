package handoff

import "fmt"

// Seal is what is kept of a chain's newest record, apart from the chain. The chain itself can't tell that its end was
// edited or cut off: no later record holds the hash of the last one.
type Seal struct {
	ID   string `json:"id"`
	Seq  int    `json:"seq"`
	Hash string `json:"hash"` // as Hash gives it
}

// SealOf seals an encoded record.
func SealOf(r Record, encoded []byte) Seal {
	return Seal{ID: r.ID, Seq: r.Seq, Hash: Hash(encoded)}
}

// Check compares a chain, oldest first, with the seal of its newest record; the empty seal fits every chain. The error
// is a *ChainError. A chain that is one whole record ahead fits too: the seal is written after the record, and a crash
// may come between.
func (s Seal) Check(chain [][]byte) error {
	if s == (Seal{}) {
		return nil
	}
	if len(chain) == 0 {
		return &ChainError{Seq: s.Seq, Why: fmt.Sprintf("%s, the newest, is missing", s.ID)}
	}
	newest := chain[len(chain)-1]
	if Hash(newest) == s.Hash {
		return nil
	}
	r, err := Decode(newest)
	if err != nil {
		return &ChainError{Seq: s.Seq, Why: err.Error()}
	}
	if r.ID != s.ID && (r.Prev == s.Hash && r.Seq == s.Seq+1 || r.Broken == s.Hash && r.Seq == 1) {
		return nil
	}
	if r.ID == s.ID {
		return &ChainError{Seq: s.Seq, Why: fmt.Sprintf("its hash is %s, but it was sealed with %s: it was edited", Hash(newest), s.Hash)}
	}
	return &ChainError{Seq: s.Seq, Why: fmt.Sprintf("%s, the newest, is missing", s.ID)}
}
