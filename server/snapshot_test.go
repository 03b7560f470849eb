package server

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asked runs a command and gives what it printed on standard output, and its exit status.
func asked(t *testing.T, env []string, words ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = env
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	t.Logf("%v: %d\n%s%s", words[1:], cmd.ProcessState.ExitCode(), out.String(), stderr.String())
	return out.String(), cmd.ProcessState.ExitCode()
}

// Snapshots as a person uses them: taken, listed, compared, brought back in place, pruned, and left with.
func TestSnapshotsFromTheCommandLine(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "perdure")
	invoke(t, nil, "go", "build", "-o", bin, "perdure/cmd/perdure")
	state, work := filepath.Join(dir, "state"), filepath.Join(dir, "work")
	env := append(os.Environ(), "PERDURE_STATE="+state, "PERDURE_WORKSPACE=", "PERDURE_SOCKET=", "PERDURE_SESSION=")
	write := func(name, text string) { must(t, os.WriteFile(filepath.Join(work, name), []byte(text), 0o600)) }
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(work, name))
		must(t, err)
		return string(text)
	}
	must(t, os.Mkdir(work, 0o700))
	invoke(t, nil, "git", "init", "-q", work)
	write(".gitignore", ".env\n*.log\n")
	write(".env", "A=1")
	write("f", "one\n")
	end := serveHere(t, state, bin)
	defer func() { end() }()
	run := func(words ...string) string {
		t.Helper()
		out, status := asked(t, env, append([]string{bin}, words...)...)
		if status != 0 {
			t.Fatalf("%v: status %d", words, status)
		}
		return out
	}
	run("new", "app", "--dir", work, "--include", ".env")
	run("snapshot", "app", "-m", "first")
	write("f", "two\n")
	write(".env", "A=2")
	write("x.log", "ignored")
	if out := run("diff", "app", "latest"); !strings.Contains(out, "-one\n+two\n") {
		t.Errorf("diff: %q", out)
	}
	if _, status := asked(t, env, bin, "restore", "app", "latest", "--to", work); status != statusRefused || read("f") != "two\n" {
		t.Errorf("newer files were no conflict: status %d", status)
	}
	run("restore", "app", "latest", "--to", work, "--force")
	if read("f") != "one\n" || read(".env") != "A=1" || read("x.log") != "ignored" {
		t.Error("not restored as it should be")
	}
	if out := run("cat", "app", "latest", ".env"); out != "A=2" {
		t.Errorf("the present was not kept: %q", out)
	}
	if out := run("diff", "app", "-1", "latest", "--name-only"); !strings.Contains(out, "modified f") {
		t.Errorf("diff by number: %q", out)
	}
	var list []struct{ ID, Reason string }
	must(t, json.Unmarshal([]byte(run("snapshots", "app", "--path", ".env", "--json")), &list))
	if len(list) != 2 || list[0].Reason != "restore" {
		t.Errorf("versions: %v", list)
	}
	fresh := filepath.Join(dir, "fresh")
	run("restore", "app", "latest", "--to", fresh, "--only", "f")
	if text, err := os.ReadFile(filepath.Join(fresh, "f")); err != nil || string(text) != "two\n" {
		t.Errorf("restore elsewhere: %q %v", text, err)
	}
	var usage usageReport
	must(t, json.Unmarshal([]byte(run("usage", "--json")), &usage))
	if len(usage.Workspaces) != 1 || usage.Workspaces[0].Snapshots != 3 || usage.Total <= 0 || usage.Free <= 0 {
		t.Errorf("usage: %+v", usage)
	}
	run("prune", "--dry-run")
	run("prune")
	out := filepath.Join(dir, "out")
	run("export", "app", "--to", out)
	for _, name := range []string{"snapshots.bundle", "snapshots.json", "workspace.json", "events.jsonl", "README.md"} {
		if !isRegular(filepath.Join(out, name)) {
			t.Errorf("export has no %s", name)
		}
	}
	must(t, os.Rename(work, work+".away"))
	if _, status := asked(t, env, bin, "snapshot", "app"); status == 0 {
		t.Error("a directory that is gone was snapshotted")
	}
	if out := run("ls"); !strings.Contains(out, "disk") {
		t.Errorf("ls says nothing of the failure: %s", out)
	}
	end()
	end = serveHere(t, state, bin)
	if out := run("show", "app"); !strings.Contains(out, "snapshot failed") {
		t.Errorf("forgotten by the next server: %s", out)
	}
	must(t, os.Rename(work+".away", work))
	run("snapshot", "app")
	if out := run("ls"); strings.Contains(out, "disk") {
		t.Errorf("ls still says it: %s", out)
	}
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
