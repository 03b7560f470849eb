// Command perdure-bench measures perdure beside its peers, and beside the bound that the machine sets, in one run:
// only ratios of one run mean something.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sort"

	"perdure/handoff"
)

// bench is one subcommand; each has a file of its own.
type bench struct {
	about string
	run   func(ctx context.Context, args []string) error
}

var benches = map[string]bench{
	"bulk":     {"output through ssh to a workspace, beside sshd alone and sshd with tmux", runBulk},
	"echo":     {"how soon a key comes back through ssh, beside sshd alone and sshd with tmux", runEcho},
	"host":     {"what the host of a session weighs, idle and with full history", runHost},
	"predict":  {"how soon a typed character shows, beside ssh and mosh", runPredict},
	"resume":   {"how soon something new shows after a blackhole, beside ssh and mosh", runResume},
	"screen":   {"how fast a screen takes output in, and what 10,000 lines weigh, beside tmux", runScreen},
	"transfer": {"files and forwarded ports both ways, beside OpenSSH's sshd", runTransfer},
	"snapshot": {"capture and restore beside git and a parallel lstat", runSnapshot},
	"verify":   {"quick verification beside a snapshot, and what following a check's opens costs", runVerify},
}

// own are parts of a measurement that need a process to themselves.
var own = map[string]func(args []string) error{
	".screen-memory": runScreenMemory,
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == handoff.SuperviseCommand {
		os.Exit(handoff.Supervise())
	}
	if len(os.Args) > 1 && own[os.Args[1]] != nil {
		if err := own[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "perdure-bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) < 2 || benches[os.Args[1]].run == nil {
		fmt.Fprintln(os.Stderr, "usage: perdure-bench SUBCOMMAND [flags]")
		var names []string
		for name := range benches {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			fmt.Fprintf(os.Stderr, "  %-10s %s\n", name, benches[name].about)
		}
		stop()
		os.Exit(2)
	}
	if err := benches[os.Args[1]].run(ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "perdure-bench:", err)
		stop()
		os.Exit(1)
	}
}
