package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/shlex"
)

// sshFailed is the status by which ssh(1) tells its own failures.
const sshFailed = 255

// ErrHost is a host that can't be understood; the person has to write another.
var ErrHost = errors.New("not a host of the form [USER@]HOST[:PORT]")

// runSystem runs a command by the person's own ssh, whose configuration, keys and questions apply.
func runSystem(ctx context.Context, o Options) (int, error) {
	argv, err := systemArgv(o)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	// A terminal's interrupt reaches ssh by itself, being in our process group; we stay to tell how it ended.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGINT, syscall.SIGQUIT)
	defer signal.Stop(ignored)
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case !errors.As(err, &exit):
		return 0, fmt.Errorf("%w: run %s: %w", ErrUnreachable, argv[0], err)
	case exit.ExitCode() == sshFailed:
		return 0, fmt.Errorf("%w: %s: ssh gave up (status %d)", ErrUnreachable, o.Host, sshFailed)
	case exit.ExitCode() >= 0:
		return exit.ExitCode(), nil
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return 1, nil
}

// systemArgv is ssh's command line. No -p is given unless the person gave a port: their ssh configuration
// knows the host better.
func systemArgv(o Options) ([]string, error) {
	user, host, port, err := splitHost(o.Host)
	if err != nil {
		return nil, err
	}
	argv := []string{"ssh"}
	if strings.TrimSpace(o.SSH) != "" {
		if argv, err = shlex.Split(o.SSH); err != nil || len(argv) == 0 {
			return nil, fmt.Errorf("%w: PERDURE_SSH: %q is no command: %w", ErrUnreachable, o.SSH, err)
		}
	}
	if o.TTY {
		argv = append(argv, "-t")
	} else {
		argv = append(argv, "-T")
	}
	argv = append(argv, "-o", "SendEnv=COLORTERM LANG LC_*")
	if port != "" {
		argv = append(argv, "-p", port)
	}
	return append(argv, user+"@"+host, Quote(o.Args)), nil
}

// splitHost takes [USER@]HOST[:PORT] apart; an IPv6 address with a port stands in brackets.
func splitHost(s string) (user, host, port string, err error) {
	user, host = localUser, s
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		user, host = s[:i], s[i+1:]
	}
	switch {
	case strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]"):
		host = host[1 : len(host)-1]
	case strings.Count(host, ":") == 1 || strings.HasPrefix(host, "["):
		if host, port, err = net.SplitHostPort(host); err != nil {
			return "", "", "", fmt.Errorf("%q: %w", s, ErrHost)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", "", "", fmt.Errorf("%q: %w", s, ErrHost)
		}
	}
	// A dash in front would be an option of ssh's, and a space more than one word of its configuration.
	if host == "" || user == "" || host[0] == '-' || user[0] == '-' || strings.ContainsAny(user+host, " \t\r\n") {
		return "", "", "", fmt.Errorf("%q: %w", s, ErrHost)
	}
	return user, host, port, nil
}
