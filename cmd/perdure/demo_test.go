package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// demoRun is one run of the built binary's demo, with a home of its own that must stay empty.
type demoRun struct {
	t    *testing.T
	home string
	cmd  *exec.Cmd
	out  bytes.Buffer
}

// newDemoRun is a run of the test's own perdure, or of another program.
func newDemoRun(t *testing.T, program, path string) *demoRun {
	if testing.Short() {
		t.Skip("it plays the story")
	}
	t.Parallel() // most of it is waiting
	for _, name := range []string{"go", "git", "ssh"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	bin, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	r := &demoRun{t: t, home: t.TempDir(), cmd: exec.CommandContext(ctx, bin, "demo")}
	r.cmd.Dir = "/"
	// What a person's environment may hold must not lead the story astray.
	r.cmd.Env = []string{"HOME=" + r.home, "PATH=" + path, "GOCACHE=" + strings.TrimSpace(string(cache)), "GOFLAGS=-mod=vendor", "GIT_DIR=/nowhere", "PERDURE_STATE=/nowhere",
		"PERDURE_SOCKET=/nowhere.sock", "PERDURE_SESSION=x", "SHELL=/bin/false", "SSH_AUTH_SOCK=/nowhere"}
	r.cmd.Stderr = &r.out
	return r
}

var demoFolder = regexp.MustCompile(`/\S*perdure-demo-\d+`)

// nothingLeft looks for the story's folder, its processes and whatever it could have written into the home.
func (r *demoRun) nothingLeft() {
	r.t.Helper()
	root := demoFolder.FindString(r.out.String())
	if root == "" {
		r.t.Fatalf("no folder is named:\n%s", &r.out)
	}
	for _, problem := range demoLeftovers(root) {
		r.t.Error(problem)
	}
	entries, err := os.ReadDir(r.home)
	if err != nil || len(entries) > 0 {
		r.t.Errorf("the home is no longer empty: %v, %v", entries, err)
	}
}

// demoLeftovers are the folder, if it is there, and each process that names it in its words or its environment.
func demoLeftovers(root string) []string {
	var left []string
	if _, err := os.Lstat(root); !errors.Is(err, os.ErrNotExist) {
		left = append(left, fmt.Sprintf("%s is still there: %v", root, err))
	}
	for _, kind := range []string{"cmdline", "environ"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + kind)
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil && bytes.Contains(data, []byte(root)) {
				left = append(left, fmt.Sprintf("a process is left: %s has %q", file, data))
			}
		}
	}
	return left
}

func (r *demoRun) status() int { return r.cmd.ProcessState.ExitCode() }

func TestDemoTellsTheStoryAndLeavesNothing(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "another-name")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := newDemoRun(t, bin, os.Getenv("PATH"))
	r.cmd.Stdout = &r.out
	if err := r.cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &r.out)
	}
	r.nothingLeft()
	for _, want := range []string{"$ ssh -F ", "disconnect", "holds: record", "contradicted", "-const between", "[exit status 4]", "agent$ perdure handoff repair", "all as told"} {
		if !strings.Contains(r.out.String(), want) {
			t.Errorf("the story does not say %q:\n%s", want, &r.out)
		}
	}
	if strings.Contains(r.out.String(), "\x1b") {
		t.Error("sequences in a file")
	}
}

// An interrupt, in the middle of the story with a live session, is a way out that tidies up too.
func TestInterruptedDemoLeavesNothing(t *testing.T) {
	r := newDemoRun(t, "perdure", os.Getenv("PATH"))
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	buf := make([]byte, 4096)
	for told := false; ; {
		n, err := out.Read(buf)
		seen.Write(buf[:n])
		if !told && strings.Contains(seen.String(), "at work: 2") {
			told = true
			if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			break
		}
	}
	_ = r.cmd.Wait() // its status is looked at
	r.out.Write(seen.Bytes())
	if r.status() != statusFailed || !strings.Contains(r.out.String(), "interrupted in step 4") {
		t.Errorf("status %d:\n%s", r.status(), &r.out)
	}
	r.nothingLeft()
}

// A reader who has seen enough (`perdure demo | head`) doesn't cut it off with everything left behind.
func TestDemoWithoutAReaderLeavesNothing(t *testing.T) {
	r := newDemoRun(t, "perdure", os.Getenv("PATH"))
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var seen bytes.Buffer // out is being written to by the other stream
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "3/") {
		seen.WriteString(lines.Text() + "\n")
	}
	out.Close()
	_ = r.cmd.Wait() // its status is looked at
	r.out.Write(seen.Bytes())
	if r.status() != statusFailed || !strings.Contains(r.out.String(), "interrupted") {
		t.Errorf("status %d:\n%s", r.status(), &r.out)
	}
	r.nothingLeft()
}

// Where a step isn't as told the demo fails, loudly: here the check is a `go` that runs nothing and is content.
func TestDemoFailsLoudlyWhereTestsProveNothing(t *testing.T) {
	fake := t.TempDir()
	script := "#!/bin/sh\n[ \"$1\" = env ] && exit 1\necho ok example.com/shop/app 0.01s\n"
	if err := os.WriteFile(fake+"/go", []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	r := newDemoRun(t, "perdure", fake+":"+os.Getenv("PATH"))
	r.cmd.Stdout = &r.out
	_ = r.cmd.Run() // its status is looked at
	if r.status() != statusFailed {
		t.Errorf("status %d", r.status())
	}
	for _, want := range []string{"perdure: demo: step 3 (The agent works, and hands over) was not as told: expected", "hint: "} {
		if !strings.Contains(r.out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &r.out)
		}
	}
	r.nothingLeft()
}

// panickingDemo is a perdure whose story goes wrong in a way nobody thought of, with a live session.
func panickingDemo() {
	story = append(story[:2:2], chapter{"A panic", func(d *demo, ctx context.Context) error {
		if _, err := d.connect(ctx, agentPrompt, 10); err != nil {
			return err
		}
		panic("a step that panics")
	}})
	main()
}

func TestPanickingDemoLeavesNothing(t *testing.T) {
	r := newDemoRun(t, "perdure-panics", os.Getenv("PATH"))
	r.cmd.Stdout = &r.out
	_ = r.cmd.Run() // its status is looked at
	if r.status() == 0 || !strings.Contains(r.out.String(), "panic: a step that panics") {
		t.Errorf("status %d:\n%s", r.status(), &r.out)
	}
	r.nothingLeft()
}

func TestDescendants(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 60 & echo; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	below, err := descendants(cmd.Process.Pid)
	if err != nil || len(below) != 1 {
		t.Errorf("got %v, %v", below, err)
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
	if pid, _ := processOf(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)); pid != 0 {
		t.Errorf("%d lives", pid)
	}
}

func TestPlainText(t *testing.T) {
	raw := "perdure: verifying x\r\x1b[Kperdure: verifying x 1s\r\x1b[K\x1b[1mholds\x1b[0m\r\n\x1b7\x1b[40;1H\x1b[0;7mperdure: notice\x1b[0m\x1b8agent$ "
	if got, want := plainText([]byte(raw)), "perdure: verifying x\nperdure: verifying x 1s\nholds\nagent$ "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOutputIsCutVisibly(t *testing.T) {
	p := passingLine
	if got, want := squeeze(p+"1\n"+p+"2\n"+p+"3\n"+p+"4\nholds"), p+"1\n[… 2 more of these, each in place of the one before]\n"+p+"4\nholds"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	newNarrator(file).output("a\n"+strings.Repeat("x", 300)+"\nc\nd\n", 2)
	got, err := os.ReadFile(file.Name())
	if want := "  a\n  " + strings.Repeat("x", tellClip-1) + "…\n  [… 2 more lines]\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCommandLine(t *testing.T) {
	if got, want := commandLine("perdure", []string{"new", "a b", "it's", "x/**", "--dir=/a"}), `perdure new 'a b' 'it'\''s' 'x/**' --dir=/a`; got != want {
		t.Errorf("got %s", got)
	}
}
