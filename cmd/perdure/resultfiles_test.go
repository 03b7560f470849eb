package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A JUnit file that the command names is read without being told, is no edit, and one that an earlier run left is no result.
func TestResultFilesThatTheCommandNames(t *testing.T) {
	for name, c := range map[string]struct{ tool, file, text, command, test string }{
		"pytest": {"pytest", "test_a.py", "def test_one():\n    assert 1\n\ndef test_two():\n    assert 1\n", "pytest -q -p no:cacheprovider --junitxml=out/r.xml", "test_a.test_two"},
		"node":   {"node", "a.test.js", "const test = require('node:test')\ntest('one', () => {})\ntest('two', () => {})\n", "mkdir -p out && node --test --test-reporter=junit --test-reporter-destination=out/r.xml", "test.two"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Skip("no " + c.tool + " here")
			}
			b := newBox(t)
			p := &project{box: b, name: "named", dir: filepath.Join(b.dir, "named")}
			b.must("", "git", "init", "-q", "-b", "main", p.dir)
			p.put(c.file, c.text)
			p.put(".gitignore", "__pycache__\nskip\n") // not out: the file is declared
			p.git("add", "-A")
			p.git("commit", "-qm", "begin")
			p.want(0, "new", p.name, "--dir", p.dir, "--check", "test -e skip || { "+c.command+"; }")
			p.want(0, "handoff", "record", p.name, "--passed", c.test, "--next", "go on", "--wait")
			for range 2 {
				if verdict, all := p.report(); verdict != "holds" {
					t.Errorf("%s %+v", verdict, all)
				}
			}
			p.put("skip", "")
			if verdict, all := p.report(); verdict != "inconclusive" || !strings.Contains(all[0].Found, "no result file written now") {
				t.Errorf("a file of an earlier run: %s %+v", verdict, all)
			}
		})
	}
}

// A file that can't be loaded has the same name wherever the check runs; and of several result files, those that an
// earlier run left are named.
func TestNamesAndStaleFilesOfResults(t *testing.T) {
	b := newBox(t)
	p := &project{box: b, name: "stale", dir: filepath.Join(b.dir, "stale")}
	b.must("", "git", "init", "-q", "-b", "main", p.dir)
	p.put(".gitignore", "out\nskip\n")
	p.put("w.sh", "mkdir -p out; for n in a b; do [ $n = b ] && [ -e skip ] || echo \"<testsuite name='s'><testcase classname='c' name='$n'/></testsuite>\" > out/$n.xml; done\n")
	p.git("add", "-A")
	p.git("commit", "-qm", "begin")
	p.want(0, "new", p.name, "--dir", p.dir, "--check", "sh w.sh", "--results", "junit:out/*.xml")
	p.record()
	p.put("skip", "")
	verdict, all := p.report()
	if verdict != "contradicted" || !about(all, "c.b") || !strings.Contains(notes(all, "check"), "1 of 2 result files are of an earlier run, and left out: out/b.xml") {
		t.Errorf("%s %+v", verdict, all)
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("no node here")
	}
	p = &project{box: b, name: "load", dir: filepath.Join(b.dir, "load")}
	b.must("", "git", "init", "-q", "-b", "main", p.dir)
	p.put("bad.test.js", "nonsense(\n")
	p.git("add", "-A")
	p.git("commit", "-qm", "begin")
	p.want(0, "new", p.name, "--dir", p.dir, "--check", "node --test --test-reporter=tap")
	p.want(0, "handoff", "record", p.name, "--failed", "bad.test.js: it does not parse", "--next", "go on", "--wait")
	if out := p.want(0, "handoff", "verify", p.name, "--json"); strings.Contains(out, `"`+p.dir+`/bad.test.js": "fail"`) {
		t.Errorf("an absolute name: %s", out)
	}
}
