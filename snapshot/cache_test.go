package snapshot

import (
	"bytes"
	"reflect"
	"testing"
)

func FuzzDecodeCache(f *testing.F) {
	top := &folder{entries: []entry{{name: "a", kind: kindFile, id: objectID{1}, st: fileStat{1, 2, 3, 4, 5}}, {name: "d", kind: kindFolder}, {name: "i", kind: kindLink, ignored: true}}}
	top.entries[1].folder = &folder{path: "d", tree: objectID{7}}
	c := &cache{Start: 5, Rules: "r", Known: "k", Generation: "0", Forced: []string{"f"}, Absent: []tracked{{path: "p", mode: "100644", oid: "x"}}, Notes: []Skip{{"a", "b"}}, top: top}
	f.Add(c.encode(20))
	f.Add(c.encode(32))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, size := range []int{20, 32} {
			c, err := decodeCache(data, size)
			if err != nil {
				continue
			}
			// What one folder says of others is given by their own records.
			if len(c.folders) > 1 {
				continue
			}
			again, err := decodeCache(c.encode(size), size)
			if err != nil || !reflect.DeepEqual(again, c) {
				t.Fatalf("%v: not the same twice", err)
			}
		}
	})
}

func TestCacheKeepsWhatItWasTold(t *testing.T) {
	top := &folder{entries: []entry{{name: "a", kind: kindFile, id: objectID{1}, st: fileStat{1, 2, 3, 4, 5}}, {name: "d", kind: kindFolder}}}
	top.entries[1].folder = &folder{path: "d", tree: objectID{7}, entries: []entry{{name: "x", kind: kindFile, ignored: true}}}
	c := &cache{Start: 5, Rules: "r", Known: "k", Generation: "0", top: top}
	data := c.encode(20)
	got, err := decodeCache(data, 20)
	if err != nil {
		t.Fatal(err)
	}
	if got.folder("").find("a").st != top.entries[0].st || !got.folder("d").find("x").ignored || got.folder("d").tree != (objectID{7}) {
		t.Fatalf("%+v", got)
	}
	for i := range data {
		torn := bytes.Clone(data)
		torn[i] ^= 4
		if _, err := decodeCache(torn, 20); err == nil {
			t.Fatalf("byte %d was changed, and nobody saw", i)
		}
	}
}
