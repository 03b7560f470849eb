package results

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func check(t *testing.T, got Set, want map[string]Outcome) {
	t.Helper()
	if !maps.Equal(got.Tests, want) {
		t.Errorf("tests = %v, want %v", got.Tests, want)
	}
}

const goModule = `package m
import "testing"
func TestA(t *testing.T) {}
func TestB(t *testing.T) { t.Run("sub x", func(t *testing.T) { t.Fail() }) }
func TestS(t *testing.T) { t.Skip() }
`

// TestGoRun parses what the real go test prints: a failure, a broken build, a
// panic that hides a later test, and packages without tests.
func TestGoRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module ex.test/m\ngo 1.21\n", "a_test.go": goModule,
		"b/b.go": "package b\nfunc X() { undefined }\n", "b/b_test.go": "package b\nimport \"testing\"\nfunc TestQ(t *testing.T) {}\n",
		"c/c.go":      "package c\n",
		"d/d_test.go": "package d\nimport \"testing\"\nfunc TestP(t *testing.T) { panic(1) }\nfunc TestLater(t *testing.T) {}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) []byte {
		cmd := exec.Command("go", append([]string{"test", "-vet=off"}, args...)...)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput() // it fails, by design
		return out
	}
	whole := map[string]Outcome{
		"ex.test/m.TestA": Pass, "ex.test/m.TestB": Fail, "ex.test/m.TestB/sub_x": Fail, "ex.test/m.TestS": Skip,
		"ex.test/m/b": Fail, "ex.test/m/d.TestP": Fail, "ex.test/m/d": NotRun,
	}
	js := run("-json", "./...")
	for spec, out := range map[string][]byte{"go-json": js, "auto": run("-v", "./..."), "go": js} {
		set, err := Parse(spec, out, nil, 1, "check")
		if err != nil || !set.BuildFailed {
			t.Errorf("%s: BuildFailed %v, err %v", spec, set.BuildFailed, err)
		}
		check(t, set, whole)
	}
	plain, _ := Parse("", run("./..."), nil, 1, "check")
	check(t, plain, map[string]Outcome{
		"ex.test/m.TestB": Fail, "ex.test/m.TestB/sub_x": Fail, "ex.test/m/b": Fail, "ex.test/m/d.TestP": Fail, "ex.test/m/d": NotRun,
	})
	text := string(Text(js))
	for _, want := range []string{"b.go:2:12: undefined: undefined", "--- FAIL: TestB/sub_x", "panic: 1", "FAIL\tex.test/m"} {
		if !strings.Contains(text, want) {
			t.Errorf("text lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "Action") || strings.Contains(text, "TestA") {
		t.Errorf("text is not as without -json:\n%s", text)
	}
	none, _ := Parse("", run("-run", "Nothing", "."), nil, 0, "check")
	check(t, none, map[string]Outcome{})
	noneJSON, _ := Parse("", run("-json", "-run", "Nothing", "."), nil, 0, "check")
	check(t, noneJSON, map[string]Outcome{})
}

func TestParseText(t *testing.T) {
	cases := []struct {
		name, output string
		exit         int
		want         map[string]Outcome
	}{
		{"exit 0", "fine\n", 0, map[string]Outcome{"check": Pass}},
		{"exit 1", "", 1, map[string]Outcome{"check": Fail}},
		{"status without a failing test", "ok  \tm\t0.01s\nboom\n", 1, map[string]Outcome{"m": Pass, "check": Fail}},
		{"failure behind a hidden status", "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tm\t0.01s\nFAIL\n", 0, map[string]Outcome{"m.TestA": Fail}},
		{"cut short", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\npanic: x\nFAIL\tm\t0.1s\n", 1,
			map[string]Outcome{"m.TestA": Pass, "m.TestB": NotRun, "m": Fail}},
		{"cargo", "running 3 tests\ntest a::b ... ok\ntest c ... FAILED\ntest d ... ignored\n\ntest result: FAILED. 1 passed\n", 101,
			map[string]Outcome{"a::b": Pass, "c": Fail, "d": Skip}},
		{"pytest -v", "====== test session starts ======\nt.py::test_a PASSED   [ 50%]\nt.py::test_b[x y] FAILED  [100%]\n", 1,
			map[string]Outcome{"t.py::test_a": Pass, "t.py::test_b[x y]": Fail}},
		{"pytest empty", "====== test session starts ======\ncollected 0 items\n", 5, map[string]Outcome{}},
		{"a program's own JSON", `{"Action":"pass","Price":3}` + "\n", 0, map[string]Outcome{"check": Pass}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			set, err := Parse("", []byte(c.output), nil, c.exit, "check")
			if err != nil {
				t.Fatal(err)
			}
			check(t, set, c.want)
		})
	}
}

func TestJUnit(t *testing.T) {
	parse := func(text string) (Set, error) {
		return Parse("junit:*.xml", nil, map[string][]byte{"r.xml": []byte(text)}, 0, "check")
	}
	set, err := parse(`<?xml version="1.0" encoding="ISO-8859-1"?><testsuites><testsuite name="s" failures="1">
<testcase classname="c.K" name="ok"/><testcase classname="c.K" name="bad"><failure>x</failure><rerunFailure/></testcase>
<testcase classname="c.K" name="again"><rerunFailure/></testcase><testcase name="lone"><skipped/></testcase>
<testcase classname="c.K" name="flaky"><flakyFailure/></testcase></testsuite><testsuite name="broken" errors="1"/></testsuites>`)
	if err != nil {
		t.Fatal(err)
	}
	check(t, set, map[string]Outcome{"c.K.ok": Pass, "c.K.bad": Fail, "c.K.again": Fail, "lone": Skip, "c.K.flaky": Pass, "broken": Fail})
	for name, text := range map[string]string{"html": "<html></html>", "text": "all good", "cut": `<testsuites><testsuite><testcase name="a"/>`} {
		if _, err := parse(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, text := range map[string]string{"empty file": "", "empty suite": `<testsuite name="s" tests="0"/>`} {
		if set, err := parse(text); err != nil || len(set.Tests) != 0 {
			t.Errorf("%s: %v, %v", name, set.Tests, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("auto", []byte("--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tm\t0.01s\n"), 1)
	f.Add("go-json", []byte(`{"Action":"run","Package":"m","Test":"T"}`), 0)
	f.Add("junit:*", []byte(`<testsuites><testsuite><testcase name="a"><failure/></testcase></testsuite></testsuites>`), 0)
	f.Fuzz(func(t *testing.T, spec string, data []byte, exit int) {
		set, _ := Parse(spec, data, map[string][]byte{"f": data}, exit, "check")
		for id, o := range set.Tests {
			if !o.Valid() {
				t.Errorf("%q is %q", id, o)
			}
		}
		if exit != 0 && set.failures() == 0 && !nothingRan(set, exit) {
			t.Error("a status other than 0 without a failure")
		}
		Text(data)
	})
}
