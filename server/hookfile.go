package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"perdure/workspace"
)

// hookFile is where a session's last hook report is kept, so that a server that starts anew knows it.
const hookFile = "hook.json"

func readHook(dir string) *hookReport {
	data, err := os.ReadFile(filepath.Join(dir, hookFile))
	if err != nil {
		return nil
	}
	var h hookReport
	if json.Unmarshal(data, &h) != nil {
		return nil
	}
	return &h
}

// reported takes in what an agent's hook says of its session.
func (s *Server) reported(sp *space, sess *workspace.Session, h hookReport) error {
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("keep the hook's report: %w", err)
	}
	sp.mu.Lock()
	sp.hooked, sp.hook = sess.ID, &h
	sp.mu.Unlock()
	s.tellActivity(sp, sess)
	if err := renameio.WriteFile(filepath.Join(sess.Dir, hookFile), data, 0o600, renameio.WithTempDir(sess.Dir)); err != nil {
		return fmt.Errorf("keep the hook's report: %w", err)
	}
	return nil
}
