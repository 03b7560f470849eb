package snapshot

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPolicyKeepsByAge(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	var list []Snapshot
	for age := time.Duration(0); age < 500*24*time.Hour; age += 20 * time.Minute {
		list = append(list, Snapshot{ID: fmt.Sprint(age), At: now.Add(-age)})
	}
	old := list[len(list)-20].ID
	dropped := map[string]bool{}
	for _, s := range DefaultPolicy.Drop(list, map[string]bool{old: true}, now) {
		dropped[s.ID] = true
	}
	count := map[string]int{}
	for _, s := range list {
		age := now.Sub(s.At)
		if dropped[s.ID] {
			continue
		}
		switch {
		case age <= 24*time.Hour:
			count["day"]++
		case age <= 7*24*time.Hour:
			count["week"]++
		case age <= 56*24*time.Hour:
			count["daily"]++
		case age <= 365*24*time.Hour:
			count["weekly"]++
		default:
			count["older"]++
		}
	}
	// The first bucket of each stretch may be shared with the one before.
	for what, bounds := range map[string][2]int{"day": {73, 73}, "week": {143, 145}, "daily": {48, 50}, "weekly": {43, 46}, "older": {2, 2}} {
		if n := count[what]; n < bounds[0] || n > bounds[1] {
			t.Errorf("%s: %d kept", what, n)
		}
	}
	if dropped[old] || dropped[list[0].ID] || dropped[list[len(list)-1].ID] {
		t.Error("a named snapshot, the newest or the first was dropped")
	}
	again := DefaultPolicy.Drop(keepOf(list, dropped), map[string]bool{old: true}, now)
	if len(again) != 0 {
		t.Errorf("%d more are dropped at once", len(again))
	}
}

func keepOf(list []Snapshot, dropped map[string]bool) (kept []Snapshot) {
	for _, s := range list {
		if !dropped[s.ID] {
			kept = append(kept, s)
		}
	}
	return kept
}

func TestPruneGivesSpaceBack(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	f.repo()
	var all []Snapshot
	var want []string
	for i := range 6 {
		noise := make([]byte, 200<<10)
		rand.Read(noise)
		f.write("noise", hex.EncodeToString(noise))
		f.write("a.txt", fmt.Sprint(i))
		all = append(all, f.capture())
		want = append(want, list(f.dir))
	}
	junk := filepath.Join(f.s.RepoPath(all[0].Repo), "objects/pack")
	for _, name := range []string{"tmp_pack_dead", "pack-dead.idx.tmp", "pack-dead.pack"} {
		f.must(os.WriteFile(filepath.Join(junk, name), make([]byte, 100<<10), 0o600))
	}
	before, err := diskSize(f.s.RepoPath(all[0].Repo))
	f.must(err)
	report, err := f.s.Prune(ctx, []Snapshot{all[1], all[2], all[3]}, nil)
	f.must(err)
	after, err := diskSize(f.s.RepoPath(all[0].Repo))
	f.must(err)
	if report.Snapshots != 3 || before-after < 3*200<<10 || report.Freed < 3*200<<10 {
		t.Fatalf("%+v, from %d to %d", report, before, after)
	}
	for _, i := range []int{0, 4, 5} {
		dest := f.restore(all[i])
		if got := list(dest); got != want[i] {
			t.Fatalf("snapshot %d differs after the pruning", i)
		}
	}
	if _, err := f.s.Restore(ctx, all[2], filepath.Join(f.base, "x"), nil, false); err == nil {
		t.Fatal("a dropped snapshot was restored")
	}
	// What the dropped ones alone had is taken in again where it comes back.
	f.write("a.txt", "2")
	snap := f.capture()
	f.check(snap)
	f.same(f.restore(snap))
	left, err := os.ReadDir(junk)
	f.must(err)
	for _, e := range left {
		if filepath.Base(e.Name()) == "pack-dead.pack" || filepath.Ext(e.Name()) == ".tmp" {
			t.Errorf("%s was left", e.Name())
		}
	}
}

func TestPruneKnowsThatCachesLie(t *testing.T) {
	f := newFixture(t)
	f.repo()
	keep := f.capture()
	f.write("later", "only the second has it")
	drop := f.capture()
	_, err := f.s.Prune(context.Background(), []Snapshot{drop}, nil)
	f.must(err)
	// The file is still there, its stat unchanged, its object gone.
	snap := f.capture()
	f.check(snap)
	f.same(f.restore(snap))
	if snap.Tree != drop.Tree || keep.Tree == drop.Tree {
		t.Fatal("not the same tree")
	}
}

func TestFoldManyPacks(t *testing.T) {
	f := newFixture(t)
	f.repo()
	usual := packsBeforeFold
	packsBeforeFold = 10
	defer func() { packsBeforeFold = usual }()
	for i := range packsBeforeFold + 5 {
		f.write("a.txt", fmt.Sprint(i))
		f.capture()
	}
	snap := f.capture()
	_, err := f.s.Prune(context.Background(), nil, nil)
	f.must(err)
	_, packs, err := countObjects(f.s.RepoPath(snap.Repo))
	if err != nil || packs > 5 {
		t.Fatal(packs, err)
	}
	f.same(f.restore(snap))
	f.write("a.txt", "after the fold")
	f.check(f.capture())
}

func TestRemovedWorkspaceGivesItsRepositoryBack(t *testing.T) {
	f := newFixture(t)
	f.repo()
	snap := f.capture()
	ctx := context.Background()
	f.must(f.s.Remove(ctx, "w"))
	_, err := f.s.Prune(ctx, nil, nil)
	f.must(err)
	if exists(f.s.RepoPath(snap.Repo)) {
		t.Fatal("a repository of no snapshots is left")
	}
	f.check(f.capture())
}

func TestBundleOpensInPlainGit(t *testing.T) {
	for _, cut := range []bool{false, true} {
		f := newFixture(t)
		f.repo()
		if cut {
			origin := f.dir
			for i := range 3 {
				f.write("a.txt", fmt.Sprint(i))
				f.git("commit", "-qam", "more")
			}
			f.dir = filepath.Join(f.base, "shallow")
			f.gitIn(f.base, "clone", "-q", "--depth=1", "file://"+origin, f.dir)
		}
		f.write("a.txt", "edited")
		f.capture()
		f.write("a.txt", "edited again")
		snap := f.capture()
		all, err := f.s.List(context.Background(), "w")
		f.must(err)
		out := f.T.TempDir()
		names, err := f.s.Bundle(context.Background(), all, out)
		f.must(err)
		f.gitIn(out, "init", "-q", "--bare", "x.git")
		f.gitIn(filepath.Join(out, "x.git"), "fetch", "-q", "../"+names[0], "refs/*:refs/*")
		text, err := exec.Command("git", "-C", filepath.Join(out, "x.git"), "for-each-ref", "--format=%(tree)").Output()
		f.must(err)
		if len(strings.Fields(string(text))) != 2 {
			t.Fatalf("%q", text)
		}
		show := f.gitIn(filepath.Join(out, "x.git"), "show", "-s", "--format=%B", "--no-walk", "--glob=refs/*")
		if !strings.Contains(show, snap.ID) {
			t.Fatalf("%s", show)
		}
	}
}
