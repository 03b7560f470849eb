package handoff

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Taken from the process's own environment: what tools need to find their
// homes and caches. A check must give the same answer whoever started perdure.
var (
	keepNames = []string{"HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "JAVA_HOME", "VIRTUAL_ENV", "NVM_DIR", "CC", "CXX", "TERM"}
	keepHeads = []string{"LC_", "XDG_", "GO", "CGO_", "CARGO_", "RUST", "PYENV_", "NODE_", "npm_config_", "PKG_CONFIG_", "DOCKER_", "SSL_CERT_"}
	dropNames = []string{"SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "TMUX", "STY", "PATH", "PWD", "OLDPWD"}
)

// environ is the environment without PATH, which the caller adds.
func (c *run) environ() []string {
	source, all := c.Env, true
	if source == nil {
		source, all = os.Environ(), false
	}
	var env []string
	// A result from go's cache says nothing of a database that is gone, and
	// opens no file. Commands without this flag pass it over.
	goflags := "-count=1"
	for _, kv := range source {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || slices.Contains(dropNames, name) || strings.HasPrefix(name, "PERDURE_") {
			continue
		}
		kept := slices.Contains(keepNames, name) || slices.Contains(c.spec.Env, name) || slices.ContainsFunc(keepHeads, func(h string) bool { return strings.HasPrefix(name, h) })
		if name == "GOFLAGS" {
			goflags = strings.TrimSpace(kv[len("GOFLAGS="):] + " -count=1")
			continue
		}
		if all || kept {
			env = append(env, kv)
		}
	}
	return append(env, "GOFLAGS="+goflags)
}

// shimScript makes `go test` name every test. It adds -json only where the
// output goes straight to the check's own pipe: into another program's, the
// text stays as its reader expects it. GOFLAGS=-json would do it too, but it
// changes go list, go vet and go build as well, and what tests run inside.
// The PATH is put back before the real go starts, so nothing below it, nor
// its test cache, sees the difference.
const shimScript = `#!/bin/sh
d='%s'
case "$PATH" in
"$d":*) PATH=${PATH#"$d:"} ;;
*:"$d":*) PATH=${PATH%%%%":$d:"*}:${PATH#*":$d:"} ;;
*:"$d") PATH=${PATH%%":$d"} ;;
esac
export PATH
plain() { exec go "$@"; }
[ "$(readlink /proc/$$/fd/1)" = '%s' ] || plain "$@"
if [ "$1" = -C ] && [ "$3" = test ]; then at=$2; shift 3
elif [ "$1" = test ]; then at=; shift
else plain "$@"; fi
for a; do
	case "$a" in
	-args|--args) break ;;
	-json|--json|-json=*|-c|-c=*|-o|-o=*|-n|-x|-h|-help|--help|-list|-list=*|--list*|-cpuprofile*|-memprofile*)
		if [ -n "$at" ]; then exec go -C "$at" test "$@"; fi
		exec go test "$@" ;;
	esac
done
if [ -n "$at" ]; then exec go -C "$at" test -json "$@"; fi
exec go test -json "$@"
`

// makeShim puts a `go` into a folder of its own, to come first in the check's
// PATH. It returns "" where it isn't wanted or can't be made; results are then read from text.
func (c *run) makeShim(path, pipe string) string {
	switch c.spec.Results {
	case "", "auto", "go", "go-json":
	default:
		return ""
	}
	if pipe == "" || !hasGo(path) {
		return ""
	}
	dir, err := os.MkdirTemp("", "perdure-check-")
	if err != nil {
		return ""
	}
	if strings.ContainsAny(dir, "':") {
		_ = os.RemoveAll(dir)
		return ""
	}
	script := fmt.Sprintf(shimScript, dir, pipe)
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700); err != nil {
		_ = os.RemoveAll(dir)
		return ""
	}
	return dir
}

// hasGo looks in the check's PATH: a shim in front of nothing would make
// `command -v go` lie.
func hasGo(path string) bool {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if _, err := exec.LookPath(filepath.Join(dir, "go")); err == nil {
			return true
		}
	}
	return false
}

// pipeName is what /proc shows for the check's standard output.
func pipeName(f *os.File) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return ""
	}
	return name
}
