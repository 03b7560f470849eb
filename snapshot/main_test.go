package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// child is what the test binary does when a test starts it as a process of its
// own: a store's work that is to die at a step, or that another user does.
type child struct {
	Root, Dir string
	Do        string // capture, restore, prune
	Step      string // where it kills itself, "" for nowhere
	Skip      int    // how many times it passes the step first
	Include   []string
	Snapshot  Snapshot
}

func TestMain(m *testing.M) {
	text := os.Getenv("PERDURE_SNAPSHOT_CHILD")
	if text == "" {
		os.Exit(m.Run())
	}
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	passed := 0
	hook = func(step string) {
		if step != c.Step {
			return
		}
		if passed++; passed > c.Skip {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if err := c.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (c child) run(ctx context.Context) error {
	s, err := Open(c.Root)
	if err != nil {
		return err
	}
	switch c.Do {
	case "capture":
		snap, err := s.Capture(ctx, CaptureRequest{Workspace: "w", Dir: c.Dir, Reason: "manual", Include: c.Include})
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(snap)
		}
		return err
	case "restore":
		plan, err := s.PlanRestore(ctx, c.Snapshot, PlanRequest{Dir: c.Dir, Earlier: []Snapshot{c.Snapshot}})
		if err == nil {
			_, err = s.Apply(ctx, plan, nil)
		}
		return err
	case "prune":
		_, err := s.Prune(ctx, []Snapshot{c.Snapshot}, nil)
		return err
	}
	return fmt.Errorf("no work called %q", c.Do)
}

// start runs c in a process of its own, as uid if that isn't 0. It returns
// what it printed, and whether SIGKILL ended it.
func (f *fixture) start(c child, uid uint32) (out string, killed bool) {
	f.Helper()
	c.Root, c.Dir = f.s.root, f.dir
	text, err := json.Marshal(c)
	f.must(err)
	program := os.Args[0]
	if uid != 0 { // who may not enter the folder that it was built in
		program = filepath.Join(f.base, "program")
		data, err := os.ReadFile(os.Args[0])
		f.must(err)
		f.must(os.WriteFile(program, data, 0o755))
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "PERDURE_SNAPSHOT_CHILD="+string(text))
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	printed, err := cmd.Output()
	if cmd.ProcessState == nil {
		f.Fatal(err)
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return string(printed), true
	}
	if err != nil {
		f.Fatalf("%s: %v\n%s", c.Do, err, stderr.String())
	}
	return string(printed), false
}
