package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// probeTimeout is when a child that still reads the store counts as one that never will.
const probeTimeout = 5 * time.Minute

// The exit statuses of the process that probes.
const (
	probeSound   = 0
	probeFailed  = 1 // nothing is known: opening the store will say why
	probeDamaged = 3
)

// Probe reads a store whole in a process of its own, which runs argv with the store's folder appended and calls
// ProbeHere: what is damaged can end it by SIGBUS, or panic where nobody can recover. The error is ErrCorrupt where
// the child found damage or died. A store that was never made is no damage.
func Probe(ctx context.Context, argv []string, dir string) error {
	dir = filepath.Clean(dir)
	if _, err := os.Stat(filepath.Join(dir, "MANIFEST")); err != nil {
		return nil // Open tells what this means
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:len(argv):len(argv)], dir)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("probe the store: %w", ctx.Err())
	case !errors.As(err, &exit):
		return fmt.Errorf("probe the store: %w", err)
	case exit.ExitCode() == probeFailed:
		return nil
	case exit.ExitCode() == probeDamaged:
		why := bytes.TrimPrefix(bytes.TrimSpace(said.Bytes()), []byte(ErrCorrupt.Error()+": "))
		return fmt.Errorf("%w: %s", ErrCorrupt, why)
	}
	return fmt.Errorf("%w: reading %s ended a process (%w): %s", ErrCorrupt, dir, exit, firstLine(said.Bytes()))
}

func firstLine(b []byte) []byte {
	line, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte("\n"))
	return line[:min(len(line), 500)]
}

// ProbeHere is what the child of Probe does. It writes what is wrong and returns the status to exit with.
func ProbeHere(dir string, out io.Writer) int {
	err := probe(filepath.Clean(dir))
	switch {
	case err == nil:
		return probeSound
	case errors.Is(err, ErrCorrupt):
		fmt.Fprintln(out, err)
		return probeDamaged
	}
	fmt.Fprintln(out, err)
	return probeFailed
}

func probe(dir string) error {
	if err := checkSpace(dir); err != nil {
		return err
	}
	mark, err := readSentinel(dir)
	if err != nil {
		return err
	}
	if mark != nil && mark.Schema > Schema {
		return &ErrSchema{Have: mark.Schema, Want: Schema} // a newer perdure's: not ours to judge
	}
	db, err := openBadger(dir)
	if err != nil {
		return err
	}
	s := &Store{dir: dir, db: db}
	err = s.recognise(mark)
	var other *ErrSchema
	if errors.As(err, &other) {
		err = nil
	}
	if err == nil {
		err = s.readAll()
	}
	return errors.Join(err, db.Close())
}

// readAll reads every key and value; those that are JSON must be that.
func (s *Store) readAll() error {
	return s.read(func(t *badger.Txn) error {
		return walk(t, nil, nil, true, func(k, v []byte) error {
			kind, _, _ := bytes.Cut(k, []byte{0})
			switch string(kind) {
			case "workspace", "halt", "snapshot", "report", "event":
				if !json.Valid(v) {
					return fmt.Errorf("%w: %s: the value of %q is no JSON", ErrCorrupt, s.dir, k)
				}
			}
			return nil
		})
	})
}
