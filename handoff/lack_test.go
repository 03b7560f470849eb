package handoff

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"perdure/handoff/results"
)

// What the surroundings lacked is no failure of the code; and a failure of the code stays one, whatever it prints.
func TestWhatTheSurroundingsLackedIsNoFailure(t *testing.T) {
	const mod, head = "module m\n\ngo 1.21\n", "package m\n\nimport (\n\t\"errors\"\n\t\"fmt\"\n\t\"net\"\n\t\"os\"\n\t\"syscall\"\n\t\"testing\"\n)\n\nvar _, _, _, _, _ = errors.New, fmt.Sprint, net.Listen, os.Getpid, syscall.Kill\n\n"
	taken := "func TestPort(t *testing.T) {\n\tl, err := net.Listen(\"tcp\", \"127.0.0.1:0\")\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\tdefer l.Close()\n\tif _, err := net.Listen(\"tcp\", l.Addr().String()); err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n"
	fails := "func TestAdd(t *testing.T) { t.Fatal(\"1 + 1 = 3\") }\n"
	for name, c := range map[string]struct {
		files   map[string]string
		tool    string
		cmd     string
		problem string
		failed  string // a test that failed, where there is no problem
	}{
		"a killed program":                       {nil, "", "sh -c 'kill -9 $$'; exit 1", ProblemKilled, ""},
		"a killed program of make":               {map[string]string{"Makefile": "test:\n\tkill -9 $$$$\n"}, "make", "make test", ProblemKilled, ""},
		"a killed program, bash":                 {nil, "bash", "bash -c '(kill -9 $BASHPID); bash -c \"kill -9 \\$\\$\"; exit 1'", ProblemKilled, ""},
		"npm":                                    {nil, "", "echo npm error signal SIGKILL; exit 1", ProblemKilled, ""},
		"cargo":                                  {nil, "", "printf 'running 2 tests\\ntest a ... ok\\nerror: test failed\\n\\nCaused by:\\n  process did not exit successfully: `target/x` (signal: 9, SIGKILL: kill)\\n'; exit 101", ProblemKilled, ""},
		"a go test binary that is killed":        {map[string]string{"go.mod": mod, "a_test.go": head + "func TestA(t *testing.T) {}\nfunc TestB(t *testing.T) { syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }\n"}, "go", "go test .", ProblemKilled, ""},
		"go out of memory":                       {map[string]string{"go.mod": mod, "a_test.go": head + "func TestA(t *testing.T) { fmt.Fprintln(os.Stderr, \"fatal error: runtime: out of memory\"); os.Exit(2) }\n"}, "go", "go test .", ProblemEnvironment, ""},
		"go, port taken":                         {map[string]string{"go.mod": mod, "a_test.go": head + taken}, "go", "go test .", ProblemEnvironment, ""},
		"go as text, port taken":                 {map[string]string{"go.mod": mod, "a_test.go": head + taken}, "go", "go test . | cat; exit 1", ProblemEnvironment, ""},
		"go, port taken within a test":           {map[string]string{"go.mod": mod, "a_test.go": head + strings.NewReplacer("TestPort(t *testing.T) {", "TestOuter(t *testing.T) { t.Run(\"inner\", func(t *testing.T) {", "}\n}\n", "}\n})}\n").Replace(taken)}, "go", "go test .", ProblemEnvironment, ""},
		"go, port taken and a failure":           {map[string]string{"go.mod": mod, "a_test.go": head + taken + fails}, "go", "go test .", "", "m.TestAdd"},
		"go, a failure that mentions":            {map[string]string{"go.mod": mod, "a_test.go": head + "func TestSays(t *testing.T) { t.Error(`got \"out of memory\", want \"no space left on device\"`) }\n"}, "go", "go test .", "", "m.TestSays"},
		"go, a failure that compares an error":   {map[string]string{"go.mod": mod, "a_test.go": head + "func TestSays(t *testing.T) { t.Error(`want nil, got listen tcp 127.0.0.1:80: bind: address already in use`) }\n"}, "go", "go test .", "", "m.TestSays"},
		"go, a failure beside a passing mention": {map[string]string{"go.mod": mod, "a_test.go": head + fails + "func TestLogs(t *testing.T) { fmt.Println(\"listen tcp :80: bind: address already in use\"); fmt.Println(\"signal: killed\") }\n"}, "go", "go test .", "", "m.TestAdd"},
		"go, a panic beside a mention":           {map[string]string{"go.mod": mod, "a_test.go": head + "func TestA(t *testing.T) { fmt.Println(\"too many open files are refused\"); panic(\"no\") }\n"}, "go", "go test .", "", "m.TestA"},
		"a disk that is full while go builds":    {map[string]string{"go.mod": mod, "a_test.go": head + fails}, "go", "printf 'FAIL\\tm [build failed]\\ngo: writing out: write /tmp/x: no space left on device\\n'; exit 1", ProblemEnvironment, ""},
		"pytest, memory":                         {map[string]string{"test_a.py": "def test_a():\n    bytearray(1 << 60)\n\ndef test_b(): pass\n"}, "pytest", "pytest -p no:cacheprovider -q", ProblemEnvironment, ""},
		"pytest, port taken":                     {map[string]string{"test_a.py": "import socket\ndef test_a():\n    a = socket.socket(); a.bind(('127.0.0.1', 0)); a.listen()\n    socket.socket().bind(a.getsockname())\n"}, "pytest", "pytest -p no:cacheprovider", ProblemEnvironment, ""},
		"pytest, memory and a failure":           {map[string]string{"test_a.py": "def test_a():\n    bytearray(1 << 60)\n\ndef test_b(): assert 1 == 2\n"}, "pytest", "pytest -p no:cacheprovider -q", "", "test_a.py::test_b"},
		"pytest, a mention":                      {map[string]string{"test_a.py": "def test_a():\n    print('MemoryError')\n    assert 'MemoryError' == 'no space left on device'\n"}, "pytest", "pytest -p no:cacheprovider -q", "", "test_a.py::test_a"},
		"unittest, memory":                       {map[string]string{"test_a.py": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): bytearray(1 << 60)\n"}, "python3", "python3 -m unittest test_a", ProblemEnvironment, ""},
		"unittest, a mention":                    {map[string]string{"test_a.py": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual('MemoryError', '')\n"}, "python3", "python3 -m unittest test_a", "", "test_a.T.test_a"},
		"python, memory":                         {nil, "python3", "python3 -c 'bytearray(1 << 60)'", ProblemEnvironment, ""},
		"node, heap":                             {map[string]string{"a.test.js": "require('node:test')('hog', () => { const a = []; for (;;) a.push(new Array(1000).fill({})) })\n"}, "node", "NODE_OPTIONS=--max-old-space-size=30 node --test --test-reporter=tap a.test.js", ProblemEnvironment, ""},
		"node, killed":                           {map[string]string{"a.test.js": "process.kill(process.pid, 'SIGKILL')\n"}, "node", "node --test --test-reporter=tap a.test.js", ProblemEnvironment, ""},
		"node, port taken":                       {map[string]string{"a.test.js": nodePort}, "node", "node --test --test-reporter=tap a.test.js", ProblemEnvironment, ""},
		"node's own form, port taken":            {map[string]string{"a.test.js": nodePort}, "node", "node --test --test-reporter=spec a.test.js", ProblemEnvironment, ""},
		"node, a mention":                        {map[string]string{"a.test.js": "require('node:test')('says', () => { console.log(\"code: 'EADDRINUSE'\"); require('node:assert').strictEqual('no space left on device', \"\\n code: 'ENOSPC'\") })\n"}, "node", "node --test --test-reporter=tap a.test.js", "", "says"},
		"TAP, a mention":                         {nil, "", "printf '1..1\\nnot ok 1 - says no space left on device\\n'; exit 1", "", "says no space left on device"},
		"a status alone, disk full":              {nil, "", "echo 'cp: error writing x: No space left on device'; exit 1", ProblemEnvironment, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.tool != "" {
				if _, err := exec.LookPath(c.tool); err != nil {
					t.Skip(c.tool + " is not installed")
				}
			}
			dir := t.TempDir()
			write(t, dir, c.files)
			run := testRunner(dir).Run(context.Background(), CheckSpec{Label: "check", Cmd: c.cmd})
			if run.Problem != c.problem || run.Tail == "" {
				t.Fatalf("problem %q, want %q: %+v", run.Problem, c.problem, run)
			}
			if c.failed != "" && run.Results[c.failed] != results.Fail || c.failed == "" && len(run.Results) > 0 {
				t.Errorf("%+v", run)
			}
		})
	}
}

const nodePort = `const net = require('node:net')
require('node:test')('port', async () => {
  const a = net.createServer()
  await new Promise(done => a.listen(0, '127.0.0.1', done))
  try {
    await new Promise((done, fail) => net.createServer().on('error', fail).listen(a.address().port, '127.0.0.1', done))
  } finally { a.close() }
})
`
