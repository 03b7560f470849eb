package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How a command goes by files: server/DROP.md.
const (
	dropAsk     = ".ask"
	dropTaken   = ".taken"
	dropAnswer  = ".answer"
	dropHeard   = 5 * time.Second  // the server takes a request away as soon as it hears of it
	dropGone    = 10 * time.Second // for a server that starts again, which answers what an earlier one took
	dropLook    = 20 * time.Millisecond
	dropLookMax = 200 * time.Millisecond
	dropLimit   = 8 << 20
)

// forbidden says whether a sandbox kept us from the server's socket: the server may well be there.
func forbidden(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES)
}

// runDrop asks by a file in the drop folder, for a process that may connect to nothing.
func runDrop(ctx context.Context, o Options) (int, error) {
	env := map[string]string{}
	for _, kv := range o.Env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	var stdin []byte
	if o.Stdin != nil {
		var err error
		if stdin, err = io.ReadAll(io.LimitReader(o.Stdin, dropLimit)); err != nil {
			return 0, fmt.Errorf("read the input: %w", err)
		}
	}
	data, err := json.Marshal(struct {
		Command string            `json:"command"`
		Env     map[string]string `json:"env,omitempty"`
		Stdin   []byte            `json:"stdin,omitempty"`
	}{Quote(o.Args), env, stdin})
	if err != nil {
		return 0, err
	}
	base := filepath.Join(o.Drop, rand.Text())
	if err := os.WriteFile(base, data, 0o600); err != nil {
		return 0, fmt.Errorf("%w: a sandbox forbids the way to it, and the drop folder: %w", ErrUnreachable, err)
	}
	if err := os.Rename(base, base+dropAsk); err != nil {
		os.Remove(base)
		return 0, fmt.Errorf("%w: a sandbox forbids the way to it, and the drop folder: %w", ErrUnreachable, err)
	}
	answer, err := awaitAnswer(ctx, base)
	if err != nil {
		return 0, err
	}
	var reply struct {
		Stdout, Stderr []byte
		Status         int
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return 0, fmt.Errorf("%w: its answer in the drop folder can't be read: %w", ErrUnreachable, err)
	}
	if _, err := orDiscard(o.Stdout).Write(reply.Stdout); err != nil {
		return 0, fmt.Errorf("write the output: %w", err)
	}
	_, _ = orDiscard(o.Stderr).Write(reply.Stderr) // nowhere else to say that it failed
	return reply.Status, nil
}

// awaitAnswer looks for it, ever less often. A request that is not heard is taken back.
func awaitAnswer(ctx context.Context, base string) ([]byte, error) {
	began, look := time.Now(), dropLook
	heard, alive := false, began
	timer := time.NewTimer(look)
	defer timer.Stop()
	for {
		data, err := os.ReadFile(base + dropAnswer)
		if err == nil {
			os.Remove(base + dropAnswer)
			return data, nil
		}
		if !heard {
			_, err := os.Lstat(base + dropAsk)
			heard = errors.Is(err, fs.ErrNotExist)
		}
		switch {
		case serverLives(filepath.Dir(filepath.Dir(base))):
			alive = time.Now()
		case heard && time.Since(alive) > dropGone:
			os.Remove(base + dropTaken)
			return nil, fmt.Errorf("%w: it ended before the command did", ErrUnreachable)
		}
		if !heard && time.Since(began) > dropHeard && os.Remove(base+dropAsk) == nil {
			return nil, fmt.Errorf("%w: a sandbox forbids the way to it, and nobody hears the drop folder %s", ErrUnreachable, filepath.Dir(base))
		}
		select {
		case <-ctx.Done():
			os.Remove(base + dropAsk)
			return nil, ctx.Err()
		case <-timer.C:
			look = min(look*5/4, dropLookMax)
			timer.Reset(look)
		}
	}
}

// serverLives says whether a server holds its lock on the folder of drop folders.
func serverLives(root string) bool {
	f, err := os.Open(root)
	if err != nil {
		return false
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	return errors.Is(err, unix.EWOULDBLOCK)
}
