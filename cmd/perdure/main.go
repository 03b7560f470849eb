// Command perdure keeps coding agents' work alive through every kind of break.
//
// One binary is all of it: the server, the host of a single session, and the command line. Most commands are
// implemented in the server and only carried there from here, over its unix socket or, with --on, by ssh to
// another machine; what runs here is what has to: serve, attach --direct, demo, config, doctor, completion, version.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"perdure/handoff"
	"perdure/server"
	"perdure/workspace/host"
)

// version is set by the linker in releases.
var version = "dev"

func main() { os.Exit(run(os.Args[1:])) }

// run is main without the exit. What perdure starts of itself comes first, and builds no command tree: a host lives for weeks.
func run(args []string) int {
	if len(args) == 2 && args[0] == "host" {
		return runHost(args[1])
	}
	if len(args) == 2 && args[0] == server.ProbeCommand {
		return server.Probe(args[1])
	}
	if len(args) == 1 && args[0] == handoff.SuperviseCommand {
		return handoff.Supervise()
	}
	a := newApp(os.Stdin, os.Stdout, os.Stderr)
	return a.execute(context.Background(), args)
}

// hostListener is the number of the file that a host inherits: its bound listener.
const hostListener = 3

// runHost is the process that holds one session. Its standard error is the session's host.log. TERM is how the box
// goes down; a hangup means nothing to a process that has no terminal (caught, since what is ignored is inherited).
func runHost(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT)
	l, err := inheritedListener()
	if err == nil {
		err = host.Run(ctx, dir, l)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "perdure: host: %v\n", err)
		return statusFailed
	}
	return statusOK
}

func inheritedListener() (net.Listener, error) {
	f := os.NewFile(hostListener, "listener")
	if f == nil {
		return nil, errors.New("no listener was inherited")
	}
	defer f.Close() // FileListener has its own, which the session's program does not inherit
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("take the inherited listener: %w", err)
	}
	return l, nil
}
