package server

import (
	"context"
	"encoding/json"
	"fmt"
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

// lastView computes an ended or lost session's last screen from its journal.
func lastView(sess *workspace.Session) (screen.View, error) {
	r, err := journal.OpenReader(filepath.Join(sess.Dir, "journal"))
	if err != nil {
		return screen.View{}, fmt.Errorf("read the journal: %w", err)
	}
	defer r.Close()
	cols, rows := sess.Size()
	sc := screen.New(cols, rows, screen.Options{})
	start, _ := r.Bounds()
	err = r.Chunks(start, func(_ uint64, _ time.Time, data []byte) error {
		_, err := sc.Write(data)
		return err
	})
	if err != nil {
		return screen.View{}, fmt.Errorf("read the journal: %w", err)
	}
	return sc.View(), nil
}
