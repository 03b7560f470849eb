package server

import (
	"encoding/json"
	"os"
	"path/filepath"
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
