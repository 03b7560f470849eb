package trace

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// tree writes files into a folder of its own.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for f, text := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(f)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// watched runs a script in a folder under a watch.
func watched(t *testing.T, dir string, follow Follow, most int, script string) Result {
	t.Helper()
	w, err := start(dir, follow, most)
	if err != nil {
		t.Skip("no inotify here: ", err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	r := w.Stop()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

func TestWatchSeesWhatIsOpenedAndNothingElse(t *testing.T) {
	files := map[string]string{}
	for _, f := range []string{"a", "b", "sub/c", "sub/d", "node_modules/x/e", "node_modules/x/f", "target/debug/deps/p", "target/debug/incremental/q/r"} {
		files[f] = "x"
	}
	r := watched(t, tree(t, files), Follow{Edited: []string{"node_modules/x/e"}}, maxFolders,
		"cat a sub/c node_modules/x/e target/debug/deps/p target/debug/incremental/q/r; stat b sub/d; mkdir made; ls -R")
	for f, want := range map[string]bool{"a": true, "sub/c": true, "node_modules/x/e": true, "target/debug/deps/p": true, "target/debug/incremental/q/r": false,
		"b": false, "sub/d": false, "node_modules/x/f": false} {
		if r.Read(f) != want {
			t.Errorf("%s: opened %v", f, r.Read(f))
		}
	}
	if !r.Complete {
		t.Error("said to be partial")
	}
}

// A file has other names: by a hard link within the tree or outside, or while its folder is elsewhere. A folder that comes
// to be may be read before it is followed: then nobody knows.
func TestAFileUnderAnotherName(t *testing.T) {
	for name, c := range map[string]struct {
		script       string
		read, unsure bool
	}{
		"its own":                   {"cat src/a.txt", true, false},
		"not at all":                {"true", false, false},
		"a hard link":               {"ln src/a.txt other && cat other", true, false},
		"a hard link from before":   {"cat linked", true, false},
		"a hard link outside":       {"cat \"$(dirname \"$PWD\")/outside\"", true, false},
		"a folder that was moved":   {"mv src src2 && cat src2/a.txt", true, false},
		"moved and back":            {"mv src src2 && cat src2/a.txt && mv src2 src", true, false},
		"moved and back, unread":    {"mv src src2 && mv src2 src", false, false},
		"a symbolic link":           {"ln -s src/a.txt s && cat s", true, false},
		"written anew":              {"rm src/a.txt; echo x > src/b; mv src/b src/a.txt; cat src/a.txt", true, false},
		"another folder came to be": {"mkdir more; echo x > more/b; cat more/b", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			outer := tree(t, map[string]string{"tree/src/a.txt": "x"})
			dir := filepath.Join(outer, "tree")
			for _, link := range []string{filepath.Join(dir, "linked"), filepath.Join(outer, "outside")} {
				if err := os.Link(filepath.Join(dir, "src/a.txt"), link); err != nil {
					t.Fatal(err)
				}
			}
			r := watched(t, dir, Follow{Edited: []string{"src/a.txt"}}, maxFolders, c.script)
			if r.Read("src/a.txt") != c.read || !c.read && r.Unsure("src/a.txt") != c.unsure {
				t.Errorf("read %v, unsure %v", r.Read("src/a.txt"), r.Unsure("src/a.txt"))
			}
		})
	}
	r := watched(t, tree(t, map[string]string{"src/a.txt": "x"}), Follow{Edited: []string{"src/a.txt"}}, maxFolders, "rm -r src; mkdir src; ln /etc/hostname src/a.txt 2>/dev/null || cp /etc/hostname src/a.txt")
	if !r.Read("src/a.txt") && !r.Unsure("src/a.txt") {
		t.Error("a file in a folder made anew is said not to be opened")
	}
}

func TestWhatIsMissedIsSaid(t *testing.T) {
	dir := tree(t, map[string]string{"a": "x", "b": "x", "s1/c": "x", "s2/d": "x"})
	if r := watched(t, dir, Follow{}, 2, "cat s2/d"); r.Complete {
		t.Error("the watches ran out, and nothing is said")
	}
	most, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	n, aerr := strconv.Atoi(strings.TrimSpace(string(most)))
	if err != nil || aerr != nil || n > 1<<20 {
		t.Skip("the queue of inotify can't be filled: ", err, aerr, n)
	}
	w, err := Start(dir, Follow{})
	if err != nil {
		t.Skip("no inotify here: ", err)
	}
	w.mu.Lock() // the reader stops at its first event
	for range n {
		for _, name := range []string{"a", "b"} { // equal neighbours would be one event
			f, err := os.Open(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	w.mu.Unlock()
	if r := w.Stop(); r.Complete || !r.Read("a") {
		t.Errorf("the queue overflowed: complete %v, a read %v", r.Complete, r.Read("a"))
	}
}

// A tool that caches is found behind whatever starts it.
func TestCachesBehindScripts(t *testing.T) {
	npm := func(scripts string) string { return `{"scripts": {` + scripts + `}}` }
	for name, c := range map[string]struct {
		command string
		files   map[string]string
		want    bool
	}{
		"make itself":             {"make -s check", nil, true},
		"a path to it":            {"/usr/bin/make", nil, true},
		"cargo":                   {"cargo test", nil, true},
		"tox":                     {"python3 -m tox", nil, true},
		"gradle's wrapper":        {"./gradlew test", nil, true},
		"bazel":                   {"bazel test //...", nil, true},
		"a makefile was read":     {"./run", map[string]string{"sub/Makefile": "all:"}, true},
		"cargo's manifest":        {"./run", map[string]string{"Cargo.toml": "[package]"}, true},
		"a script":                {"./run.sh", map[string]string{"run.sh": "#!/bin/sh\nset -e\nexec bazel test //...\n"}, true},
		"a script of any name":    {"ci/run", map[string]string{"ci/run": "#!/usr/bin/env bash\ncd x && tox -q\n"}, true},
		"npm's script":            {"npm test", map[string]string{"package.json": npm(`"test": "jest"`)}, true},
		"npm's script's script":   {"npm t", map[string]string{"package.json": npm(`"test": "npm run unit", "unit": "vitest run"`)}, true},
		"before npm's script":     {"yarn test", map[string]string{"package.json": npm(`"pretest": "tsc -p .", "test": "node --test"`)}, true},
		"npm behind a script":     {"sh t.sh", map[string]string{"t.sh": "npm run all", "package.json": npm(`"all": "turbo test"`)}, true},
		"python's cache moved":    {"PYTHONPYCACHEPREFIX=/x python3 t.py", nil, true},
		"another script of npm's": {"npm test", map[string]string{"package.json": npm(`"build": "tsc", "test": "node --test"`)}, false},
		"a word in a comment":     {"sh t.sh", map[string]string{"t.sh": "# make sure\ncat a\n"}, false},
		"a name of a file":        {"sh tests/make.sh", map[string]string{"tests/make.sh": "cat a"}, false},
		"pytest":                  {"pytest -q", map[string]string{"tox.ini": "[pytest]"}, false},
		"plain":                   {"python3 -m unittest", map[string]string{"a.py": "import b # make"}, false},
	} {
		opened := map[string]bool{}
		for f := range c.files {
			opened[f] = true
		}
		if got := Caches(tree(t, c.files), c.command, Result{Opened: opened}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	// A tool that leaves no trace in the tree is seen to start.
	dir := tree(t, map[string]string{"bin/tox": "#!/bin/sh\n", "tree/node_modules/jest/bin/jest.js": "#!/bin/sh\n", "tree/a": ""})
	at := filepath.Join(dir, "tree")
	if err := os.Mkdir(filepath.Join(at, "node_modules/.bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../jest/bin/jest.js", filepath.Join(at, "node_modules/.bin/jest")); err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]bool{"../bin/tox": true, "node_modules/.bin/jest": true, "cat a": false} {
		r := watched(t, at, Follow{Programs: Programs(filepath.Join(dir, "bin"), at)}, maxFolders, script)
		if got := Caches(at, "./check", r); got != want {
			t.Errorf("%s: %v", script, got)
		}
	}
}

func TestCompiledIsGosOwnAnswer(t *testing.T) {
	dir := tree(t, map[string]string{
		"go.mod": "module m\n\ngo 1.24\n", "a/a.go": "package a\n\nimport _ \"m/b\"\n", "a/a_test.go": "package a\n", "b/b.go": "package b\n", "c/c.go": "package c\n",
		"b/b_other.go": "//go:build never\n\npackage b\n", "a/a_slow.go": "//go:build slow\n\npackage a\n",
		"e/e.go": "package e\n\nimport _ \"embed\"\n\n//go:embed all.txt\nvar _ string\n", "e/all.txt": "x", "e/t.txt": "x", "e/no.txt": "x",
		"e/e_test.go": "package e\n\nimport _ \"embed\"\n\n//go:embed t.txt\nvar _ string\n", "e/x_test.go": "package e_test\n",
		"inner/go.mod": "module example.com/inner\n\ngo 1.24\n", "inner/a.go": "package inner\n", "inner/a_test.go": "package inner\n", "inner/b/b.go": "package b\n",
	})
	for name, c := range map[string]struct {
		command          string
		packages         []string
		at               []string
		in, out          []string
		complete, strict bool
	}{
		"a package":         {"go test ./a", []string{"m/a"}, []string{"."}, []string{"a/a.go", "a/a_test.go", "b/b.go"}, []string{"b/b_other.go", "c/c.go", "a/a_slow.go"}, true, true},
		"tags":              {"go test -race -tags slow ./...", []string{"m/a"}, []string{"."}, []string{"a/a_slow.go"}, []string{"b/b_other.go"}, true, true},
		"embedded":          {"go test ./e", []string{"m/e"}, []string{"."}, []string{"e/all.txt", "e/t.txt", "e/x_test.go"}, []string{"e/no.txt"}, true, true},
		"a module within":   {"cd inner && go test ./...", []string{"example.com/inner"}, []string{".", "inner"}, []string{"inner/a.go", "inner/a_test.go"}, []string{"inner/b/b.go"}, true, true},
		"both modules":      {"go test ./a; go -C inner test .", []string{"m/a", "example.com/inner"}, []string{".", "inner"}, []string{"a/a.go", "inner/a.go"}, nil, true, true},
		"not to be found":   {"cd inner && go test ./...", []string{"example.com/inner"}, []string{"."}, nil, []string{"inner/a.go"}, false, false},
		"go run beside":     {"go test ./a && go run ./c", []string{"m/a"}, []string{"."}, []string{"a/a.go"}, nil, true, false},
		"a script":          {"./test.sh", []string{"m/a"}, []string{"."}, []string{"a/a.go"}, nil, true, false},
		"another system":    {"GOOS=plan9 go test ./a", []string{"m/a"}, []string{"."}, []string{"a/a.go"}, nil, true, false},
		"output to a file":  {"go test ./a 2>&1 | tee out", []string{"m/a"}, []string{"."}, []string{"a/a.go"}, nil, true, true},
		"nothing was named": {"go test ./a", nil, []string{"."}, nil, nil, false, false},
	} {
		g := GoTests{Root: dir, Ask: ask, Packages: c.packages, Command: c.command}
		for _, at := range c.at {
			g.At = append(g.At, filepath.Join(dir, at))
		}
		b, err := Compiled(context.Background(), g)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, f := range c.in {
			if !b.Files[f] {
				t.Errorf("%s: %s isn't built in", name, f)
			}
		}
		for _, f := range c.out {
			if b.Files[f] {
				t.Errorf("%s: %s is built in", name, f)
			}
		}
		if b.Complete != c.complete || b.Strict != c.strict {
			t.Errorf("%s: complete %v, strict %v", name, b.Complete, b.Strict)
		}
	}
}

func ask(ctx context.Context, dir string, argv ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	return cmd.Output()
}

// A workspace's modules are one: go is asked as the check asked it.
func TestCompiledInAGoWorkspace(t *testing.T) {
	dir := tree(t, map[string]string{"go.work": "go 1.24\n\nuse (\n\t./x\n\t./y\n)\n", "x/go.mod": "module x.org/x\n\ngo 1.24\n", "x/x.go": "package x\n\nimport _ \"x.org/y\"\n", "x/x_test.go": "package x\n",
		"y/go.mod": "module x.org/y\n\ngo 1.24\n", "y/y.go": "package y\n", "y/z/z.go": "package z\n"})
	b, err := Compiled(context.Background(), GoTests{Root: dir, At: []string{dir}, Ask: ask, Packages: []string{"x.org/x"}, Command: "go test ./x/..."})
	if err != nil || !b.Files["x/x.go"] || !b.Files["y/y.go"] || b.Files["y/z/z.go"] || !b.Strict {
		t.Errorf("%+v, %v", b, err)
	}
}

// A test that runs go itself may build what nothing imports.
func TestATestThatRunsGo(t *testing.T) {
	dir := tree(t, map[string]string{"go.mod": "module m\n\ngo 1.24\n", "a.go": "package a\n", "a_test.go": "package a\n\nimport (\n\t\"os/exec\"\n\t\"testing\"\n)\n\nfunc TestA(t *testing.T) { _ = exec.Command(\"go\", \"run\", \"./c\").Run() }\n", "c/c.go": "package main\n"})
	b, err := Compiled(context.Background(), GoTests{Root: dir, At: []string{dir}, Ask: ask, Packages: []string{"m"}, Command: "go test ./..."})
	if err != nil || !b.Complete || b.Strict {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestProfilesOfEachForm(t *testing.T) {
	dir := tree(t, map[string]string{"pkg/a.go": "x", "pkg/b.go": "x", "pkg/c.go": "x", "other/a.go": "x", "a.go": "x"})
	for name, text := range map[string]string{
		"go":                      "mode: set\nexample.com/m/pkg/a.go:1.1,2.2 1 1\nexample.com/m/pkg/b.go:1.1,2.2 1 0\nexample.com/elsewhere/other/a.go:1.1,2.2 1 1\n",
		"go, by path":             "mode: set\n" + dir + "/pkg/a.go:1.1,2.2 1 1\n" + dir + "/pkg/b.go:1.1,2.2 1 0\n",
		"lcov":                    "TN:\nSF:" + dir + "/pkg/a.go\nDA:1,0\nDA:2,3\nend_of_record\nSF:pkg/b.go\nDA:1,0\nend_of_record\nSF:/other/a.go\nDA:1,1\nend_of_record\n",
		"cobertura":               `<?xml version="1.0"?><coverage><packages><package><classes><class filename="pkg/a.go"><lines><line number="1" hits="2"/></lines></class><class filename="pkg/b.go"><lines><line number="1" hits="0"/></lines></class></classes></package></packages></coverage>`,
		"cobertura with a source": `<coverage><sources><source>` + dir + `/pkg</source></sources><class filename="a.go"><line hits="1"/></class><class filename="b.go"><line hits="0"/></class></coverage>`,
	} {
		c, err := Profile([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		at := []string{dir}
		if name == "cobertura with a source" {
			at = nil
		}
		files := c.Files(dir, map[string]string{"example.com/m/pkg": "pkg", "example.com/m/other": "other"}, at...)
		for file, want := range map[string][2]bool{"pkg/a.go": {true, true}, "pkg/b.go": {false, true}, "pkg/c.go": {false, false}, "other/a.go": {false, false}, "a.go": {false, false}} {
			if ran, known := files[file]; ran != want[0] || known != want[1] {
				t.Errorf("%s %s: ran %v, known %v", name, file, ran, known)
			}
		}
	}
	for _, bad := range []string{"", "x", "mode: set\nnonsense\n", "<a", "SF:x\nDA:1\n"} {
		if _, err := Profile([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	// A name that may be either of two files says nothing of any.
	c, err := Profile([]byte("SF:a.go\nDA:1,1\nend_of_record\n"))
	if files := c.Files(dir, nil, dir, filepath.Join(dir, "pkg")); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

func FuzzProfile(f *testing.F) {
	f.Add([]byte("mode: set\na.go:1.1,2.2 1 1\n"))
	f.Add([]byte("SF:a\nDA:1,1\n"))
	f.Add([]byte(`<coverage><class filename="a"><line hits="1"/></class></coverage>`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if c, err := Profile(data); err == nil {
			c.Files("/", nil, "/")
		}
	})
}
