package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A run that ends in success without a test says nothing, in each language.
func TestARunWithoutTestsSaysNothing(t *testing.T) {
	filter := map[string]string{
		"go": "go test -run Nothing ./...", "pytest": "pytest -v src -k nothing", "unittest": "python3 -m unittest -v -k nothing src/test_calc.py",
		"node": "mkdir -p .out && echo '' > .out/empty.test.js && echo 1..0", "shell": "echo 1..0",
	}
	none := []finding{{"inconclusive", "check", "", "", "no tests"}}
	play(t, []scene{
		{"nothing is selected", nil, nil, func(p *project) { p.want(0, "set", p.name, "--check", filter[p.language.name]) }, "inconclusive", none},
		{"an empty JUnit file", []string{"shell", "pytest"}, func(p *project) {
			p.want(0, "set", p.name, "--check", "mkdir -p .out; cp .out/given .out/r.xml", "--results", "junit:.out/*.xml")
			p.put(".out/given", junitOf("one", "two"))
		}, func(p *project) { p.put(".out/given", "") }, "inconclusive", none},
		{"a JUnit file without a test", []string{"shell"}, func(p *project) {
			p.want(0, "set", p.name, "--check", "mkdir -p .out; cp .out/given .out/r.xml", "--results", "junit:.out/*.xml")
			p.put(".out/given", junitOf("one", "two"))
		}, func(p *project) { p.put(".out/given", junitOf()) }, "inconclusive", none},
	})
}

func junitOf(names ...string) string {
	text := "<testsuites><testsuite name='s'>"
	for _, n := range names {
		text += "<testcase classname='c' name='" + n + "'/>"
	}
	return text + "</testsuite></testsuites>\n"
}

// A result file that an earlier run left, and none now.
func TestAnOldResultFileSaysNothing(t *testing.T) {
	old := func(p *project) {
		p.want(0, "set", p.name, "--check", "test -e .out/lazy || { mkdir -p .out; echo \""+strings.TrimSpace(junitOf("one"))+"\" > .out/r.xml; }", "--results", "junit:.out/*.xml")
	}
	stale := []finding{{"inconclusive", "check", "", "", "no result file written now"}}
	play(t, []scene{
		{"it is left as it was", []string{"shell", "node"}, old, func(p *project) { p.put(".out/lazy", "") }, "inconclusive", stale},
		{"its time is made new", []string{"shell"}, old, func(p *project) {
			p.put(".out/lazy", "")
			p.must(p.dir, "touch", ".out/r.xml")
		}, "inconclusive", stale},
	})
}

// What a run that stops early didn't reach is not run, which isn't gone; the record's passes are contradicted.
func TestARunThatStopsEarlySaysWhatItDidNotReach(t *testing.T) {
	edit := func(change func(p *project, was string) string) func(*project) {
		return func(p *project) { p.put(p.tests, change(p, p.text(p.tests))) }
	}
	reached := func(word string) []finding {
		return []finding{{"contradicted", "three", "", "", word}, {"contradicted", "four", "", "", word}, {"drifted", "src/", "", "", "test edited"}}
	}
	play(t, []scene{
		{"a panic", []string{"go"}, nil, edit(func(_ *project, was string) string {
			return strings.Replace(was, "func Test_three(t *testing.T) {", "func Test_three(t *testing.T) {\n\tpanic(1)", 1)
		}), "contradicted", []finding{{"contradicted", "Test_three", "", "", "fail"}, {"contradicted", "Test_four", "", "", "notrun"}}},
		{"os.Exit in a test", []string{"go"}, nil, edit(func(_ *project, was string) string {
			return strings.Replace(strings.Replace(was, "func Test_three(t *testing.T) {", "func Test_three(t *testing.T) {\n\tos.Exit(0)", 1), "\"testing\"", "(\n\t\"os\"\n\t\"testing\"\n)", 1)
		}), "contradicted", []finding{{"contradicted", "Test_three", "", "", "fail"}, {"contradicted", "Test_four", "", "", "notrun"}}},
		{"os.Exit in TestMain", []string{"go"}, nil, edit(func(_ *project, was string) string {
			return strings.Replace(was, "\"testing\"", "(\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(3) }", 1)
		}), "contradicted", reached("notrun")},
		{"os.Exit(0) in TestMain", []string{"go"}, nil, edit(func(_ *project, was string) string {
			return strings.Replace(was, "\"testing\"", "(\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(0) }", 1)
		}), "drifted", []finding{{"inconclusive", "check", "", "", "no tests"}}},
		{"a syntax error", []string{"go", "pytest", "unittest", "node"}, nil, edit(func(p *project, was string) string { return was + "\n)(\n" }), "contradicted", nil},
		{"a syntax error hides the tests", []string{"go", "pytest"}, nil, edit(func(p *project, was string) string { return was + "\n)(\n" }), "contradicted", reached("notrun")},
		{"an import that isn't there", []string{"pytest", "unittest"}, nil, edit(func(_ *project, was string) string { return "import nosuchmodule\n" + was }), "contradicted", reached("notrun")},
		{"an exit in the middle", []string{"shell"}, nil, edit(func(_ *project, was string) string {
			return strings.Replace(was, "is adds_three", "exit 3\nis adds_three", 1)
		}), "contradicted", reached("")},
		{"bail out", []string{"shell"}, nil, edit(func(_ *project, was string) string {
			return strings.Replace(was, "is adds_three", "echo 'Bail out! no disk'; exit 0\nis adds_three", 1)
		}), "contradicted", reached("notrun")},
		{"an exit of the interpreter", []string{"pytest", "unittest"}, nil, edit(func(p *project, was string) string {
			return strings.Replace(was, "add(5, 6)", "__import__('os')._exit(0)", 1)
		}), "contradicted", nil},
	})
}

// A command that hides its exit status hides no failure that its output tells.
func TestAHiddenExitStatusHidesNoFailure(t *testing.T) {
	var scenes []scene
	for _, how := range []string{" || true", " | cat", "; true", " 2>&1 | tee .out/log | cat", " || echo it failed"} {
		scenes = append(scenes, scene{"with" + how, nil, func(p *project) {
			p.put(".out/log", "")
			p.want(0, "set", p.name, "--check", p.language.check+how)
		}, func(p *project) { p.put(p.source, p.broken()) }, "contradicted", []finding{{"contradicted", "one", "", "", "fail"}, {"drifted", "src/calc", "", "", "edited"}}})
	}
	play(t, append(scenes, scene{"the other way round: a command that fails after its tests", []string{"go", "shell"}, func(p *project) {
		p.want(0, "set", p.name, "--check", p.language.check+"; test ! -e .out/lint")
		p.put(p.tests, p.test(append(sums(), sum{"five", 1, 1, 3})))
		p.wants = []string{"--failed", p.id("five") + ": known"}
	}, func(p *project) { p.put(".out/lint", "") }, "contradicted", []finding{{"contradicted", "exit status", "", "", "1"}}}))
}

// A record that a weaker check made is not confirmed by it: the workspace's own check is run too.
func TestAWeakerRecordedCheckConfirmsNothing(t *testing.T) {
	weak := func(check string, broken bool) func(*project) {
		return func(p *project) {
			p.want(0, "set", p.name, "--check", check)
			if broken {
				p.put(p.source, p.broken())
			}
		}
	}
	own := func(p *project) { p.want(0, "set", p.name, "--check", p.language.check) }
	play(t, []scene{
		{"and the own one fails", []string{"go", "pytest", "shell"}, weak("true", true), own, "inconclusive", []finding{{"inconclusive", "one", "", "", "fails"}}},
		{"and the own one passes", []string{"node", "unittest"}, weak("true", false), own, "holds", []finding{{"note", "check", "", "", "wasn't in the record"}}},
		{"of the same tests, which hid what fails", []string{"go"}, weak("go test -v -run Test_four ./...", true), own, "inconclusive", []finding{{"inconclusive", "Test_one", "", "", "fails"}}},
		{"in another folder", []string{"shell"}, func(p *project) {
			p.put("docs/src/test.sh", "echo 'ok 1 - adds_one'; echo 1..1\n")
			p.put(p.source, p.broken())
			p.want(0, "set", p.name, "--check", "a="+p.language.check, "--check-dir", "a=docs")
		}, func(p *project) { p.want(0, "set", p.name, "--check-dir", "a=.") }, "inconclusive", []finding{{"inconclusive", "adds_one", "", "", "disagrees"}}},
	})
}

// The same command in two folders is two checks.
func TestTheSameCommandInTwoFoldersIsTwoChecks(t *testing.T) {
	play(t, []scene{{"a test in each", []string{"shell"}, func(p *project) {
		p.put("docs/one/test.sh", "echo 'ok 1 - here'; echo 1..1\n")
		p.put("docs/two/test.sh", "echo 'not ok 1 - here'; echo 1..1; exit 1\n")
		p.want(0, "set", p.name, "--check", "a=sh test.sh", "--check", "b=sh test.sh", "--check-dir", "a=docs/one", "--check-dir", "b=docs/two")
		p.wants = []string{"--failed", "b:here: known"}
	}, func(*project) {}, "holds", nil}})
}

// Two runs that differ tell a flaky test from a wrong record; listed ones stop nobody and are counted.
func TestTwoRunsThatDifferAreFlaky(t *testing.T) {
	toggles := func(p *project) {
		p.want(0, "set", p.name, "--check", "if test -e .out/on; then echo 'not ok 1 - shaky'; rm .out/on; else echo 'ok 1 - shaky'; fi; echo 'ok 2 - firm'; echo 1..2")
	}
	play(t, []scene{
		{"one is", []string{"shell", "go"}, toggles, func(p *project) { p.put(".out/on", "") }, "inconclusive", []finding{{"inconclusive", "shaky", "", "", "flaky"}}},
		{"a listed one", []string{"shell"}, func(p *project) {
			toggles(p)
			p.want(0, "set", p.name, "--flaky", "shaky")
		}, func(p *project) { p.put(".out/on", "") }, "holds", []finding{{"note", "shaky", "", "", "listed as flaky"}}},
	})
}

// The next step's own condition is told where it is met, or can't be tried.
func TestTheNextStepIsDoneAlready(t *testing.T) {
	done := func(cmd string) func(*project) {
		return func(p *project) { p.wants = []string{"--done-when", cmd} }
	}
	nothing := func(*project) {}
	play(t, []scene{
		{"it is", []string{"shell", "go"}, done("test -e docs/other.md"), nothing, "holds", []finding{{"note", "done_when", "", "", "already done: go on"}}},
		{"it is not", []string{"shell"}, done("test -e docs/later.md"), nothing, "holds", nil},
		{"no such program", []string{"shell", "pytest"}, done("nosuchprogram --really"), nothing, "holds", []finding{{"note", "done_when", "", "", "missing"}}},
	})
}

// What was said not to be attempted and passes now contradicts; a commit that names it is a note.
func TestWhatWasNotAttemptedAndIsThere(t *testing.T) {
	skipped := func(item string) func(*project) {
		return func(p *project) { p.wants = []string{"--not-attempted", item} }
	}
	add := func(p *project) { p.put(p.tests, p.test(append(sums(), sum{"five", 1, 1, 2}))) }
	exact := func(p *project) { p.wants = []string{"--not-attempted", p.full("five")} }
	play(t, []scene{
		{"its exact ID passes", []string{"go", "node", "pytest", "shell"}, exact, add, "contradicted", []finding{{"contradicted", "five", "", "", "passes"}}},
		{"a name of another passes", []string{"go", "shell"}, skipped("five"), add, "drifted", nil},
		{"a commit names it", []string{"go", "pytest"}, skipped("import of CSV"), func(p *project) {
			p.git("commit", "-q", "--allow-empty", "-m", "Begin the import of CSV files")
		}, "holds", []finding{{"note", "import of CSV", "", "", "named by a commit"}}},
		{"a commit names another word", []string{"shell"}, skipped("port"), func(p *project) { p.git("commit", "-q", "--allow-empty", "-m", "Report it") }, "holds", nil},
	})
}

// full is a test's exact ID.
func (p *project) full(name string) string {
	switch p.language.name {
	case "go":
		return "example.com/calc/src.Test_" + name
	case "pytest":
		return "src/test_calc.py::test_" + name
	}
	return p.id(name)
}

// Without a check nothing tests the workspace: that is said, and stops nobody.
func TestWithoutACheckNothingHalts(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app")
	b.want(0, "handoff", "record", "app", "--next", "x", "--wait")
	b.named(b.verify(10), "uncovered", "checks", "nothing tests this workspace")
	b.want(0, "start", "app")
	b.want(0, "stop", "app")
	if err := os.WriteFile(filepath.Join(b.app, "more.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.named(b.verify(11), "drifted", "more.txt", "added")
	b.want(0, "handoff", "repair", "app", "--carry", "--wait")
	b.verify(10)
	b.want(0, "start", "app")
}
