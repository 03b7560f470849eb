package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// honest is something that happens on an honest day and changes no content; recorded runs before the record, where
// the day needs it.
type honest struct {
	kind     string
	recorded func(p *project)
	then     func(p *project)
}

// A record whose content is still true holds, whatever else moved. PERDURE_HONEST=N tries N, PERDURE_SEED=S begins
// with that seed.
func TestAnHonestRecordHolds(t *testing.T) {
	n := count(t, "PERDURE_HONEST", 30)
	first := uint64(count(t, "PERDURE_SEED", int(time.Now().UnixNano()&0xffffff)+1))
	f := newFixtures(t)
	kinds := append(honestFiles(), append(honestCommits(), honestSurroundings()...)...)
	alarms := 0
	for seed := first; seed < first+uint64(n); seed++ {
		r := rand.New(rand.NewPCG(seed, 0))
		h, l := kinds[r.IntN(len(kinds))], f.langs[r.IntN(len(f.langs))]
		p := f.bare(l)
		if h.recorded != nil {
			h.recorded(p)
		}
		p.record()
		h.then(p)
		verdict, all := p.report()
		t.Logf("seed %d: %s in %s: %s", seed, h.kind, l.name, verdict)
		if verdict != "holds" {
			alarms++
			t.Errorf("seed %d: %s in %s: %s: %+v", seed, h.kind, l.name, verdict, all)
		}
		p.remove()
	}
	t.Logf("%d of %d honest records hold", n-alarms, n)
}

// honestFiles touch files without changing them.
func honestFiles() []honest {
	each := func(p *project, do func(path string)) {
		for _, file := range strings.Split(strings.TrimRight(p.git("ls-files", "-z", "src", "docs"), "\x00"), "\x00") {
			do(filepath.Join(p.dir, file))
		}
	}
	return []honest{
		{kind: "nothing", then: func(*project) {}},
		{kind: "touch", then: func(p *project) {
			each(p, func(path string) { p.noErr(os.Chtimes(path, time.Now(), time.Now().Add(time.Hour))) })
		}},
		{kind: "written anew", then: func(p *project) {
			each(p, func(path string) {
				data, err := os.ReadFile(path)
				p.noErr(err)
				p.noErr(os.WriteFile(path+".new", data, 0o644))
				p.noErr(os.Rename(path+".new", path))
			})
		}},
		{kind: "a stricter umask", then: func(p *project) { each(p, func(path string) { p.noErr(os.Chmod(path, 0o600)) }) }},
		{kind: "edited and taken back", then: func(p *project) {
			was := p.text(p.source)
			p.put(p.source, "nonsense\n")
			p.report("--quick")
			p.put(p.source, was)
		}},
		{kind: "the folder was copied", then: func(p *project) {
			p.must("", "cp", "-a", p.dir, p.dir+".copy")
			p.noErr(os.RemoveAll(p.dir))
			p.noErr(os.Rename(p.dir+".copy", p.dir))
		}},
		{kind: "a second run with caches", then: func(p *project) {
			p.must(p.dir, "sh", "-c", p.language.check)
			p.must(p.dir, "sh", "-c", p.language.check)
		}},
		{kind: "ignored files", then: func(p *project) {
			p.put("a.log", "x\n")
			p.put(".out/built", "x\n")
		}},
		{kind: "a stash put away and taken back", then: func(p *project) {
			p.put("docs/other.md", "half an idea\n")
			p.git("stash", "-q", "-u")
			p.git("checkout", "-q", "side")
			p.git("checkout", "-q", "main")
			p.git("stash", "pop", "-q")
			p.git("checkout", "-q", "docs/other.md")
		}},
	}
}

// honestCommits move commits, refs and the index over the same tree.
func honestCommits() []honest {
	two := func(p *project) {
		for _, text := range []string{"one\n", "two\n"} {
			p.put("docs/other.md", text)
			p.git("commit", "-qam", text)
		}
	}
	run := func(lines ...string) func(*project) {
		return func(p *project) {
			for _, line := range lines {
				p.git(strings.Fields(line)...)
			}
		}
	}
	return []honest{
		{kind: "amend", then: run("commit -q --amend --allow-empty -m other")},
		{kind: "squash", recorded: two, then: run("reset -q --soft HEAD~2", "commit -qm squashed")},
		{kind: "same-tree rebase", recorded: two, then: run("commit -q --allow-empty -m empty", "rebase -q --force-rebase HEAD~2")},
		{kind: "commit what was recorded", recorded: func(p *project) { p.put("docs/other.md", "edited\n") }, then: run("add -A", "commit -qm all")},
		{kind: "stage what was recorded", recorded: func(p *project) { p.put("docs/other.md", "edited\n") }, then: run("add -A")},
		{kind: "take the commit back", recorded: two, then: run("reset -q --soft HEAD~1")},
		{kind: "unstage", recorded: run("add -A"), then: run("reset -q")},
		{kind: "branch renamed back", then: run("branch -m other", "branch -m main")},
		{kind: "branch switched back", recorded: two, then: run("checkout -q side", "checkout -q main")},
		{kind: "more refs", then: run("tag v1", "branch another", "notes add -m note", "update-ref refs/x/y HEAD")},
		{kind: "gc", recorded: two, then: run("commit -q --amend -m other", "reflog expire --expire=now --all", "gc -q --aggressive --prune=now")},
		{kind: "packed refs", then: run("pack-refs --all", "repack -adq", "commit-graph write")},
		{kind: "flags without edits", then: run("update-index --assume-unchanged docs/other.md", "update-index --skip-worktree docs/notes.md", "update-index --refresh")},
		{kind: "configuration", then: run("config core.autocrlf true", "config core.fileMode false", "config status.showUntrackedFiles no")},
		{kind: "a new index", then: func(p *project) {
			p.gone(".git/index")
			p.git("reset", "-q")
		}},
		{kind: "a worktree elsewhere", then: func(p *project) { p.git("worktree", "add", "-q", p.dir+".side", "side") }},
		{kind: "re-clone", recorded: two, then: func(p *project) { p.clone() }},
		{kind: "shallow re-clone", recorded: two, then: func(p *project) { p.clone("--depth", "1") }},
	}
}

// clone replaces the directory by a clone of it.
func (p *project) clone(args ...string) {
	p.t.Helper()
	p.git(append(append([]string{"clone", "-q", "--recurse-submodules"}, args...), "file://"+p.dir, p.dir+".clone")...)
	p.noErr(os.Rename(p.dir, p.dir+".before"))
	p.noErr(os.Rename(p.dir+".clone", p.dir))
	untracked, err := os.ReadFile(p.dir + ".before/docs/untracked.md")
	p.noErr(err)
	p.put("docs/untracked.md", string(untracked))
	p.noErr(os.RemoveAll(p.dir + ".before"))
}

func (p *project) noErr(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// honestSurroundings change who asks, from where, and the server.
func honestSurroundings() []honest {
	// asked verifies with another environment and directory; the verdict that counts is taken again after it.
	asked := func(env ...string) func(*project) {
		return func(p *project) {
			cmd := exec.Command(p.bin, "handoff", "verify", p.name)
			cmd.Dir, cmd.Env = "/", append(slices.Clone(p.env), env...)
			if out, err := cmd.CombinedOutput(); err != nil {
				p.t.Errorf("%q: %v: %s", env, err, out)
			}
		}
	}
	// served begins a server in another environment, and the usual one again at the end.
	served := func(env ...string) func(*project) {
		return func(p *project) {
			was := p.env
			p.box.kill()
			p.env = append(slices.Clone(was), env...)
			p.serve("127.0.0.1:0")
			p.env = was
		}
	}
	return []honest{
		{kind: "another time zone asks", then: asked("TZ=Asia/Kathmandu")},
		{kind: "another locale asks", then: asked("LC_ALL=tr_TR.UTF-8", "LANG=tr_TR.UTF-8")},
		{kind: "another directory asks", then: asked()},
		{kind: "verified before", then: func(p *project) { p.report(); p.report("--quick"); p.report() }},
		{kind: "the server was killed", then: served()},
		{kind: "a server in another time zone", then: served("TZ=Pacific/Chatham")},
		{kind: "a server in another locale", then: served("LC_ALL=de_DE.UTF-8", "LANG=de_DE.UTF-8")},
	}
}

// drift is an honest change of content that changes no result.
type drift struct {
	kind string
	then func(p *project) (file string)
}

func drifts() []drift {
	return []drift{
		{"a formatter", func(p *project) string {
			p.put(p.source, strings.TrimRight(p.text(p.source), "\n")+"\n\n"+p.comment+"end\n")
			return p.source
		}},
		{"a lock file", func(p *project) string { p.put("lock.json", "{\"version\": 2}\n"); return "lock.json" }},
		{"a regenerated file", func(p *project) string { p.put("made.txt", "made again\n"); return "made.txt" }},
		{"git pull", func(p *project) string {
			up := p.dir + ".up"
			p.git("clone", "-q", p.dir, up)
			p.write(up+"/docs/other.md", "from upstream\n")
			p.must(up, "git", "-c", "user.name=u", "-c", "user.email=u@example.com", "commit", "-qam", "upstream")
			p.git("pull", "-q", "--ff-only", up, "main")
			return "docs/other.md"
		}},
		{"a submodule update", func(p *project) string {
			from := filepath.Join(p.box.dir, "library")
			p.write(from+"/lib.txt", "a newer library of "+p.name+"\n")
			p.must(from, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qam", "newer")
			p.git("submodule", "--quiet", "update", "--remote", "lib")
			return "lib"
		}},
	}
}

// An honest change with equal results drifts, and one key carries it; where a result changed, nothing is carried.
func TestCarrySettlesAnHonestDrift(t *testing.T) {
	f := newFixtures(t)
	for i, d := range drifts() {
		l := f.langs[i%len(f.langs)]
		t.Run(d.kind+" in "+l.name, func(t *testing.T) {
			f.t = t
			p := f.project(l)
			defer p.remove()
			file := d.then(p)
			if verdict, all := p.report(); verdict != "drifted" || !about(all, file) {
				t.Fatalf("%s, without naming %s: %+v", verdict, file, all)
			}
			p.want(4, "start", p.name)
			p.want(0, "handoff", "repair", p.name, "--carry", "--wait")
			if verdict, all := p.report(); verdict != "holds" {
				t.Errorf("carried, and yet %s: %+v", verdict, all)
			}
			if out := p.want(0, "handoff", "show", p.name); !strings.Contains(out, "go on") {
				t.Errorf("the claims aren't kept:\n%s", out)
			}
			p.put(p.tests, p.test(sums()[1:]))
			p.put(p.source, strings.NewReplacer("a + b", "a * b", "$1 + $2", "$1 * $2").Replace(p.code))
			p.report()
			p.want(4, "handoff", "repair", p.name, "--carry", "--wait")
			p.want(4, "start", p.name)
		})
	}
	f.t = t
}
