package main

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// covered is a project whose edited files have a known answer.
type covered struct {
	files  map[string]string // committed, and edited after the base
	ignore string            // of .gitignore
	before string            // run before the record, as a person would have
	check  string
	tools  []string
	want   map[string]string // path → exercised, opened, not opened or unknown
	trace  string            // "" where it doesn't matter
}

const (
	goMod    = "module m\n\ngo 1.24\n"
	goTest   = "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n"
	pyTest   = "import lib.used\n\ndef test_a():\n    assert lib.used.x == 1\n"
	nodeTest = "require('node:test')('a', () => require('./used.js'))\n"
	shTest   = "#!/bin/sh\nset -e\ncat used.txt\n"
)

// What a check provably never opened is told from what can't be told, for each edited file, in each of the tools.
func TestWhatACheckHadToDoWithEachEditedFile(t *testing.T) {
	for name, c := range map[string]covered{
		"go": {files: map[string]string{"go.mod": goMod, "a/a.go": "package a\n", "a/a_test.go": goTest, "a/other_test.go": "package a_test\n", "a/a_plan9.go": "package a\n", "b/b.go": "package b\n", "a/testdata/unread": "x"},
			check: "go test ./...", tools: []string{"go"},
			want: map[string]string{"a/a.go": "opened", "a/a_test.go": "opened", "a/other_test.go": "opened", "a/a_plan9.go": "not opened", "b/b.go": "not opened", "a/testdata/unread": "not opened"}, trace: "complete"},
		"go, files that tests read or embed": {files: map[string]string{"go.mod": goMod, "a/a_test.go": "package a\n\nimport (\n\t_ \"embed\"\n\t\"os\"\n\t\"testing\"\n)\n\n//go:embed e.txt\nvar e string\n\nfunc TestA(t *testing.T) {\n\tif _, err := os.ReadFile(\"testdata/in.go\"); err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n",
			"a/e.txt": "x", "a/testdata/in.go": "package in\n", "a/testdata/no.go": "package no\n"}, check: "go test ./a", tools: []string{"go"},
			want: map[string]string{"a/e.txt": "opened", "a/testdata/in.go": "opened", "a/testdata/no.go": "not opened"}},
		"go, tags": {files: map[string]string{"go.mod": goMod, "a/a_test.go": goTest, "a/slow.go": "//go:build slow\n\npackage a\n", "a/fast.go": "//go:build !slow\n\npackage a\n"}, check: "go test -tags slow ./...", tools: []string{"go"},
			want: map[string]string{"a/slow.go": "opened", "a/fast.go": "not opened"}},
		"a go module within": {files: map[string]string{"go.mod": goMod, "a.go": "package m\n", "in/go.mod": "module example.com/in\n\ngo 1.24\n", "in/a.go": "package a\n", "in/a_test.go": goTest, "in/b/b.go": "package b\n"}, check: "cd in && go test ./...", tools: []string{"go"},
			want: map[string]string{"a.go": "not opened", "in/a.go": "opened", "in/b/b.go": "not opened"}},
		"a go workspace": {files: map[string]string{"go.work": "go 1.24\n\nuse (\n\t./x\n\t./y\n)\n", "x/go.mod": "module x.org/x\n\ngo 1.24\n", "x/x.go": "package a\n\nimport _ \"x.org/y\"\n", "x/x_test.go": goTest, "y/go.mod": "module x.org/y\n\ngo 1.24\n", "y/y.go": "package y\n", "y/z/z.go": "package z\n"},
			check: "go test ./x/...", tools: []string{"go"}, want: map[string]string{"x/x.go": "opened", "y/y.go": "opened", "y/z/z.go": "not opened"}},
		"a test that runs go": {files: map[string]string{"go.mod": goMod, "a_test.go": "package a\n\nimport (\n\t\"os/exec\"\n\t\"testing\"\n)\n\nfunc TestA(t *testing.T) {\n\tif out, err := exec.Command(\"go\", \"run\", \"./c\").CombinedOutput(); err != nil {\n\t\tt.Fatal(string(out))\n\t}\n}\n", "c/c.go": "package main\n\nfunc main() {}\n"},
			check: "go test .", tools: []string{"go"}, want: map[string]string{"a_test.go": "opened", "c/c.go": "unknown"}},
		"files of one name, one covered": {files: map[string]string{"go.mod": goMod, "a/f.go": "package a\n\nfunc F() int { return 1 }\n", "a/f_test.go": "package a\n\nimport (\n\t_ \"m/b/a\"\n\t\"testing\"\n)\n\nfunc TestF(t *testing.T) { F() }\n", "b/a/f.go": "package a\n\nfunc F() int { return 1 }\n"}, ignore: "*.out",
			check: "go test -coverpkg ./... -coverprofile=c.out ./a", tools: []string{"go"}, want: map[string]string{"a/f.go": "exercised", "b/a/f.go": "opened"}},
		"pytest": {files: map[string]string{"test_a.py": pyTest, "lib/__init__.py": "", "lib/used.py": "x = 1\n", "lib/unused.py": "x = 1\n"}, ignore: "__pycache__\n.pytest_cache", before: "pytest -q",
			check: "pytest -v", tools: []string{"pytest"}, want: map[string]string{"test_a.py": "opened", "lib/used.py": "opened", "lib/unused.py": "not opened"}, trace: "complete"},
		"python with its caches elsewhere": {files: map[string]string{"test_a.py": pyTest, "lib/__init__.py": "", "lib/used.py": "x = 1\n"}, before: "PYTHONPYCACHEPREFIX=$HOME/pyc pytest -q -p no:cacheprovider",
			check: "PYTHONPYCACHEPREFIX=$HOME/pyc pytest -v -p no:cacheprovider", tools: []string{"pytest"}, want: map[string]string{"lib/used.py": "unknown"}, trace: "partial"},
		"node": {files: map[string]string{"a.test.js": nodeTest, "used.js": "", "unused.js": ""}, check: "node --test --test-reporter=tap", tools: []string{"node"},
			want: map[string]string{"used.js": "opened", "unused.js": "not opened"}, trace: "complete"},
		"npm test of node": {files: map[string]string{"package.json": `{"scripts": {"build": "tsc", "test": "node --test --test-reporter=tap"}}`, "a.test.js": nodeTest, "used.js": "", "unused.js": ""}, check: "npm test --silent", tools: []string{"npm"},
			want: map[string]string{"used.js": "opened", "unused.js": "not opened"}, trace: "complete"},
		"npm test of a tool that caches": {files: map[string]string{"package.json": `{"scripts": {"test": "jest"}}`, "used.js": ""}, ignore: "node_modules", before: "mkdir -p node_modules/.bin node_modules/jest && printf '#!/bin/sh\\nexit 0\\n' > node_modules/jest/jest && chmod +x node_modules/jest/jest && ln -s ../jest/jest node_modules/.bin/jest",
			check: "npm test --silent", tools: []string{"npm"}, want: map[string]string{"used.js": "unknown"}, trace: "partial"},
		"make, when nothing is to be made": {files: map[string]string{"Makefile": "check: out\n\tcat out\nout: src.txt\n\tcp src.txt out\n", "src.txt": "x", "other.txt": "x"}, ignore: "out", before: "make", check: "make -s check", tools: []string{"make"},
			want: map[string]string{"src.txt": "unknown", "other.txt": "unknown", "Makefile": "opened"}, trace: "partial"},
		"make behind a script": {files: map[string]string{"run.sh": "#!/bin/sh\nexec make -s check\n", "Makefile": "check:\n\t@true\n", "src.txt": "x"}, check: "sh run.sh", tools: []string{"make"},
			want: map[string]string{"src.txt": "unknown", "run.sh": "opened"}, trace: "partial"},
		"what was built before": {files: map[string]string{"run.sh": "#!/bin/sh\n[ build/p -nt src.sh ] || cp src.sh build/p\nsh build/p\n", "src.sh": "echo hello\n"}, ignore: "build/", before: "mkdir build && cp src.sh build/p", check: "sh run.sh",
			want: map[string]string{"src.sh": "unknown", "run.sh": "opened"}, trace: "partial"},
		"shell": {files: map[string]string{"t.sh": shTest, "used.txt": "x", "unused.txt": "x"}, check: "sh t.sh",
			want: map[string]string{"t.sh": "opened", "used.txt": "opened", "unused.txt": "not opened"}, trace: "complete"},
		"a hard link": {files: map[string]string{"src.txt": "x", "unused.txt": "x"}, ignore: ".env", before: "ln src.txt .env", check: "cat .env",
			want: map[string]string{"src.txt": "opened", "unused.txt": "not opened"}},
		"a folder moved and moved back": {files: map[string]string{"src/a.txt": "x", "src/b.txt": "x"}, check: "mv src away && cat away/a.txt && mv away src",
			want: map[string]string{"src/a.txt": "opened", "src/b.txt": "not opened"}},
		"a folder made anew": {files: map[string]string{"src/a.txt": "x", "b.txt": "x"}, check: "cp -a src kept && rm -r src && mkdir src && ln kept/a.txt src/a.txt && rm -r kept",
			want: map[string]string{"src/a.txt": "opened", "b.txt": "not opened"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tool := range c.tools {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skip("no " + tool + " here")
				}
			}
			c.run(t)
		})
	}
}

func (c covered) run(t *testing.T) {
	b := newBox(t)
	p := &project{box: b, name: "edited", dir: filepath.Join(b.dir, "edited")}
	b.must("", "git", "init", "-q", "-b", "main", p.dir)
	p.put(".gitignore", c.ignore+"\n")
	for file, text := range c.files {
		p.put(file, text)
	}
	p.git("add", "-A")
	p.git("commit", "-qm", "base")
	p.want(0, "new", p.name, "--dir", p.dir, "--check", c.check)
	for file, text := range c.files {
		p.put(file, edited(file, text))
	}
	if c.before != "" {
		b.must(p.dir, "sh", "-c", c.before)
	}
	p.record()
	for range 2 {
		out, _ := p.run("handoff", "verify", p.name, "--json")
		var rep struct {
			Verdict string
			Checks  []struct{ Trace, Problem, Tail string }
			Edited  []struct{ Path, Check string }
		}
		decode(t, out, &rep)
		if len(rep.Checks) != 1 || rep.Checks[0].Trace == "off" {
			t.Fatalf("nothing was traced: %s", out)
		}
		got := map[string]string{}
		for _, e := range rep.Edited {
			got[e.Path] = e.Check
		}
		want := "holds"
		for _, file := range slices.Sorted(maps.Keys(c.want)) {
			if got[file] != c.want[file] {
				t.Errorf("%s: %q, want %q", file, got[file], c.want[file])
			}
		}
		for _, answer := range got {
			if answer == "not opened" {
				want = "uncovered"
			}
		}
		if rep.Verdict != want || c.trace != "" && rep.Checks[0].Trace != c.trace {
			t.Errorf("%s, trace %s, want %s, %s: %s", rep.Verdict, rep.Checks[0].Trace, want, c.trace, out)
		}
	}
}

// edited is a file after an edit that changes nothing that it does.
func edited(file, text string) string {
	switch ext := filepath.Ext(file); {
	case ext == ".go" || ext == ".js" || ext == ".mod" || ext == ".work":
		return text + "\n// Edited.\n"
	case ext == ".json":
		return text + "\n"
	}
	return text + "\n# edited\n"
}
