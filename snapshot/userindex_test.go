package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"testing"
)

func FuzzParseIndex(f *testing.F) {
	debug := "  ctime: 0:0\n  mtime: 0:0\n  dev: 0\tino: 0\n  uid: 0\tgid: 0\n  size: 0\tflags: 20004000\n"
	f.Add([]byte("H 100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0\ta\nb\x00" + debug + "h 120000 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 2\tc\x00" + debug))
	f.Add([]byte("H 100644 x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("040000")) {
			t.Skip("a folder is looked up in a repository")
		}
		list, err := parseIndex(context.Background(), place{}, bufio.NewReader(bytes.NewReader(data)))
		if err == nil && len(data) > 0 && len(list) == 0 {
			t.Fatal("something was read as nothing")
		}
	})
}

func TestIntentAndFlagsAreRead(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.write("later\nline", "x")
	f.git("add", "-N", "later\nline")
	f.git("update-index", "--assume-unchanged", "a.txt")
	f.git("update-index", "--skip-worktree", "gone")
	p, err := locate(context.Background(), f.dir)
	f.must(err)
	list, err := userIndex(context.Background(), p)
	f.must(err)
	flags := map[string]string{}
	for _, e := range list {
		flags[e.path] = e.flags()
	}
	if len(list) != 4 || flags["a.txt"] != "a" || flags["dir/b.txt"] != "-" || flags["gone"] != "s" || flags["later\nline"] != "i" {
		t.Fatalf("%q", flags)
	}
}
