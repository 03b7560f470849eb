package handoff

import "testing"

func TestASealFitsOnlyItsChain(t *testing.T) {
	first := sample()
	first.Seq, first.Prev = 1, ""
	a := encode(t, first)
	second := sample()
	second.ID, second.Seq, second.Prev = "01JABD", 2, Hash(a)
	b := encode(t, second)
	edited := second
	edited.Claim = &Claim{Finished: true}
	replacing := sample()
	replacing.ID, replacing.Seq, replacing.Prev, replacing.Broken = "01JABE", 1, "", Hash(b)
	seal := SealOf(second, b)
	for name, c := range map[string]struct {
		seal  Seal
		chain [][]byte
		ok    bool
	}{
		"its own chain":                    {seal, [][]byte{a, b}, true},
		"no seal yet":                      {Seal{}, [][]byte{a}, true},
		"neither":                          {Seal{}, nil, true},
		"a crash before the seal":          {SealOf(first, a), [][]byte{a, b}, true},
		"a crash before the repair's":      {seal, [][]byte{encode(t, replacing)}, true},
		"the newest edited":                {seal, [][]byte{a, encode(t, edited)}, false},
		"the newest cut off":               {seal, [][]byte{a}, false},
		"all cut off":                      {seal, nil, false},
		"the newest can't be read":         {seal, [][]byte{a, b[:len(b)/2]}, false},
		"another chain in its place":       {seal, [][]byte{encode(t, withSeqOne(edited))}, false},
		"two ahead, as no crash leaves it": {SealOf(first, encode(t, withSeqOne(edited))), [][]byte{a, b}, false},
	} {
		if err := c.seal.Check(c.chain); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func withSeqOne(r Record) Record {
	r.ID, r.Seq, r.Prev = "01JABF", 1, ""
	return r
}
