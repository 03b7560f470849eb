package handoff

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perdure/snapshot"
)

// gitTrees is a small Trees: the repository's own objects, an index aside.
type gitTrees struct{ t *testing.T }

func (g gitTrees) git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+filepath.Join(dir, ".git", "aside"), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

func (g gitTrees) Read(_ context.Context, _, dir string) (snapshot.State, error) {
	if _, err := g.git(dir, "add", "-A"); err != nil {
		return snapshot.State{}, err
	}
	tree, err := g.git(dir, "write-tree")
	head, _ := g.git(dir, "rev-parse", "-q", "--verify", "HEAD")
	branch, _ := g.git(dir, "symbolic-ref", "-q", "--short", "HEAD")
	return snapshot.State{Repo: dir, Tree: tree, Head: head, Branch: branch, IsRepo: true}, err
}

func (g gitTrees) Diff(_ context.Context, repo, a, b string) ([]snapshot.Change, error) {
	if a == "" {
		a = "4b825dc642cb6eb9a060e54bf8d69288fbee4904" // the empty tree
	}
	out, err := g.git(repo, "diff-tree", "-r", "--no-abbrev", a, b)
	var changes []snapshot.Change
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		gone := func(id string) string { return strings.TrimRight(id, "0") }
		c := snapshot.Change{Path: f[5], Kind: "modified", From: f[2], To: f[3]}
		if gone(c.From) == "" {
			c.From = ""
		}
		if gone(c.To) == "" {
			c.To = ""
		}
		changes = append(changes, c)
	}
	return changes, err
}

func (g gitTrees) Content(_ context.Context, repo, id string, w io.Writer) error {
	out, err := g.git(repo, "cat-file", "blob", id)
	_, _ = io.WriteString(w, out)
	return err
}

func (g gitTrees) Has(_ context.Context, repo, object string) bool {
	_, err := g.git(repo, "cat-file", "-e", object)
	return err == nil
}

func (g gitTrees) ChangedSince(ctx context.Context, dir, _, base, tree string) ([]string, bool, error) {
	if !g.Has(ctx, dir, base) {
		return nil, false, nil
	}
	changes, err := g.Diff(ctx, dir, base+"^{tree}", tree)
	var files []string
	for _, c := range changes {
		files = append(files, c.Path)
	}
	return files, true, err
}

// world is one repository with a check in shell: each file of tests/ is a
// test that passes if it says pass. It is quick, and prints as go test does.
type world struct {
	t   *testing.T
	dir string
	g   gitTrees
	req VerifyRequest
}

const fakeCheck = `set -e; bad=0; n=0
for f in tests/*; do [ -e "$f" ] || continue; n=1; r=PASS; grep -q pass "$f" || { r=FAIL; bad=1; }
echo "=== RUN   ${f#tests/}"; echo "--- $r: ${f#tests/} (0.00s)"; done
if [ $bad = 1 ]; then echo FAIL; printf 'FAIL\tm\t0.01s\n'; exit 1; fi
if [ $n = 0 ]; then printf 'ok  \tm\t0.01s [no tests to run]\n'; else echo PASS; printf 'ok  \tm\t0.01s\n'; fi
`

func newWorld(t *testing.T, files map[string]string, checks ...CheckSpec) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), g: gitTrees{t}}
	write(t, w.dir, files)
	write(t, w.dir, map[string]string{"check.sh": fakeCheck, ".gitignore": "ignored/\n"})
	w.git("init", "-q", "-b", "main")
	w.git("add", "-A")
	w.git("commit", "-qm", "one")
	if checks == nil {
		checks = []CheckSpec{{Label: "check", Cmd: "sh check.sh"}}
	}
	w.req = VerifyRequest{Workspace: "w", Dir: w.dir, Checks: checks, Snapshots: w.g, Runner: testRunner(w.dir)}
	return w
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	out, err := w.g.git(w.dir, args...)
	if err != nil {
		w.t.Fatalf("git %v: %v", args, err)
	}
	return out
}

// record measures as the server would, and puts the record in force.
func (w *world) record(claim Claim, checks ...CheckSpec) {
	w.t.Helper()
	if checks == nil {
		checks = w.req.Checks
	}
	state, err := w.g.Read(context.Background(), "w", w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	m := Measured{At: time.Unix(1e9, 0).UTC(), Head: state.Head, Branch: state.Branch, Tree: state.Tree, Snapshot: "S1"}
	for _, c := range checks {
		m.Checks = append(m.Checks, w.req.Runner.Run(context.Background(), c))
	}
	w.put(Record{ID: "R1", Seq: 1, Author: AuthorAgent, Workspace: "w", Measured: m, Claim: &claim})
}

func (w *world) put(r Record) {
	w.t.Helper()
	w.req.Record, w.req.Encoded = &r, [][]byte{encode(w.t, r)}
}

func (w *world) verify() Report { return Verify(context.Background(), w.req) }

// want checks the verdict, and that each "kind subject" is among the findings.
func (w *world) want(r Report, verdict Verdict, findings ...string) {
	w.t.Helper()
	if r.Verdict != verdict {
		w.t.Errorf("verdict %s, want %s\n%s", r.Verdict, verdict, r.Text(true))
	}
	for _, want := range findings {
		found := false
		for _, f := range r.Findings {
			found = found || strings.HasPrefix(f.Kind+" "+f.Subject+" "+f.Found+" "+f.Note, want)
		}
		if !found {
			w.t.Errorf("no finding %q in\n%s", want, r.Text(true))
		}
	}
}

func passing() map[string]string {
	return map[string]string{"a.txt": "one\n", "tests/TestA": "pass\n", "tests/TestB": "pass\n"}
}

// unsteady makes the outcome depend on an ignored file, so that the tree stays.
const unsteady = `sh check.sh; printf '=== RUN   TestX\n'; if [ -e ignored/bad ]; then printf -- '--- FAIL: TestX (0.00s)\nFAIL\nFAIL\tx\t0.01s\n'; exit 1; fi; printf -- '--- PASS: TestX (0.00s)\nPASS\nok  \tx\t0.01s\n'`

func TestSameTree(t *testing.T) {
	w := newWorld(t, passing(), CheckSpec{Label: "check", Cmd: unsteady})
	w.record(Claim{Passed: []string{"m.TestA"}, Finished: true})
	w.want(w.verify(), Holds) // case 1
	w.git("commit", "-q", "--allow-empty", "-m", "two")
	w.want(w.verify(), Holds, "note commit")
	write(t, w.dir, map[string]string{"ignored/bad": ""})
	w.want(w.verify(), Contradicted, "contradicted x.TestX fail") // case 2
	w.req.Flaky = []string{"TestX"}
	w.want(w.verify(), Holds, "note x.TestX fail listed as flaky")
	w.req.Flaky = nil
	w.record(Claim{Finished: true})
	if err := os.Remove(filepath.Join(w.dir, "ignored/bad")); err != nil {
		t.Fatal(err)
	}
	w.want(w.verify(), Contradicted, "contradicted x.TestX pass the record is wrong") // case 3
	w.git("checkout", "-q", "-b", "other")
	w.want(w.verify(), Contradicted, "drifted branch other")
}

func TestFlakyRun(t *testing.T) {
	w := newWorld(t, passing(), CheckSpec{Label: "check", Cmd: `if [ -e ignored/bad ]; then rm ignored/bad; printf -- '--- FAIL: TestX (0.00s)\nFAIL\nFAIL\tx\t0.01s\n'; exit 1; fi; printf -- '--- PASS: TestX (0.00s)\nPASS\nok  \tx\t0.01s\n'`})
	w.record(Claim{Finished: true})
	write(t, w.dir, map[string]string{"ignored/bad": ""})
	w.want(w.verify(), Inconclusive, "inconclusive x.TestX flaky")
}

func TestDrift(t *testing.T) {
	w := newWorld(t, passing())
	w.record(Claim{Finished: true})
	write(t, w.dir, map[string]string{"a.txt": "two\n"})
	w.want(w.verify(), Drifted, "drifted a.txt modified edited since") // case 4
	w.req.Quick = true
	if r := w.verify(); r.Scope != ScopeQuick || len(r.Checks) != 0 || r.Verdict != Drifted {
		t.Error(r.Text(true))
	}
	w.req.Quick, w.req.Live = false, true
	if r := w.verify(); r.Verdict != Holds || r.Behind != 1 || r.Scope != ScopeQuick {
		t.Error(r.Text(true))
	}
	w.req.Live = false
	write(t, w.dir, map[string]string{"tests/TestB": "pass, really\n"})
	w.want(w.verify(), Drifted, "drifted a.txt", "drifted tests/TestB modified test edited") // case 13
	w.req.Owns, w.req.ChangedBy = []string{"*.txt"}, map[string]string{"a.txt": "them"}
	w.want(w.verify(), Drifted, "drifted a.txt edited by them ownership") // case 20
}

// TestSeed is case 5: the note was written before the last edit.
func TestSeed(t *testing.T) {
	files := map[string]string{"tests/TestA": "pass", "tests/TestB": "no", "tests/TestC": "no", "tests/TestD": "pass"}
	w := newWorld(t, files)
	w.record(Claim{Passed: []string{"m.TestA"}, Failed: []Failure{{"m.TestB", "x"}, {"m.TestC", "x"}}, Finished: true})
	write(t, w.dir, map[string]string{"tests/TestD": "no"})
	w.want(w.verify(), Contradicted, "drifted tests/TestD", "contradicted m.TestD fail")
	w.req.Quick = true
	w.want(w.verify(), Drifted, "drifted tests/TestD")
}

func TestCommitGone(t *testing.T) { // case 6
	w := newWorld(t, passing())
	w.record(Claim{Finished: true})
	r := *w.req.Record
	r.Measured.Head = strings.Repeat("1", 40)
	w.put(r)
	w.want(w.verify(), Holds, "note commit gone")
	r.Measured.Tree = strings.Repeat("2", 40)
	w.put(r)
	w.want(w.verify(), Invalid, "invalid tree")
}

func TestTestsGone(t *testing.T) { // cases 7, 8, 9, 10, 11
	w := newWorld(t, passing(), CheckSpec{Label: "check", Cmd: `[ -e ignored/cmd ] && . ignored/cmd; sh check.sh`})
	w.record(Claim{Finished: true})
	for name, c := range map[string]struct {
		cmd     string
		verdict Verdict
		finding string
	}{
		"no test": {`printf 'ok  \tm\t0.01s [no tests to run]\n'; exit 0`, Inconclusive, "inconclusive check no tests"},
		"absent":  {`printf -- '=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nok  \tm\t0.01s\n'; exit 0`, Contradicted, "contradicted m.TestB absent"},
		"panic":   {`printf -- '--- FAIL: TestA (0.00s)\npanic: x\nFAIL\tm\t0.01s\n'; exit 1`, Contradicted, "contradicted m.TestB notrun"},
		"build":   {`printf -- 'FAIL\tm [build failed]\nFAIL\n'; exit 1`, Contradicted, "contradicted m.TestB notrun its package doesn't build"},
		"hidden":  {`printf -- '--- FAIL: TestA (0.00s)\n--- PASS: TestB (0.00s)\nFAIL\nFAIL\tm\t0.01s\n'; exit 0`, Contradicted, "contradicted m.TestA fail"},
		"missing": {`exit 127`, Inconclusive, "inconclusive check missing"},
		"port":    {`echo bind: address already in use; exit 1`, Inconclusive, "inconclusive check environment"},
	} {
		write(t, w.dir, map[string]string{"ignored/cmd": c.cmd})
		t.Run(name, func(t *testing.T) { w.t = t; w.want(w.verify(), c.verdict, c.finding) })
	}
	w.t = t
	write(t, w.dir, map[string]string{"ignored/cmd": "sleep 100"})
	w.req.Checks[0].Timeout = 50 * time.Millisecond
	w.want(w.verify(), Inconclusive, "inconclusive check timeout")
	w.req.Needs = "echo starting; false"
	w.want(w.verify(), Inconclusive, "inconclusive needs not ready") // case 15
}

func TestWeakerCheck(t *testing.T) { // case 12
	files := passing()
	files["tests/TestC"] = "no"
	w := newWorld(t, files)
	w.record(Claim{Passed: []string{"m.TestA"}, Finished: true}, CheckSpec{Label: "weak", Cmd: `printf -- '--- PASS: TestA (0.00s)\nPASS\nok  \tm\t0.01s\n'`})
	w.want(w.verify(), Inconclusive, "inconclusive m.TestC fail", "note check")
}

func TestInvalidRecord(t *testing.T) { // case 19
	w := newWorld(t, passing())
	w.record(Claim{Finished: true})
	good := w.req.Encoded
	w.req.Encoded = [][]byte{good[0][:50]}
	w.want(w.verify(), Invalid, "invalid record")
	w.req.Encoded = good
	r := *w.req.Record
	r.Claim = &Claim{Passed: []string{"m.TestZ"}, Finished: true}
	w.put(r)
	w.want(w.verify(), Contradicted, "contradicted m.TestZ measured absent")
	w.req.Dir = filepath.Join(w.dir, "nowhere")
	w.want(w.verify(), Invalid, "invalid directory gone")
}

func TestOwnership(t *testing.T) { // case 21, and another's edits
	w := newWorld(t, passing())
	w.req.Base = w.git("rev-parse", "HEAD")
	write(t, w.dir, map[string]string{"a.txt": "x", "b/b": "x", "c/c": "x", "d/d": "x"})
	w.record(Claim{Finished: true})
	w.req.Owns, w.req.Shares, w.req.OthersOwn = []string{"*.txt"}, []string{"b"}, map[string][]string{"them": {"c/**"}}
	w.want(w.verify(), Uncovered, "uncovered d/d edited ownership", "note c/c edited owned by workspace them")
	w.req.Owns, w.req.Untested = nil, []string{"**"}
	w.want(w.verify(), Holds)
	w.req.Checks = nil
	w.record(Claim{Finished: true}, []CheckSpec{}...)
	w.want(w.verify(), Uncovered, "uncovered checks")
	w.req.Record, w.req.Encoded = nil, nil
	w.want(w.verify(), Unrecorded)
}

func TestClaims(t *testing.T) { // cases 22, 23
	w := newWorld(t, passing())
	w.record(Claim{NotAttempted: []string{"m.TestC", "m.TestA", "prose"}, Next: &Next{Do: "it", DoneWhen: "true"}})
	w.want(w.verify(), Holds, "note done_when not run")
	w.req.RunDoneWhen = true
	w.want(w.verify(), Holds, "note done_when done next step is already done")
	write(t, w.dir, map[string]string{"tests/TestC": "pass"})
	w.want(w.verify(), Contradicted, "contradicted m.TestC pass", "drifted tests/TestC")
}

func TestCheckThatEdits(t *testing.T) {
	w := newWorld(t, passing(), CheckSpec{Label: "check", Cmd: "[ ! -e ignored/on ] || echo x >> a.txt; sh check.sh"})
	w.record(Claim{Finished: true})
	write(t, w.dir, map[string]string{"ignored/on": ""})
	w.want(w.verify(), Inconclusive, "inconclusive a.txt modified the check edits files")
	write(t, w.dir, map[string]string{"a.txt": "one\n", "HANDOFF.md": Markdown(*w.req.Record)})
	if err := os.Remove(filepath.Join(w.dir, "ignored/on")); err != nil {
		t.Fatal(err)
	}
	w.want(w.verify(), Holds)
}

func TestBriefAndText(t *testing.T) {
	w := newWorld(t, passing())
	w.record(Claim{Failed: []Failure{}, NotAttempted: []string{"imp\x1b[2Jort"}, Next: &Next{Do: "migrate", DoneWhen: "go test ./x"}})
	write(t, w.dir, map[string]string{"a.txt": "2"})
	r := w.verify()
	text := r.Text(false)
	for _, want := range []string{"drifted: record R1", "a.txt", "hint: perdure handoff repair w --explain 'a.txt: why'"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	brief := Brief(BriefRequest{Name: "w", Dir: w.dir, Goal: "the goal", Record: w.req.Record, Report: &r, Checks: w.req.Checks})
	last := -1
	for _, want := range []string{"Verdict: drifted", "the goal", "migrate", "go test ./x", `imp\x1b[2Jort`, "sh check.sh", "perdure handoff record w --passed"} {
		at := strings.Index(brief, want)
		if at < last {
			t.Errorf("%q at %d, after %d, in\n%s", want, at, last, brief)
		}
		last = at
	}
}

// What no check opens is uncovered, what one opens isn't, and what can't be told is said to be so.
func TestEditedFilesThatNoCheckOpens(t *testing.T) {
	w := newWorld(t, passing())
	w.req.Base = w.git("rev-parse", "HEAD")
	write(t, w.dir, map[string]string{"a.txt": "two\n", "tests/TestC": "pass\n", "docs/x.md": "x\n"})
	w.record(Claim{Finished: true})
	w.req.Untested = []string{"docs/**"}
	r := w.verify()
	if r.Checks[0].Trace == "off" {
		t.Skip("no inotify here")
	}
	w.want(r, Uncovered, "uncovered a.txt not opened", "note untested 1 file")
	for _, e := range r.Edited {
		if want := map[string]string{"a.txt": "not opened", "tests/TestC": "opened", "docs/x.md": "not opened"}[e.Path]; e.Check != want {
			t.Errorf("%s: %s, want %s", e.Path, e.Check, want)
		}
	}
	w.req.Untested = append(w.req.Untested, "a.txt")
	w.want(w.verify(), Holds, "note untested 2 files")
	w.req.Untested = nil
	w.req.Checks[0].Cmd = "sh check.sh # as make would"
	w.record(Claim{Finished: true})
	w.want(w.verify(), Holds, "note coverage 2 files")
}
