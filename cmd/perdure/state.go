package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"perdure/server"
)

// value is one setting and where it came from.
type value struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
}

// stateDir is the state folder in force, absolute.
func (a *app) stateDir() (string, error) {
	v, err := a.stateValue()
	if err != nil {
		return "", err
	}
	return v.Value.(string), nil
}

// stateValue finds the state folder: the flag, PERDURE_STATE, then the XDG base directories.
func (a *app) stateValue() (value, error) {
	dir, source := a.state, "--state"
	if dir == "" {
		dir, source = os.Getenv("PERDURE_STATE"), "PERDURE_STATE"
	}
	// The specification wants a relative XDG_STATE_HOME ignored.
	if x := os.Getenv("XDG_STATE_HOME"); dir == "" && filepath.IsAbs(x) {
		dir, source = filepath.Join(x, "perdure"), "XDG_STATE_HOME"
	}
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return value{}, &problem{status: statusUsage, code: "usage", err: errors.New("no state folder: HOME is not set"), hint: "name one with --state DIR"}
		}
		dir, source = filepath.Join(home, ".local", "state", "perdure"), "default"
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return value{}, fmt.Errorf("find the state folder: %w", err)
	}
	return value{abs, source}, nil
}

func serverSocket(state string) (string, error) {
	path, err := server.SocketPath(state)
	if err != nil {
		return "", fmt.Errorf("find the server's socket: %w", err)
	}
	return path, nil
}

// clientEnv is what a command on this machine carries along: the folder that relative paths start from, the
// session it is run in, and what a terminal program needs to know of the terminal.
func clientEnv() []string {
	var env []string
	if dir, err := os.Getwd(); err == nil {
		env = append(env, "PERDURE_CWD="+dir)
	}
	for _, kv := range os.Environ() {
		k, _, _ := strings.Cut(kv, "=")
		switch {
		case k == "TERM", k == "COLORTERM", k == "LANG", k == "PERDURE_SESSION", k == "PERDURE_WORKSPACE", strings.HasPrefix(k, "LC_"):
			env = append(env, kv)
		case k == "PATH", k == "SSH_AUTH_SOCK": // of a new workspace's checks; of whoever attaches
			env = append(env, "PERDURE_"+kv)
		}
	}
	return env
}
