package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A check that was run before, and again, leaves caches: they are no drift, and no result is missing because of them.
func TestASecondRunOfAToolWithCachesHolds(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		check string
	}{
		"cargo": {map[string]string{
			"Cargo.toml": "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
			"src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a + b }\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() { assert_eq!(super::add(1, 2), 3); }\n}\n",
			".gitignore": "/target\n",
		}, "cargo test --offline"},
		"npm": {map[string]string{
			"package.json": "{\"name\": \"calc\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"mkdir -p node_modules/.cache && date +%N > node_modules/.cache/at && node --test --test-reporter=tap\"}}\n",
			"calc.test.js": "require('node:test')('adds', () => require('node:assert').strictEqual(1 + 2, 3))\n",
			".gitignore":   "node_modules\n",
		}, "npm test --offline"},
		"pytest": {map[string]string{"test_calc.py": "def test_adds():\n    assert 1 + 2 == 3\n", ".gitignore": "__pycache__\n.pytest_cache\n"}, "pytest -v"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			p := &project{box: b, name: "tool", dir: filepath.Join(b.dir, "tool")}
			for _, variable := range []string{"RUSTUP_HOME", "CARGO_HOME"} {
				if folder := filepath.Join(os.Getenv("HOME"), map[string]string{"RUSTUP_HOME": ".rustup", "CARGO_HOME": ".cargo"}[variable]); os.Getenv(variable) == "" && exists(folder) {
					b.env = append(b.env, variable+"="+folder)
				}
			}
			if out, err := command(b, name, "--version"); err != nil {
				t.Skipf("%s can't be run here: %v %s", name, err, out)
			}
			b.must("", "git", "init", "-q", "-b", "main", p.dir)
			for file, text := range c.files {
				p.put(file, text)
			}
			p.must(p.dir, "sh", "-c", c.check)
			p.git("add", "-A")
			p.git("commit", "-qm", "begin")
			b.must(p.dir, "sh", "-c", "rm -rf target node_modules __pycache__ .pytest_cache")
			b.kill() // the server's own environment is what checks start from
			b.serve("127.0.0.1:0")
			p.want(0, "new", p.name, "--dir", p.dir, "--check", c.check)
			p.record()
			for range 2 {
				if verdict, all := p.report(); verdict != "holds" {
					t.Errorf("%s: %+v", verdict, all)
				}
			}
		})
	}
}

func command(b *box, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = b.dir, b.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}
