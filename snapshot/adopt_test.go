package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// many writes so many files that linking what the user has is worth while.
func (f *fixture) many() {
	f.Helper()
	usual := adoptFrom
	adoptFrom = 100
	f.Cleanup(func() { adoptFrom = usual })
	for i := range adoptFrom + 10 {
		f.write(fmt.Sprintf("d%02d/f%d", i%40, i), fmt.Sprintln("file", i))
	}
}

func links(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return uint64(st.Nlink)
}

func TestObjectsOfTheUserAreLinked(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.many()
	f.git("add", "-A")
	f.git("commit", "-qm", "many")
	f.git("repack", "-qad")
	f.write("a.txt", "loose")
	f.git("commit", "-qam", "one more")
	packs, err := filepath.Glob(filepath.Join(f.dir, ".git/objects/pack/*.pack"))
	f.must(err)
	snap := f.capture()
	f.check(snap)
	if len(packs) != 1 || links(t, packs[0]) != 2 {
		t.Fatal("the pack was not linked")
	}
	if n, err := diskSize(filepath.Join(f.s.RepoPath(snap.Repo), "objects")); err != nil || n > 2<<20 {
		t.Fatal(n, err)
	}
	f.must(os.RemoveAll(filepath.Join(f.dir, ".git")))
	f.same(f.restore(snap))
}

func TestShallowObjectsAreLinkedWithTheirCut(t *testing.T) {
	f := newFixture(t)
	f.repo()
	f.many()
	f.git("add", "-A")
	f.git("commit", "-qm", "many")
	f.write("a.txt", "later")
	f.git("commit", "-qam", "later")
	origin := f.dir
	f.dir = filepath.Join(f.base, "shallow")
	f.gitIn(f.base, "clone", "-q", "--depth=1", "file://"+origin, f.dir)
	snap := f.capture() // and fsck at the end
	f.check(snap)
	if !exists(filepath.Join(f.s.RepoPath(snap.Repo), "shallow")) {
		t.Fatal("where history is cut was not taken along")
	}
}

func TestDamagedObjectsAreNotLinked(t *testing.T) {
	for _, what := range []string{"*.pack", "*.idx"} {
		f := newFixture(t)
		f.repo()
		f.many()
		f.git("add", "-A")
		f.git("commit", "-qm", "many")
		f.git("repack", "-qad")
		names, err := filepath.Glob(filepath.Join(f.dir, ".git/objects/pack", what))
		f.must(err)
		data, err := os.ReadFile(names[0])
		f.must(err)
		data[len(data)/2] ^= 0x55
		if what == "*.idx" {
			data[3] ^= 0x55
		}
		f.must(os.Chmod(names[0], 0o644))
		f.must(os.WriteFile(names[0], data, 0o644))
		snap := f.capture()
		if links(t, names[0]) != 1 {
			t.Fatal("what is damaged was linked")
		}
		f.same(f.restore(snap))
	}
}
