package handoff

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// usual are the variables that a check gets from the process's own environment: where tools find their homes, caches and
// settings. Each is named in full, since a head such as NODE_ lets a token through (NODE_AUTH_TOKEN); a workspace may name
// more of them. A check must give the same answer whoever started perdure.
var usual = strings.Fields(`
	HOME USER LOGNAME SHELL TERM TZ TMPDIR LANG LANGUAGE
	LC_ALL LC_ADDRESS LC_COLLATE LC_CTYPE LC_IDENTIFICATION LC_MEASUREMENT LC_MESSAGES LC_MONETARY LC_NAME LC_NUMERIC LC_PAPER LC_TELEPHONE LC_TIME
	XDG_CACHE_HOME XDG_CONFIG_DIRS XDG_CONFIG_HOME XDG_DATA_DIRS XDG_DATA_HOME XDG_STATE_HOME
	GO111MODULE GO386 GOAMD64 GOARCH GOARM GOARM64 GOBIN GOCACHE GOCACHEPROG GODEBUG GOENV GOEXPERIMENT GOFIPS140 GOFLAGS GOGC GOINSECURE
	GOMAXPROCS GOMEMLIMIT GOMODCACHE GONOPROXY GONOSUMDB GOOS GOPATH GOPRIVATE GOPROXY GORACE GOROOT GOSUMDB GOTELEMETRY GOTMPDIR
	GOTOOLCHAIN GOTRACEBACK GOVCS GOWORK
	CC CXX CGO_CFLAGS CGO_CFLAGS_ALLOW CGO_CPPFLAGS CGO_CXXFLAGS CGO_ENABLED CGO_LDFLAGS CGO_LDFLAGS_ALLOW
	PKG_CONFIG PKG_CONFIG_LIBDIR PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
	CARGO_BUILD_JOBS CARGO_BUILD_RUSTFLAGS CARGO_BUILD_TARGET CARGO_BUILD_TARGET_DIR CARGO_HOME CARGO_INCREMENTAL CARGO_NET_GIT_FETCH_WITH_CLI
	CARGO_NET_OFFLINE CARGO_TARGET_DIR CARGO_TERM_COLOR
	RUSTC RUSTC_WRAPPER RUSTDOCFLAGS RUSTFLAGS RUSTUP_HOME RUSTUP_TOOLCHAIN RUST_BACKTRACE RUST_LOG RUST_MIN_STACK RUST_TEST_THREADS
	NODE_ENV NODE_EXTRA_CA_CERTS NODE_OPTIONS NODE_PATH NVM_DIR
	npm_config_cache npm_config_offline npm_config_prefer_offline npm_config_prefix npm_config_registry
	PYENV_ROOT PYENV_VERSION VIRTUAL_ENV JAVA_HOME
	DOCKER_API_VERSION DOCKER_BUILDKIT DOCKER_CERT_PATH DOCKER_CONTEXT DOCKER_HOST DOCKER_TLS_VERIFY
	SSL_CERT_DIR SSL_CERT_FILE`)

// never are variables that no check gets, whoever names them: they lead to a person's agent or terminal, or are set for each check.
var never = []string{"SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "TMUX", "STY", "PATH", "PWD", "OLDPWD"}

// password is an address with a password or a token in it: the value of GOPROXY or of a registry may be one.
var password = regexp.MustCompile(`\bhttps?://[^/@\s]+@`)

// environ is the environment without PATH, which the caller adds.
func (c *run) environ() []string {
	var env []string
	// A result from go's cache says nothing of a database that is gone, and
	// opens no file. Commands without this flag pass it over.
	goflags := "-count=1"
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		named := slices.Contains(c.spec.Env, name)
		switch {
		case slices.Contains(never, name) || strings.HasPrefix(name, "PERDURE_"):
		case !named && (!slices.Contains(usual, name) || password.MatchString(value)):
		case name == "GOFLAGS":
			goflags = strings.TrimSpace(value + " -count=1")
		default:
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
