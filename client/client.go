// Package client is perdure's end of the wire on the person's side.
//
// Three ways lead to a session:
//
//   - Run asks the server for a command. On the box that is SSH over the server's own unix socket, where
//     the server checks the uid of the peer, so no key is needed; with Options.Host it is the person's own
//     ssh program, with their configuration, keys and jump hosts.
//   - Direct speaks wire frames to a session's host, past server and store, so that a live agent can be
//     reached whatever became of the rest.
//
// Whoever asks for a terminal gets it back as it was: raw mode ends on every way out, and where the other
// side broke off before it could tidy up, the modes it had set are undone too.
package client

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
)

// ErrUnreachable says that no server answered: none runs, the way to it is barred, or it broke off before it
// had said how the command ended.
var ErrUnreachable = errors.New("can't reach the server")

// Options say what to run, where and with what.
type Options struct {
	Socket string    // the server's unix socket; used where Host is empty
	Drop   string    // the session's drop folder, for where a sandbox forbids the socket; "" is none
	Host   string    // [USER@]HOST[:PORT], reached by the system's ssh
	SSH    string    // the ssh program with its arguments, split as a shell would; empty means "ssh"
	Args   []string  // the command's words
	Env    []string  // KEY=VALUE pairs to send along; over Host, ssh's own configuration decides
	Stdin  io.Reader // nil is an empty input: nothing is read, and nothing is taken from a loop around us
	Stdout io.Writer
	Stderr io.Writer
	TTY    bool // ask for a terminal; Stdin and Stdout must then be the terminal's files
}

// Run runs a command in the server and returns its exit status: 128 and the signal's number where a signal
// ended it. The error is for what kept the command from telling a status, and wraps ErrUnreachable where
// no server was reached.
func Run(ctx context.Context, o Options) (int, error) {
	if o.Host != "" {
		return runSystem(ctx, o)
	}
	return runLocal(ctx, o)
}

// Terminal says whether both files are terminals, so that a TTY can be asked for.
func Terminal(in, out *os.File) bool { return isTerminal(in) && isTerminal(out) }

// signalNumbers are those that SSH can name (RFC 4254, 6.10).
var signalNumbers = map[string]syscall.Signal{
	"ABRT": syscall.SIGABRT, "ALRM": syscall.SIGALRM, "FPE": syscall.SIGFPE, "HUP": syscall.SIGHUP,
	"ILL": syscall.SIGILL, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "PIPE": syscall.SIGPIPE,
	"QUIT": syscall.SIGQUIT, "SEGV": syscall.SIGSEGV, "TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1,
	"USR2": syscall.SIGUSR2,
}

// signalStatus is the exit status that shells give to a process that a signal ended.
func signalStatus(name string) int {
	if n, ok := signalNumbers[name]; ok {
		return 128 + int(n)
	}
	return 128
}
