package results

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestFilesThatACommandNames(t *testing.T) {
	for command, want := range map[string][]string{
		"pytest --junitxml=out.xml":                                                  {"out.xml"},
		"pytest --junit-xml 'a b'/x.xml -q":                                          {"a"},
		"cd sub && python3 -m pytest --junit-xml r/x.xml":                            {"r/x.xml", "sub/r/x.xml"},
		"gotestsum --junitfile j.xml ./...":                                          {"j.xml"},
		"vitest run --reporter=junit --outputFile=v.xml":                             {"v.xml"},
		"vitest run --reporter=json --outputFile=v.json":                             nil,
		"node --test --test-reporter=junit --test-reporter-destination=n.xml":        {"n.xml"},
		"node --test --test-reporter=spec --test-reporter-destination=stdout":        nil,
		"JEST_JUNIT_OUTPUT_FILE=j/j.xml npx jest":                                    {"j/j.xml"},
		"cargo nextest run; cp target/nextest/ci/junit.xml .":                        {"target/nextest/ci/junit.xml"},
		"pytest --junitxml=/tmp/x.xml; pytest --junitxml=../x.xml --junitxml=$F.xml": nil,
		"pytest": nil,
	} {
		var got []string
		for _, f := range Named(command) {
			got = append(got, f.Path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v", command, got)
		}
	}
}

// A command that runs two tools has the tests of both, each once.
func TestNamedFilesBesideWhatIsPrinted(t *testing.T) {
	output := "test_a.py::test_x PASSED [100%]\n=== 1 passed in 0.1s ===\n--- PASS: TestG (0.00s)\nPASS\nok  \tm\t0.01s\n"
	files := map[string][]byte{"o.xml": []byte(`<testsuites><testsuite name="pytest"><testcase classname="test_a" name="test_x"/></testsuite></testsuites>`)}
	set, err := ParseNamed([]byte(output), files, []string{"pytest"}, 0, "check")
	if err != nil {
		t.Fatal(err)
	}
	check(t, set, map[string]Outcome{"test_a.test_x": Pass, "m.TestG": Pass})
	set, err = ParseNamed(nil, files, []string{"pytest"}, 2, "check")
	if err != nil || set.Tests["check"] != Fail {
		t.Errorf("a status other than 0: %v, %v", set.Tests, err)
	}
}

// The documents name every spec.
func TestTheDocumentsNameEverySpec(t *testing.T) {
	for _, file := range []string{"../../README.md", "../FORMAT.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range Specs() {
			if !strings.Contains(string(text), "`"+spec+"`") {
				t.Errorf("%s doesn't name %s", file, spec)
			}
		}
	}
}
