package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func decode(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// count is how often a random test repeats itself: the variable's number, else n.
func count(t *testing.T, variable string, n int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return n
	}
	given, err := strconv.Atoi(text)
	if err != nil || given < 1 {
		t.Fatalf("%s=%q is no number", variable, text)
	}
	return given
}

// mutation is one kind of change; apply makes it and returns what a finding must name.
type mutation struct {
	kind  string
	apply func(p *project, r *rand.Rand) string
}

// A workspace that holds never holds after a change of a kind that matters, and a finding names what changed.
// PERDURE_MUTATIONS=N makes N of them, PERDURE_SEED=S begins with that seed.
func TestNoMutationHolds(t *testing.T) {
	n := count(t, "PERDURE_MUTATIONS", 25)
	first := uint64(count(t, "PERDURE_SEED", int(time.Now().UnixNano()&0xffffff)+1))
	f := newFixtures(t)
	missed := 0
	kinds := mutations()
	for seed := first; seed < first+uint64(n); seed++ {
		r := rand.New(rand.NewPCG(seed, 0))
		m, l := kinds[r.IntN(len(kinds))], f.langs[r.IntN(len(f.langs))]
		p := f.project(l)
		if verdict, all := p.report(); verdict != "holds" {
			t.Fatalf("seed %d, %s in %s: %s before the change: %+v", seed, m.kind, l.name, verdict, all)
		}
		word := m.apply(p, r)
		verdict, all := p.report()
		t.Logf("seed %d: %s in %s: %s", seed, m.kind, l.name, verdict)
		if verdict == "holds" || verdict == "uncovered" || verdict == "unrecorded" || !about(all, word) {
			missed++
			t.Errorf("seed %d: %s in %s: %s, and no finding names %s: %+v", seed, m.kind, l.name, verdict, word, all)
		}
		p.remove()
	}
	t.Logf("%d of %d mutations found and named (%.1f %%)", n-missed, n, 100*float64(n-missed)/float64(n))
}

func mutations() []mutation {
	return append(append(testMutations(), treeMutations()...), append(gitMutations(), recordMutations()...)...)
}

// testMutations change the tests themselves.
func testMutations() []mutation {
	change := func(with func(all []sum, i int) []sum) func(*project, *rand.Rand) string {
		return func(p *project, r *rand.Rand) string {
			all := sums()
			i := r.IntN(len(all))
			id := p.id(all[i].name)
			p.put(p.tests, p.test(with(all, i)))
			return id
		}
	}
	return []mutation{
		{"edit a test", change(func(all []sum, i int) []sum { all[i].left++; return all })},
		{"delete a test", change(func(all []sum, i int) []sum { return append(all[:i], all[i+1:]...) })},
		{"rename a test", change(func(all []sum, i int) []sum { all[i].name = "renamed"; return all })},
		{"change an expectation", change(func(all []sum, i int) []sum { all[i].want++; return all })},
		{"edit a test and keep its result", func(p *project, _ *rand.Rand) string {
			p.put(p.tests, p.text(p.tests)+"\n"+p.comment+"more\n")
			return p.tests
		}},
		{"break the code", func(p *project, _ *rand.Rand) string {
			p.put(p.source, strings.NewReplacer("a + b", "a - b", "$1 + $2", "$1 - $2").Replace(p.code))
			return p.source
		}},
		{"delete the tests", func(p *project, _ *rand.Rand) string { p.gone(p.tests); return p.tests }},
		{"a test that fails is added", func(p *project, _ *rand.Rand) string {
			p.put(p.tests, p.test(append(sums(), sum{"five", 1, 1, 3})))
			return p.id("five")
		}},
	}
}

func (p *project) gone(file string) {
	p.t.Helper()
	if err := os.Remove(filepath.Join(p.dir, file)); err != nil {
		p.t.Fatal(err)
	}
}

// hidden are edits that git was told not to look at.
func hidden(flag string) func(*project, *rand.Rand) string {
	return func(p *project, r *rand.Rand) string {
		file := []string{p.source, p.tests, "docs/notes.md"}[r.IntN(3)]
		p.git("update-index", flag, file)
		p.put(file, p.text(file)+"\n"+p.comment+"hidden\n")
		return file
	}
}

// treeMutations change files of the tree.
func treeMutations() []mutation {
	return []mutation{
		{"edit under assume-unchanged", hidden("--assume-unchanged")},
		{"edit under skip-worktree", hidden("--skip-worktree")},
		{"edit of the same size and time", func(p *project, r *rand.Rand) string {
			file := []string{"docs/notes.md", "lock.json", "made.txt"}[r.IntN(3)]
			path := filepath.Join(p.dir, file)
			info, err := os.Stat(path)
			if err != nil {
				p.t.Fatal(err)
			}
			text := []byte(p.text(file))
			text[r.IntN(len(text)-1)] ^= 1
			p.put(file, string(text))
			if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
				p.t.Fatal(err)
			}
			return file
		}},
		{"edit outside of what it owns", func(p *project, _ *rand.Rand) string {
			p.put("outside/file.txt", "changed\n")
			return "outside/file.txt"
		}},
		{"edit what no test opens", func(p *project, _ *rand.Rand) string { p.put("docs/other.md", "changed\n"); return "docs/other.md" }},
		{"a new file", func(p *project, r *rand.Rand) string {
			name := []string{"new.txt", "docs/with space.md", "src/ünï.txt", "docs/two\nlines", "-flag", ".hidden"}[r.IntN(6)]
			p.put(name, "new\n")
			return name
		}},
		{"delete an untracked file", func(p *project, _ *rand.Rand) string { p.gone("docs/untracked.md"); return "docs/untracked.md" }},
		{"delete a tracked file", func(p *project, _ *rand.Rand) string { p.gone("docs/other.md"); return "docs/other.md" }},
		{"edit an untracked file", func(p *project, _ *rand.Rand) string {
			p.put("docs/untracked.md", "else\n")
			return "docs/untracked.md"
		}},
		{"mode change", func(p *project, r *rand.Rand) string {
			file, mode := "run.sh", os.FileMode(0o644)
			if r.IntN(2) == 0 {
				file, mode = "lock.json", 0o755
			}
			if r.IntN(2) == 0 {
				p.git("config", "core.fileMode", "false")
			}
			if err := os.Chmod(filepath.Join(p.dir, file), mode); err != nil {
				p.t.Fatal(err)
			}
			return file
		}},
		{"symlink retarget", func(p *project, _ *rand.Rand) string {
			p.gone("link")
			if err := os.Symlink("docs/other.md", filepath.Join(p.dir, "link")); err != nil {
				p.t.Fatal(err)
			}
			return "link"
		}},
		{"a link in place of a file", func(p *project, _ *rand.Rand) string {
			p.put(".out/copy", p.text("made.txt"))
			p.gone("made.txt")
			if err := os.Symlink(".out/copy", filepath.Join(p.dir, "made.txt")); err != nil {
				p.t.Fatal(err)
			}
			return "made.txt"
		}},
		{"a folder in place of a file", func(p *project, _ *rand.Rand) string {
			p.gone("made.txt")
			p.put("made.txt/in", "x\n")
			return "made.txt"
		}},
		{"rename a file", func(p *project, _ *rand.Rand) string {
			p.git("mv", "docs/other.md", "docs/moved.md")
			return "docs/other.md"
		}},
		{"rename in case only", func(p *project, _ *rand.Rand) string {
			p.git("mv", "docs/other.md", "docs/Other.md")
			return "docs/Other.md"
		}},
		{"line endings that git would normalise", func(p *project, _ *rand.Rand) string {
			p.git("config", "core.autocrlf", "input")
			p.put("docs/notes.md", strings.ReplaceAll(p.text("docs/notes.md"), "\n", "\r\n"))
			return "docs/notes.md"
		}},
		{"an untracked file hidden by an exclude rule", func(p *project, _ *rand.Rand) string {
			p.put(".git/info/exclude", "untracked.md\n")
			return "docs/untracked.md"
		}},
	}
}

// gitMutations change what git knows, and the repositories within.
func gitMutations() []mutation {
	return []mutation{
		{"amend with other content", func(p *project, _ *rand.Rand) string {
			p.put("lock.json", "{\"version\": 2}\n")
			p.git("commit", "-q", "--amend", "-m", "begin", "lock.json")
			return "lock.json"
		}},
		{"switch branch", func(p *project, r *rand.Rand) string {
			to := [][]string{{"side", "side"}, {"fresh", "-b", "fresh"}, {"(none)", "--detach"}}[r.IntN(3)]
			p.git(append([]string{"checkout", "-q"}, to[1:]...)...)
			return to[0]
		}},
		{"rename the branch", func(p *project, _ *rand.Rand) string { p.git("branch", "-m", "renamed"); return "renamed" }},
		{"commit an edit", func(p *project, _ *rand.Rand) string {
			p.put("made.txt", "committed\n")
			p.git("commit", "-qm", "more", "made.txt")
			return "made.txt"
		}},
		{"an untracked nested repository", func(p *project, r *rand.Rand) string {
			p.must(p.dir, "git", "init", "-q", "inner")
			p.put("inner/file", "x\n")
			if r.IntN(2) == 0 {
				p.git("-C", "inner", "add", "-A")
				p.git("-C", "inner", "commit", "-qm", "begin")
			}
			return "inner"
		}},
		{"dirty submodule", func(p *project, r *rand.Rand) string {
			switch r.IntN(3) {
			case 0:
				p.put("lib/lib.txt", "changed\n")
			case 1:
				p.put("lib/extra.txt", "new\n")
			default:
				p.put("lib/lib.txt", "changed\n")
				p.git("-C", "lib", "commit", "-qam", "changed")
			}
			return "lib"
		}},
		{"a submodule taken out", func(p *project, _ *rand.Rand) string {
			p.git("submodule", "--quiet", "deinit", "-f", "lib")
			return "lib"
		}},
		{"in-progress merge", func(p *project, _ *rand.Rand) string {
			p.git("checkout", "-q", "side")
			p.put("lock.json", "{\"version\": 3}\n")
			p.git("commit", "-qam", "aside")
			p.git("checkout", "-q", "main")
			p.git("merge", "-q", "--no-ff", "--no-commit", "side")
			return "lock.json"
		}},
		{"stash what was not committed", func(p *project, _ *rand.Rand) string {
			p.git("stash", "-q", "-u")
			return "docs/untracked.md"
		}},
		{"another repository in its place", func(p *project, _ *rand.Rand) string {
			if err := os.RemoveAll(filepath.Join(p.dir, ".git")); err != nil {
				p.t.Fatal(err)
			}
			return "directory"
		}},
	}
}

// recordMutations damage what perdure keeps.
func recordMutations() []mutation {
	object := func(p *project) string {
		ref := p.recordRef()
		id := strings.TrimSpace(p.ledger("", "rev-parse", ref))
		path := filepath.Join(p.box.dir, "state/snapshots/ledger.git/objects", id[:2], id[2:])
		if err := os.Chmod(path, 0o600); err != nil {
			p.t.Fatal(err)
		}
		return path
	}
	return []mutation{
		{"corrupt the record's object", func(p *project, r *rand.Rand) string {
			path := object(p)
			data, err := os.ReadFile(path)
			if err != nil {
				p.t.Fatal(err)
			}
			switch r.IntN(3) {
			case 0:
				data = data[:r.IntN(len(data))]
			case 1:
				data[r.IntN(len(data))] ^= byte(1 + r.IntN(255))
			default:
				data = nil
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				p.t.Fatal(err)
			}
			return "record"
		}},
		{"delete the record's object", func(p *project, _ *rand.Rand) string {
			if err := os.Remove(object(p)); err != nil {
				p.t.Fatal(err)
			}
			return "record"
		}},
		{"delete the record's ref", func(p *project, _ *rand.Rand) string {
			p.ledger("", "update-ref", "-d", p.recordRef())
			return "record"
		}},
		{"edit the record", func(p *project, r *rand.Rand) string {
			was := p.ledger("", "cat-file", "blob", p.recordRef())
			edit := [][2]string{{"go on", "no one"}, {`"pass"`, `"skip"`}, {`"seq":1`, `"seq":2`}, {`"author":"`, `"author":"x`}, {"}", ",}"}, {"{", `{"x":1,`}}[r.IntN(6)]
			now := strings.Replace(was, edit[0], edit[1], 1)
			if now == was {
				p.t.Fatalf("no %q in %s", edit[0], was)
			}
			p.ledger("", "update-ref", p.recordRef(), strings.TrimSpace(p.ledger(now, "hash-object", "-w", "--stdin")))
			return "record"
		}},
	}
}

// recordRef is the ref of the newest record in the ledger.
func (p *project) recordRef() string {
	p.t.Helper()
	refs := strings.Fields(p.ledger("", "for-each-ref", "--sort=-refname", "--format=%(refname)", "refs/perdure/"+p.name+"/record"))
	if len(refs) == 0 {
		p.t.Fatalf("%s has no record in the ledger", p.name)
	}
	return refs[0]
}

// ledger runs git on perdure's own records.
func (p *project) ledger(stdin string, args ...string) string {
	p.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", filepath.Join(p.box.dir, "state/snapshots/ledger.git")}, args...)...)
	cmd.Env, cmd.Stdin = p.env, strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("git %q: %v", args, err)
	}
	return string(out)
}
