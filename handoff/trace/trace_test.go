package trace

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestWatchSeesWhatIsOpenedAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"a", "b", "sub/c", "sub/d", "node_modules/x/e", "node_modules/x/f"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(f)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := Start(dir, []string{"node_modules/x/e"})
	if err != nil {
		t.Skip("no inotify here: ", err)
	}
	cmd := exec.Command("sh", "-c", "cat a sub/c node_modules/x/e; stat b sub/d; mkdir made; ls -R")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := w.Stop()
	for f, want := range map[string]bool{"a": true, "sub/c": true, "node_modules/x/e": true, "b": false, "sub/d": false, "node_modules/x/f": false} {
		if r.Opened[f] != want {
			t.Errorf("%s: opened %v", f, r.Opened[f])
		}
	}
	if !r.Complete {
		t.Error("said to be partial")
	}
}

func TestCompiledIsGosOwnAnswer(t *testing.T) {
	dir := t.TempDir()
	for f, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.24\n", "a/a.go": "package a\n\nimport _ \"m/b\"\n", "a/a_test.go": "package a\n", "b/b.go": "package b\n", "c/c.go": "package c\n",
		"b/b_other.go": "//go:build never\n\npackage b\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(f)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Compiled(context.Background(), dir, dir, os.Environ(), []string{"m/a"})
	if err != nil {
		t.Fatal(err)
	}
	for f, want := range map[string]bool{"a/a.go": true, "a/a_test.go": true, "b/b.go": true, "b/b_other.go": false, "c/c.go": false} {
		if files[f] != want {
			t.Errorf("%s: %v", f, files[f])
		}
	}
}

func TestProfilesOfEachForm(t *testing.T) {
	for name, text := range map[string]string{
		"go":        "mode: set\nexample.com/m/pkg/a.go:1.1,2.2 1 1\nexample.com/m/pkg/b.go:1.1,2.2 1 0\n",
		"lcov":      "TN:\nSF:/work/pkg/a.go\nDA:1,0\nDA:2,3\nend_of_record\nSF:/work/pkg/b.go\nDA:1,0\nend_of_record\n",
		"cobertura": `<?xml version="1.0"?><coverage><packages><package><classes><class filename="pkg/a.go"><lines><line number="1" hits="2"/></lines></class><class filename="pkg/b.go"><lines><line number="1" hits="0"/></lines></class></classes></package></packages></coverage>`,
	} {
		c, err := Profile([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for file, want := range map[string][2]bool{"pkg/a.go": {true, true}, "pkg/b.go": {false, true}, "pkg/c.go": {false, false}, "other/a.go": {false, false}} {
			if ran, known := c.Ran(file); ran != want[0] || known != want[1] {
				t.Errorf("%s %s: ran %v, known %v", name, file, ran, known)
			}
		}
	}
	for _, bad := range []string{"", "x", "mode: set\nnonsense\n", "<a", "SF:x\nDA:1\n"} {
		if _, err := Profile([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzProfile(f *testing.F) {
	f.Add([]byte("mode: set\na.go:1.1,2.2 1 1\n"))
	f.Add([]byte("SF:a\nDA:1,1\n"))
	f.Add([]byte(`<coverage><class filename="a"><line hits="1"/></class></coverage>`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if c, err := Profile(data); err == nil {
			c.Ran("a.go")
		}
	})
}
