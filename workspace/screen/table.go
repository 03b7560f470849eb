package screen

import (
	"maps"
	"slices"
)

// maxEntries bounds each table: an index fits in 16 bits, and 0 is the zero value.
const maxEntries = 1 << 16

// table gives small numbers to values that many cells share, so that a cell holds a number. The zero value of T has
// the number 0. It is bounded: when it is full, the owner sweeps it of what no cell holds any more.
type table[T comparable] struct {
	values []T // values[0] is the zero value
	index  map[T]uint16
	free   []uint16
}

// lookup is the number of a value; ok is false where the table is full.
func (t *table[T]) lookup(v T) (n uint16, ok bool) {
	var zero T
	if v == zero {
		return 0, true
	}
	if n, ok := t.index[v]; ok {
		return n, true
	}
	if t.index == nil {
		t.index = map[T]uint16{}
		t.values = append(t.values[:0], zero)
	}
	switch {
	case len(t.free) > 0:
		n = t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
		t.values[n] = v
	case len(t.values) < maxEntries:
		n = uint16(len(t.values))
		t.values = append(t.values, v)
	default:
		return 0, false
	}
	t.index[v] = n
	return n, true
}

// at is the value of a number.
func (t *table[T]) at(n uint16) T {
	if int(n) < len(t.values) {
		return t.values[n]
	}
	var zero T
	return zero
}

// sweep frees every number that used doesn't name.
func (t *table[T]) sweep(used map[uint16]bool) {
	for v, n := range t.index {
		if !used[n] {
			delete(t.index, v)
			t.free = append(t.free, n)
			var zero T
			t.values[n] = zero
		}
	}
}

// clone is a copy that goes its own way.
func (t *table[T]) clone() table[T] {
	return table[T]{values: slices.Clone(t.values), index: maps.Clone(t.index), free: slices.Clone(t.free)}
}
