package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Ignored files are no part of the tree. Where only they changed, the results decide, and what the check opened of them
// is named: beside a verdict that holds, and beside a difference.
func TestOnlyIgnoredFilesChanged(t *testing.T) {
	for name, c := range map[string]struct {
		tool, check string
		files       map[string]string
	}{
		"python": {"pytest", "pytest -v", map[string]string{"test_a.py": "import json\n\ndef conf():\n    return dict(l.split('=') for l in open('.env').read().split())\n\ndef test_port():\n    assert conf()['PORT'] == '1'\n\ndef test_out():\n    assert json.load(open('build/out.json'))\n"}},
		"node":   {"node", "node --test --test-reporter=tap", map[string]string{"a.test.js": "const test = require('node:test'), fs = require('node:fs'), assert = require('node:assert')\ntest('port', () => assert(/PORT=1\\n/.test(fs.readFileSync('.env', 'utf8'))))\ntest('out', () => assert(JSON.parse(fs.readFileSync('build/out.json'))))\n"}},
		"a link": {"sh", "grep PORT=1 linked.env && test -s build/out.json", map[string]string{"t.sh": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Skip("no " + c.tool + " here")
			}
			b := newBox(t)
			p := &project{box: b, name: "inputs", dir: filepath.Join(b.dir, "inputs")}
			b.must("", "git", "init", "-q", "-b", "main", p.dir)
			for file, text := range c.files {
				p.put(file, text)
			}
			env := ".env"
			p.put(".gitignore", ".env\nbuild/\n__pycache__/\n.pytest_cache/\n")
			if name == "a link" {
				env = "linked.env"
				b.must(p.dir, "ln", "-s", "../secrets", "linked.env")
				p.put("../secrets", "PORT=1\nKEY=hunter2\n")
			} else {
				p.put(".env", "PORT=1\nKEY=hunter2\n")
			}
			p.put("build/out.json", "[1]\n")
			p.git("add", "-A")
			p.git("commit", "-qm", "begin")
			p.want(0, "new", p.name, "--dir", p.dir, "--check", c.check)
			p.record()
			if verdict, all := p.report(); verdict != "holds" || notes(all, env) != "" {
				t.Errorf("unchanged: %s %+v", verdict, all)
			}
			p.put(env, "PORT=1\nKEY=other\n")
			verdict, all := p.report()
			if verdict != "holds" || !strings.Contains(notes(all, env), "changed") || notes(all, "build/out.json") != "" {
				t.Errorf("equal results: %s %+v", verdict, all)
			}
			p.put(env, "PORT=2\n")
			verdict, all = p.report()
			if verdict != "contradicted" || !strings.Contains(notes(all, env), "may differ for this") {
				t.Errorf("other results: %s %+v", verdict, all)
			}
			p.put(env, "PORT=1\nKEY=hunter2\n") // taken back
			if verdict, all = p.report(); verdict != "holds" || notes(all, env) != "" {
				t.Errorf("taken back: %s %+v", verdict, all)
			}
			if out := b.must("", "sh", "-c", "for r in $(git --git-dir "+b.dir+"/state/snapshots/ledger.git for-each-ref --format='%(refname)'); do git --git-dir "+b.dir+"/state/snapshots/ledger.git cat-file blob $r; done"); strings.Contains(out, "hunter2") || !strings.Contains(out, `"inputs":{`) {
				t.Errorf("a secret is in the ledger, or no input: %s", out)
			}
		})
	}
}

// notes is what the notes say about a subject.
func notes(all []finding, subject string) (text string) {
	for _, f := range all {
		if f.Kind == "note" && f.Subject == subject {
			text += f.Found + ": " + f.Note + "\n"
		}
	}
	return text
}
