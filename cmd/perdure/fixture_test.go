package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sum is a test of the fixtures: left + right is want.
type sum struct {
	name              string
	left, right, want int
}

// sums are the tests that every fixture begins with.
func sums() []sum {
	return []sum{{"one", 1, 2, 3}, {"two", 2, 2, 4}, {"three", 5, 6, 11}, {"four", 0, 0, 0}}
}

// language is a way to write the same small project with the same tests.
type language struct {
	name, check   string
	source, tests string // paths
	comment       string
	code          string // of source; it adds
	test          func([]sum) string
	id            func(name string) string // what a finding about a test names
	tools         []string
}

func languages(t *testing.T) []language {
	t.Helper()
	each := func(head string, line func(sum) string, tail string) func([]sum) string {
		return func(all []sum) string {
			text := head
			for _, s := range all {
				text += line(s)
			}
			return text + tail
		}
	}
	python := func(s sum) string {
		return fmt.Sprintf("    def test_%s(self):\n        self.assertEqual(add(%d, %d), %d)\n\n", s.name, s.left, s.right, s.want)
	}
	all := []language{
		{"go", "go test -v ./...", "src/calc.go", "src/calc_test.go", "// ", "package calc\n\nfunc Add(a, b int) int { return a + b }\n",
			each("package calc\n\nimport \"testing\"\n\n", func(s sum) string {
				return fmt.Sprintf("func Test_%s(t *testing.T) {\n\tif Add(%d, %d) != %d {\n\t\tt.Fatal()\n\t}\n}\n\n", s.name, s.left, s.right, s.want)
			}, ""), func(n string) string { return "Test_" + n }, []string{"go"}},
		{"unittest", "python3 -m unittest -v src/test_calc.py", "src/calc.py", "src/test_calc.py", "# ", "def add(a, b):\n    return a + b\n",
			each("import unittest\nfrom src.calc import add\n\nclass TestCalc(unittest.TestCase):\n", python, ""), func(string) string { return "src/test_calc.py" }, []string{"python3"}},
		{"pytest", "pytest -v src", "src/calc.py", "src/test_calc.py", "# ", "def add(a, b):\n    return a + b\n",
			each("import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\nfrom calc import add\n\n", func(s sum) string {
				return fmt.Sprintf("def test_%s():\n    assert add(%d, %d) == %d\n\n", s.name, s.left, s.right, s.want)
			}, ""), func(n string) string { return "test_" + n }, []string{"pytest"}},
		{"node", "node --test --test-reporter=tap src", "src/calc.js", "src/calc.test.js", "// ", "exports.add = (a, b) => a + b\n",
			each("const test = require('node:test')\nconst assert = require('node:assert')\nconst { add } = require('./calc.js')\n\n", func(s sum) string {
				return fmt.Sprintf("test('adds_%s', () => assert.strictEqual(add(%d, %d), %d))\n", s.name, s.left, s.right, s.want)
			}, ""), func(n string) string { return "adds_" + n }, []string{"node"}},
		{"shell", "sh src/test.sh", "src/calc.sh", "src/test.sh", "# ", "add() { echo $(($1 + $2)); }\n",
			each(". src/calc.sh\nn=0\nbad=0\nis() { n=$((n + 1)); if [ \"$2\" = \"$3\" ]; then echo \"ok $n - $1\"; else echo \"not ok $n - $1\"; bad=1; fi; }\n", func(s sum) string {
				return fmt.Sprintf("is adds_%s \"$(add %d %d)\" %d\n", s.name, s.left, s.right, s.want)
			}, "echo \"1..$n\"\nexit $bad\n"), func(n string) string { return "adds_" + n }, []string{"sh"}},
	}
	return slices.DeleteFunc(all, func(l language) bool {
		for _, tool := range l.tools {
			if _, err := exec.LookPath(tool); err != nil {
				t.Logf("without %s: %v", l.name, err)
				return true
			}
		}
		return false
	})
}

// project is a repository in a language, with everything a change can be made to.
type project struct {
	*box
	language
	name, dir string   // the workspace, and its directory
	wants     []string // flags of its record
}

// git runs git in the project with a name and an address.
func (p *project) git(args ...string) string {
	p.t.Helper()
	return p.must(p.dir, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always", "-c", "core.autocrlf=false"}, args...)...)
}

func (p *project) put(file, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	mode := os.FileMode(0o644)
	if info, err := os.Lstat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) text(file string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, file))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

// fixtures holds a template of each language on a box; a project is a copy of one.
type fixtures struct {
	*box
	langs []language
	made  int
}

func newFixtures(t *testing.T) *fixtures {
	f := &fixtures{box: newBox(t), langs: languages(t)}
	inner := filepath.Join(f.dir, "library")
	f.must("", "git", "init", "-q", "-b", "main", inner)
	f.write(inner+"/lib.txt", "a library\n")
	f.must(inner, "git", "add", "-A")
	f.must(inner, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "library")
	for _, l := range f.langs {
		f.template(l, inner)
	}
	return f
}

func (f *fixtures) template(l language, inner string) {
	p := &project{box: f.box, language: l, dir: filepath.Join(f.dir, "template-"+l.name)}
	f.must("", "git", "init", "-q", "-b", "main", p.dir)
	files := map[string]string{
		l.source: l.code, l.tests: l.test(sums()), ".gitignore": "__pycache__/\n.pytest_cache/\n.out/\n*.log\n",
		"docs/notes.md": "nothing opens this\n", "docs/other.md": "nor this\n", "outside/file.txt": "another's\n", "run.sh": "#!/bin/sh\n", "lock.json": "{\"version\": 1}\n", "made.txt": "made by a tool\n",
	}
	if l.name == "go" {
		files["go.mod"] = "module example.com/calc\n\ngo 1.24\n"
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		p.put(file, files[file])
	}
	if err := os.Chmod(filepath.Join(p.dir, "run.sh"), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Symlink("docs/notes.md", filepath.Join(p.dir, "link")); err != nil {
		f.t.Fatal(err)
	}
	p.git("submodule", "--quiet", "add", inner, "lib")
	p.git("add", "-A")
	p.git("commit", "-qm", "begin")
	p.git("branch", "side")
	p.put("docs/untracked.md", "not added\n")
}

// project is a recorded copy of a template.
func (f *fixtures) project(l language) *project {
	f.t.Helper()
	p := f.bare(l)
	p.record()
	return p
}

// bare copies the template of a language, and makes a workspace there.
func (f *fixtures) bare(l language) *project {
	f.t.Helper()
	f.made++
	p := &project{box: f.box, language: l, name: fmt.Sprintf("w%d", f.made)}
	p.dir = filepath.Join(f.dir, p.name)
	f.must("", "cp", "-a", filepath.Join(f.dir, "template-"+l.name), p.dir)
	p.want(0, "new", p.name, "--dir", p.dir, "--check", l.check, "--owns", "src", "--owns", "docs", "--owns", "*", "--owns", "lib", "--untested", "docs/**", "--untested", "*.{json,txt}")
	return p
}

func (p *project) record() {
	p.t.Helper()
	p.want(0, append([]string{"handoff", "record", p.name, "--next", "go on", "--wait"}, p.wants...)...)
}

// report verifies in full; the verdict, and its findings.
func (p *project) report(args ...string) (string, []finding) {
	p.t.Helper()
	var rep struct {
		Verdict  string
		Findings []finding
	}
	out, _ := p.run(append([]string{"handoff", "verify", p.name, "--json"}, args...)...)
	decode(p.t, out, &rep)
	return rep.Verdict, rep.Findings
}

// about tells whether a finding that counts names a word.
func about(all []finding, word string) bool {
	return slices.ContainsFunc(all, func(f finding) bool {
		return f.Kind != "note" && strings.Contains(f.Subject+" "+f.Recorded+" "+f.Found, word)
	})
}

func (p *project) remove() {
	p.run("rm", p.name, "--purge")
	os.RemoveAll(p.dir)
}
