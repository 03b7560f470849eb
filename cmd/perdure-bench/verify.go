package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"perdure/handoff"
	"perdure/snapshot"
)

// verifyRow is one measurement, and what it is measured against. Times are milliseconds; Least and Most are of Times.
type verifyRow struct {
	What    string    `json:"what"`
	Against string    `json:"against"`
	Ms      float64   `json:"ms"` // the median
	Least   float64   `json:"least"`
	Most    float64   `json:"most"`
	Ratio   float64   `json:"ratio"` // of the medians
	Target  float64   `json:"target,omitempty"`
	Times   []float64 `json:"times"`
}

// runVerify measures what a verification costs over what it can't do without.
func runVerify(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("verify", flag.ContinueOnError)
	files := set.Int("files", 50000, "tracked files of the quick verification")
	packages := set.Int("packages", 20, "packages of the suite in Go")
	modules := set.Int("modules", 200, "modules of the suite in Python")
	rounds := set.Int("rounds", 9, "how often each is measured, in turn; the median counts")
	asJSON := set.Bool("json", false, "print the rows as JSON")
	if err := set.Parse(args); err != nil {
		return err
	}
	base, err := os.MkdirTemp("", "perdure-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	if !*asJSON {
		fmt.Printf("%d files, %d packages of Go, %d modules of Python, %d rounds in turn, %d cores\n", *files, *packages, *modules, *rounds, runtime.NumCPU())
	}
	rows, err := quickRows(ctx, filepath.Join(base, "quick"), *files, *rounds)
	if err != nil {
		return err
	}
	if !*asJSON {
		printRows(rows)
	}
	for _, s := range []struct {
		what, command, tool string
		fill                func(dir string, n int) error
		n                   int
	}{
		{"go test ./...", "go test ./...", "go", fillGo, *packages},
		{"python3 -m unittest", "python3 -m unittest -v", "python3", fillPython, *modules},
	} {
		if _, err := exec.LookPath(s.tool); err != nil {
			fmt.Fprintln(os.Stderr, "perdure-bench: without", s.tool)
			continue
		}
		traced, err := traceRows(ctx, filepath.Join(base, s.tool), s.what, s.command, func(dir string) error { return s.fill(dir, s.n) }, *rounds)
		if err != nil {
			return err
		}
		if !*asJSON {
			printRows(traced)
		}
		rows = append(rows, traced...)
	}
	if !*asJSON {
		return nil
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(rows)
}

func printRows(rows []verifyRow) {
	for _, r := range rows {
		target := ""
		if r.Target > 0 {
			target = fmt.Sprintf("   at most %.1f", r.Target)
		}
		fmt.Printf("%-44s %9.0f ms  (%.0f to %.0f)   %5.2f x %s%s\n", r.What, r.Ms, r.Least, r.Most, r.Ratio, r.Against, target)
	}
}

// inTurn measures each of fns once a round; the first, which warms the caches, doesn't count.
func inTurn(rounds int, fns ...func() error) ([][]float64, error) {
	all := make([][]float64, len(fns))
	for round := range rounds + 1 {
		for i, fn := range fns {
			var err error
			d := took(func() { err = fn() })
			if err != nil {
				return nil, err
			}
			if round > 0 {
				all[i] = append(all[i], float64(d.Microseconds())/1000)
			}
		}
	}
	return all, nil
}

// against makes rows of times, each against the first.
func against(times [][]float64, target float64, what ...string) []verifyRow {
	rows := make([]verifyRow, len(times))
	for i, list := range times {
		sorted := slices.Sorted(slices.Values(list))
		rows[i] = verifyRow{What: what[i], Against: what[0], Ms: sorted[len(sorted)/2], Least: sorted[0], Most: sorted[len(sorted)-1], Times: list}
		rows[i].Ratio = rows[i].Ms / rows[0].Ms
		if i > 0 {
			rows[i].Target = target
		}
	}
	rows[0].Against = "itself"
	return rows
}

func commitAll(ctx context.Context, dir string) error {
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "base"}} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// quickRows measures a quick verification beside a snapshot of the same tree, neither of which finds a change.
func quickRows(ctx context.Context, dir string, files, rounds int) ([]verifyRow, error) {
	repo := filepath.Join(dir, "repo")
	if err := errors.Join(fill(repo, files, 1), commitAll(ctx, repo)); err != nil {
		return nil, err
	}
	store, err := snapshot.Open(filepath.Join(dir, "state", "snapshots"))
	if err != nil {
		return nil, err
	}
	ask := snapshot.CaptureRequest{Workspace: "bench", Dir: repo, Reason: "manual"}
	snap, err := store.Capture(ctx, ask)
	if err != nil {
		return nil, err
	}
	record := handoff.Record{ID: "BENCH", Seq: 1, Author: handoff.AuthorAgent, Workspace: "bench", Claim: &handoff.Claim{Finished: true},
		Measured: handoff.Measured{At: time.Now().UTC(), Head: snap.Head, Branch: snap.Branch, Tree: snap.Tree, Snapshot: snap.ID}}
	data, err := record.Encode()
	if err != nil {
		return nil, err
	}
	request := handoff.VerifyRequest{Workspace: "bench", Encoded: [][]byte{data}, Record: &record, Dir: repo, Base: snap.Head, Quick: true, Snapshots: store,
		Checks: []handoff.CheckSpec{{Label: "check", Cmd: "true"}}, Owns: []string{"**"}, OthersOwn: map[string][]string{}}
	time.Sleep(50 * time.Millisecond) // past the racy time: what was just written is read once more
	times, err := inTurn(rounds, func() error {
		_, changed, err := store.CaptureChanged(ctx, ask, &snap)
		if changed {
			return errors.New("the snapshot found a change")
		}
		return err
	}, func() error {
		if rep := handoff.Verify(ctx, request); rep.Verdict != handoff.Holds {
			return fmt.Errorf("the quick verification says %s: %+v", rep.Verdict, rep.Findings)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return against(times, 1.3, "snapshot, nothing changed", "quick verification"), nil
}

// traceRows measures a check as it is run for a record, with and without following what it opens.
func traceRows(ctx context.Context, dir, what, command string, fill func(dir string) error, rounds int) ([]verifyRow, error) {
	repo := filepath.Join(dir, "repo")
	if err := errors.Join(fill(repo), commitAll(ctx, repo)); err != nil {
		return nil, err
	}
	store, err := snapshot.Open(filepath.Join(dir, "state", "snapshots"))
	if err != nil {
		return nil, err
	}
	state, err := store.Read(ctx, "bench", repo)
	if err != nil {
		return nil, err
	}
	edited := slices.Sorted(func(yield func(string) bool) {
		for name := range handoff.Content(ctx, store, state.Repo, state.Tree) {
			if !yield(name) {
				return
			}
		}
	})
	run := func(traced bool) func() error {
		return func() error {
			r := &handoff.Runner{Dir: repo, Trace: traced, Supervisor: []string{"/proc/self/exe", handoff.SuperviseCommand}}
			if traced {
				r.Edited, r.Content = edited, handoff.Content(ctx, store, state.Repo, state.Tree)
			}
			got := r.Run(ctx, handoff.CheckSpec{Label: "check", Cmd: command})
			if got.Problem != "" || got.Exit != 0 || len(got.Results) < 2 || traced && got.Trace != "complete" {
				return fmt.Errorf("%s: status %d, %s, trace %s: %s %s", command, got.Exit, got.Problem, got.Trace, got.Note, got.Tail)
			}
			return nil
		}
	}
	times, err := inTurn(rounds, run(false), run(true))
	if err != nil {
		return nil, err
	}
	return against(times, 1.3, what, what+", traced"), nil
}

// write makes files with their folders.
func write(dir string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fillGo writes a module of n packages, each of which imports the one before and has ten tests.
func fillGo(dir string, n int) error {
	files := map[string]string{"go.mod": "module bench.example/m\n\ngo 1.24\n"}
	for i := range n {
		name := fmt.Sprintf("p%03d", i)
		source, test := "package "+name+"\n\n", "package "+name+"\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n"
		if i > 0 {
			source += fmt.Sprintf("import _ \"bench.example/m/p%03d\"\n\n", i-1)
		}
		for k := range 10 {
			source += fmt.Sprintf("// F%d adds.\nfunc F%d(a int) int { return a + %d }\n\n", k, k, k)
			test += fmt.Sprintf("func TestF%d(t *testing.T) {\n\tif _, err := os.ReadFile(\"testdata/%d\"); err != nil || F%d(1) != %d {\n\t\tt.Fatal(err)\n\t}\n}\n\n", k, k, k, k+1)
			files[fmt.Sprintf("%s/testdata/%d", name, k)] = "x\n"
		}
		files[name+"/"+name+".go"], files[name+"/"+name+"_test.go"] = source, test
	}
	return write(dir, files)
}

// fillPython writes n modules in packages of twenty, each with a test module of three tests.
func fillPython(dir string, n int) error {
	files := map[string]string{".gitignore": "__pycache__/\n"}
	for i := range n {
		p, m := fmt.Sprintf("p%02d", i/20), fmt.Sprintf("m%03d", i)
		files[p+"/__init__.py"] = ""
		files[p+"/"+m+".py"] = fmt.Sprintf("def f(a):\n    return a + %d\n", i)
		test := fmt.Sprintf("import unittest\n\nfrom %s import %s\n\n\nclass T(unittest.TestCase):\n", p, m)
		for k := range 3 {
			test += fmt.Sprintf("    def test_%d(self):\n        self.assertEqual(%s.f(%d), %d)\n\n", k, m, k, k+i)
		}
		files[p+"/test_"+m+".py"] = test
	}
	return write(dir, files)
}
