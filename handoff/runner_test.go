package handoff

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perdure/handoff/results"
)

// TestMain has this binary serve as the supervisor of checks too.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == SuperviseCommand {
		os.Exit(Supervise())
	}
	if len(os.Args) == 4 && os.Args[1] == runnerMode {
		testRunner(os.Args[2]).Run(context.Background(), CheckSpec{Label: "c", Cmd: os.Args[3]})
		return
	}
	os.Exit(m.Run())
}

// runnerMode runs the check of its arguments: a folder and a command.
const runnerMode = "run-check"

func testRunner(dir string) *Runner {
	return &Runner{Dir: dir, Supervisor: []string{"/proc/self/exe", SuperviseCommand}}
}

func runIn(t *testing.T, dir string, spec CheckSpec) CheckRun {
	t.Helper()
	if spec.Label == "" {
		spec.Label = "check"
	}
	return (testRunner(dir)).Run(context.Background(), spec)
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGoTestIsMeasuredPerTest: go test without -v names no passing test, so
// the runner asks for JSON, wherever go test stands in the command, and only
// for it.
func TestGoTestIsMeasuredPerTest(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"go.mod": "module m\ngo 1.21\n", "a_test.go": "package m\nimport \"testing\"\nfunc TestA(t *testing.T) {}\nfunc TestB(t *testing.T) {}\n",
		"sub/x": "", "Makefile": "test:\n\tgo test $$(go list ./...)\n"})
	for _, cmd := range []string{"go test ./...", "cd sub && go test ..", "go vet . && go -C sub test ..", "make test", "go test -json . || true"} {
		run := runIn(t, dir, CheckSpec{Cmd: cmd})
		if run.Problem != "" || len(run.Results) != 2 || run.Results["m.TestA"] != results.Pass || !strings.HasPrefix(run.Tool, "go1.") {
			t.Errorf("%s: %+v", cmd, run)
		}
	}
	if run := runIn(t, dir, CheckSpec{Cmd: "go test . | grep -q '^ok' && echo fine"}); run.Results["check"] != results.Pass {
		t.Errorf("a reader of the text: %+v", run)
	}
	if run := runIn(t, dir, CheckSpec{Cmd: "go test -run Nothing ."}); run.Problem != ProblemNoTests {
		t.Errorf("no tests: %+v", run)
	}
}

func TestRunProblems(t *testing.T) {
	cases := []struct {
		cmd, results, problem string
		exit                  int
	}{
		{"no-such-program", "", ProblemMissing, 127},
		{"echo address already in use; exit 1", "", ProblemEnvironment, 1},
		{"kill -9 $$", "", ProblemKilled, 137},
		{"true", "junit:r.xml", ProblemStale, 0},
		{"echo nonsense > r.xml", "junit:r.xml", ProblemUnreadable, 0},
		{"echo '<testsuite/>' > r.xml", "junit:r.xml", ProblemNoTests, 0},
		{"echo '<testsuite><testcase name=\"a\"/></testsuite>' > r.xml", "junit:r.xml", "", 0},
		{"false", "", "", 1},
	}
	for _, c := range cases {
		dir := t.TempDir()
		write(t, dir, map[string]string{"r.xml": `<testsuite><testcase name="old"/></testsuite>`})
		run := runIn(t, dir, CheckSpec{Cmd: c.cmd, Results: c.results})
		if run.Problem != c.problem || run.Exit != c.exit {
			t.Errorf("%s: problem %q, exit %d, want %q, %d (%+v)", c.cmd, run.Problem, run.Exit, c.problem, c.exit, run)
		}
	}
}

func TestRunEnvironment(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "/x")
	t.Setenv("PERDURE_SESSION", "y")
	run := runIn(t, t.TempDir(), CheckSpec{Cmd: `env; [ -z "$SSH_AUTH_SOCK$PERDURE_SESSION" ] && [ -n "$HOME" ]`})
	if run.Exit != 0 {
		t.Error(run.Tail)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if run := (testRunner(t.TempDir())).Run(ctx, CheckSpec{Label: "c", Cmd: "sleep 100"}); run.Problem != ProblemCancelled {
		t.Errorf("cancelled: %+v", run)
	}
}
