package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// everything is each file of a directory, what git keeps included, with all that a program could tell: kind, mode,
// inode, size, times and content.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		content := ""
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			content = hex.EncodeToString(sum[:8])
		case info.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(path)
		}
		name, _ := filepath.Rel(dir, path)
		out[name] = fmt.Sprint(info.Mode(), " ", st.Ino, " ", st.Size, " ", st.Mtim.Nano(), " ", st.Ctim.Nano(), " ", content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// same wants every file as it was.
func same(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	for name, was := range before {
		if after[name] != was {
			t.Errorf("%s changed %s: %q, and was %q", what, name, after[name], was)
		}
	}
	for name := range after {
		if before[name] == "" {
			t.Errorf("%s made %s", what, name)
		}
	}
}

// Verification changes nothing: no file, time, index, ref, stash or configuration, whatever its verdict, and neither
// does what else only looks.
func TestVerificationChangesNothing(t *testing.T) {
	f := newFixtures(t)
	l := f.langs[len(f.langs)-1]
	p := f.bare(l)
	p.put("docs/notes.md", "put away\n")
	p.git("stash", "-q")
	p.git("tag", "v1")
	p.put("docs/other.md", "staged\n")
	p.git("add", "docs/other.md")
	p.put("docs/other.md", "and not staged\n")
	// The index has times that it can't vouch for, which any `git status` would mend.
	p.git("update-index", "--force-write-index")
	for _, c := range []struct {
		what string
		args []string
	}{
		{"record", []string{"handoff", "record", p.name, "--next", "go on", "--wait"}},
		{"quick verification", []string{"handoff", "verify", p.name, "--quick"}},
		{"full verification", []string{"handoff", "verify", p.name}},
		{"snapshot", []string{"snapshot", p.name}},
		{"diff", []string{"diff", p.name, "record"}},
		{"brief", []string{"brief", p.name}},
		{"show", []string{"show", p.name}},
	} {
		before := everything(t, p.dir)
		p.want(0, c.args...)
		same(t, c.what, before, everything(t, p.dir))
	}

	p.put(p.source, strings.Replace(p.code, "+", "-", 1))
	p.put("lib/lib.txt", "dirty\n")
	before := everything(t, p.dir)
	p.want(11, "handoff", "verify", p.name, "--quick")
	p.want(12, "handoff", "verify", p.name)
	p.want(4, "start", p.name)
	p.want(4, "handoff", "repair", p.name, "--carry", "--wait")
	same(t, "a verification that doesn't hold", before, everything(t, p.dir))

	p.put(p.source, p.code)
	p.put("lib/lib.txt", "a library\n")
	p.want(0, "start", p.name)
	before = everything(t, p.dir)
	p.want(0, "handoff", "verify", p.name)
	same(t, "a verification beside a live session", before, everything(t, p.dir))
	p.want(0, "stop", p.name)
	same(t, "the end of a session", before, everything(t, p.dir))
}

// A check that edits files: each is named, no record stands on it, and no verdict comes of it; what it declares to
// write, and the marked export, are no edits.
func TestACheckThatEditsFilesGivesNoAnswer(t *testing.T) {
	b := newBox(t)
	p := &project{box: b, name: "app", dir: b.app}
	p.put("quiet", "")
	p.git("add", "-A")
	p.git("commit", "-qm", "quiet")
	p.put(".git/info/exclude", "loud\n")
	b.want(0, "new", "app", "--check", "if test -e loud; then date +%N >> a.go; date +%N > made; fi; mkdir -p out; echo \"<testsuite timestamp='$(date +%N)'><testcase classname='a' name='b'/></testsuite>\" > out/r.xml", "--results", "junit:out/*.xml")
	p.put("loud", "")
	if out := b.want(4, "handoff", "record", "app", "--next", "x", "--wait"); !strings.Contains(out, "a.go") || !strings.Contains(out, "made") || strings.Contains(out, "r.xml") {
		t.Errorf("the edited files aren't named, or others are: %s", out)
	}
	p.gone("loud")
	p.gone("made")
	p.git("checkout", "-q", "a.go")
	b.want(0, "handoff", "record", "app", "--next", "x", "--wait")
	b.verify(0)
	b.want(0, "handoff", "export", "app")
	b.verify(0)
	p.put("loud", "")
	all := b.verify(13)
	b.named(all, "inconclusive", "a.go", "edits files")
	b.named(all, "inconclusive", "made", "edits files")
	if about(all, "r.xml") || about(all, "HANDOFF.md") {
		t.Errorf("declared files are told: %+v", all)
	}
}
