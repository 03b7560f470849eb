package server

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"perdure/workspace"
	"perdure/workspace/journal"
	"perdure/workspace/screen"
)

// view is what the session's terminal shows now, or showed last: from the host while it lives, else from the journal.
func view(ctx context.Context, sess *workspace.Session) (screen.View, error) {
	if sess.State != workspace.Live {
		return lastView(sess)
	}
	data, err := sess.View(ctx)
	if err != nil {
		return screen.View{}, fmt.Errorf("ask the session's host: %w", err)
	}
	var v screen.View
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("read the host's answer: %w", err)
	}
	return v, nil
}

// lastView is an ended or lost session's last screen: its checkpoint brought up to date from its journal, or without
// one the journal alone.
func lastView(sess *workspace.Session) (screen.View, error) {
	r, err := journal.OpenReader(filepath.Join(sess.Dir, "journal"))
	if err != nil {
		return screen.View{}, fmt.Errorf("read the journal: %w", err)
	}
	defer r.Close()
	start, end := r.Bounds()
	sc, from := checkpoint(sess)
	if sc == nil || from < start {
		cols, rows := sess.Size()
		sc, from = screen.New(cols, rows, screen.Options{}), start
	}
	if from >= end {
		return sc.View(), nil
	}
	err = r.Chunks(from, func(_ uint64, _ time.Time, data []byte) error {
		_, err := sc.Write(data)
		return err
	})
	if err != nil {
		return screen.View{}, fmt.Errorf("read the journal: %w", err)
	}
	return sc.View(), nil
}

// maxCheckpoint bounds what is read of a checkpoint, in bytes: more is damage.
const maxCheckpoint = 64 << 20

// checkpoint is the screen that the session's host left, and the offset to go on from; nil where there is none that
// can be read: the journal has it all.
func checkpoint(sess *workspace.Session) (*screen.Screen, uint64) {
	path := filepath.Join(sess.Dir, "screen")
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxCheckpoint {
		return nil, 0
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, 0
	}
	sc, from, err := screen.ReadCheckpoint(data)
	if err != nil {
		return nil, 0
	}
	return sc, from
}
