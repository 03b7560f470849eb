package results

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// suite is a small project of a tool, with a pass, a failure and a skip, and what its commands come to.
type suite struct {
	tool  string // whose absence skips it; the gate installs all
	files map[string]string
	runs  map[string]map[string]Outcome // by command
	none  string                        // a command that runs no test
}

const pythonSuite = `import unittest
class T(unittest.TestCase):
    def test_ok(self): pass
    def test_bad(self): self.fail("x")
    @unittest.skip("why")
    def test_skip(self): pass
    def test_sub(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
`

var suites = map[string]suite{
	"unittest": {"python3", map[string]string{"test_a.py": pythonSuite}, map[string]map[string]Outcome{
		"python3 -m unittest -v": {"test_a.T.test_ok": Pass, "test_a.T.test_bad": Fail, "test_a.T.test_skip": Skip, "test_a.T.test_sub": Fail},
	}, "python3 -m unittest -k nothing"},
	"pytest": {"pytest", map[string]string{"test_a.py": pythonSuite + `
import pytest
@pytest.mark.parametrize("a", ["x y", "1 - 2"])
def test_param(a): assert a
`}, map[string]map[string]Outcome{
		"pytest -v": {"test_a.py::T::test_ok": Pass, "test_a.py::T::test_bad": Fail, "test_a.py::T::test_skip": Skip, "test_a.py::T::test_sub": Fail,
			"test_a.py::test_param[x y]": Pass, "test_a.py::test_param[1 - 2]": Pass},
		"pytest -q": {"test_a.py::T::test_bad": Fail, "test_a.py::T::test_sub": Fail, "passed 1": Pass, "passed 2": Pass, "passed 3": Pass, "skipped 1": Skip},
	}, "pytest -k nothing"},
	"node": {"node", map[string]string{"a.test.js": `const {test, describe, it} = require('node:test'); const assert = require('assert');
test('ok', () => {}); test('bad', () => assert(false)); test('skipped', {skip: true}, () => {});
describe('outer', () => { it('inner', () => {}); });
`}, map[string]map[string]Outcome{
		"node --test --test-reporter=tap":  {"ok": Pass, "bad": Fail, "skipped": Skip, "outer/inner": Pass, "outer": Pass},
		"node --test --test-reporter=spec": {"ok": Pass, "bad": Fail, "skipped": Skip, "outer/inner": Pass, "outer": Pass},
	}, ""},
	"cargo": {"cargo", map[string]string{"Cargo.toml": "[package]\nname = \"demo\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/lib.rs": `/// ` + "```" + `
/// assert_eq!(demo::add(1, 2), 3);
/// ` + "```" + `
pub fn add(a: i32, b: i32) -> i32 { a + b }
#[cfg(test)]
mod tests { use super::*; #[test] fn ok() { assert_eq!(add(1, 2), 3) } #[test] fn bad() { assert_eq!(add(1, 2), 4) } #[test] #[ignore] fn later() {} }
`, "tests/it.rs": "#[test] fn whole() { assert_eq!(demo::add(2, 2), 4) }\n"}, map[string]map[string]Outcome{
		"cargo test --offline --no-fail-fast": {"demo::tests::ok": Pass, "demo::tests::bad": Fail, "demo::tests::later": Skip, "it::whole": Pass,
			"demo::src/lib.rs - add": Pass},
		"cargo test --offline --no-fail-fast -q": {"tests::bad": Fail, "1::passed 1": Pass, "1::skipped 1": Skip, "2::passed 1": Pass, "3::passed 1": Pass},
	}, "cargo test --offline nothing"},
}

// What the real tools print is recognised by itself, twice: the second run has the caches of the first.
func TestTools(t *testing.T) {
	for name, s := range suites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(s.tool); err != nil {
				t.Skip("no " + s.tool + " here")
			}
			dir := t.TempDir()
			for path, text := range s.files {
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run := func(command string) Set {
				cmd := exec.Command("sh", "-c", command)
				cmd.Dir = dir
				out, _ := cmd.CombinedOutput() // most fail, by design
				set, err := Parse("auto", out, nil, cmd.ProcessState.ExitCode(), "check")
				if err != nil {
					t.Errorf("%s: %v", command, err)
				}
				return set
			}
			for command, want := range s.runs {
				for range 2 {
					check(t, run(command), want)
				}
			}
			if s.none != "" {
				check(t, run(s.none), map[string]Outcome{})
			}
		})
	}
}

// Each form by its own name: no panic, no name twice, none without a bound, and a status other than 0 is a failure.
func FuzzEachForm(f *testing.F) {
	forms := []string{"go", "go-json", "cargo", "pytest", "unittest", "node", "tap", "junit:*", "exit"}
	for _, seed := range []string{
		"running 2 tests\ntest a ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
		"test_a.py::test_b PASSED [ 50%]\n=== 1 passed, 3 skipped in 0.1s ===\n",
		"test_a (m.T.test_a) ... ok\n----\nRan 1 test in 0.1s\n\nOK\n",
		"✔ ok (0.5ms)\n▶ outer\n  ✖ inner (1ms)\nℹ tests 2\n",
		"TAP version 13\nok 1 - a\n    ok 1 - b\n1..1\n",
	} {
		for i := range forms {
			f.Add(uint8(i), []byte(seed), 1)
		}
	}
	f.Fuzz(func(t *testing.T, form uint8, data []byte, exit int) {
		spec := forms[int(form)%len(forms)]
		set, _ := Parse(spec, data, map[string][]byte{"f": data}, exit, "check")
		size := 0
		for id, o := range set.Tests {
			size += len(id)
			if !o.Valid() || id == "" {
				t.Errorf("%s: %q is %q", spec, id, o)
			}
		}
		if most := 1<<24 + 4096*len(data); size > most {
			t.Errorf("%s: names of %d bytes from %d", spec, size, len(data))
		}
		if exit != 0 && set.failures() == 0 && !nothingRan(set, exit) {
			t.Errorf("%s: a status other than 0 without a failure", spec)
		}
	})
}
