package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
)

// StartRequest says what to start, and where it is kept.
type StartRequest struct {
	Definition   Definition
	ID           string // a ULID; the last element of SessionDir
	SessionDir   string // STATE/workspaces/NAME/sessions/ID
	Argv         []string
	Env          []string // the whole environment of the session
	Dir          string
	Cols, Rows   uint16
	Term         string
	Repair       bool
	Executable   string // the binary that runs as a host: EXE host SESSIONDIR
	JournalBytes int64  // 0 for the default
}

// startTimeout is what a host has to come up in.
const startTimeout = 10 * time.Second

// Start starts a host, detached from this process, and returns once it answers.
func Start(ctx context.Context, q StartRequest) (*Session, error) {
	if err := os.MkdirAll(q.SessionDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the session folder: %w", err)
	}
	socket, err := SocketPath(filepath.Join(q.SessionDir, "host.sock"))
	if err != nil {
		return nil, err
	}
	os.Remove(socket)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the host: %w", err)
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, fmt.Errorf("protect the host's socket: %w", err)
	}
	b := bootstrap{ID: q.ID, Workspace: q.Definition.Name, Dir: q.Dir, Argv: q.Argv, Env: q.Env, Cols: q.Cols, Rows: q.Rows, Term: q.Term, Repair: q.Repair,
		Started: time.Now().UTC(), Boot: BootID(), Socket: socket, JournalBytes: q.JournalBytes}
	if err := writeJSON(filepath.Join(q.SessionDir, "session.json"), b); err != nil {
		return nil, fmt.Errorf("write session.json: %w", err)
	}
	cmd, err := launch(q, l)
	if err != nil {
		os.Remove(socket)
		return nil, err
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }() // reaps the host whenever it ends; it outlives this process if it must
	return await(ctx, q.SessionDir, gone)
}

// launch runs the host in a session of its own, with the listener as fd 3.
func launch(q StartRequest, l *net.UnixListener) (*exec.Cmd, error) {
	f, err := l.File()
	if err != nil {
		return nil, fmt.Errorf("pass the socket on: %w", err)
	}
	defer f.Close()
	log, err := os.OpenFile(filepath.Join(q.SessionDir, "host.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the host's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(q.Executable, "host", q.SessionDir)
	cmd.ExtraFiles = []*os.File{f}
	cmd.Stderr = log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the host: %w", err)
	}
	return cmd, nil
}

// await polls the host until it answers, or ends before it did.
func await(ctx context.Context, dir string, gone <-chan error) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		s, err := load(ctx, dir)
		if err != nil {
			return nil, err
		}
		if s.State != Lost {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the host does not answer: %w", ctx.Err())
		case <-gone:
			if s, err := Load(dir); err == nil && s.State == Ended {
				return s, nil // a command that ended at once
			}
			return nil, fmt.Errorf("the host ended before it answered: %s", lastLine(filepath.Join(dir, "host.log")))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return "it said nothing"
	}
	return string(data[max(0, len(data)-500):])
}

// writeJSON replaces a file whole: temp, fsync, rename.
func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, data, 0o600, renameio.WithTempDir(filepath.Dir(path)))
}
