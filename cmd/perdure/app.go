package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"perdure/client"
)

// app is one run of the command line: its files, and the global flags.
type app struct {
	stdin          *os.File
	stdout, stderr *os.File

	state   string // --state
	on      string // --on
	json    bool
	verbose bool

	ran    bool // a command was understood: what fails now isn't the way it was written
	status int  // the exit status where there is no error
}

func newApp(stdin, stdout, stderr *os.File) *app {
	return &app{stdin: stdin, stdout: stdout, stderr: stderr}
}

// execute runs a command line and returns the exit status.
func (a *app) execute(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return a.status
	}
	if !a.ran {
		err = &problem{status: statusUsage, code: "usage", err: err, hint: "see `perdure help`"}
		a.json = a.json || slices.Contains(beforeDashes(args), "--json")
	}
	return a.report(err)
}

// root builds the whole tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:                        "perdure",
		Short:                      "Keeps coding agents' work alive through every kind of break",
		Long:                       rootLong,
		SilenceErrors:              true,
		SilenceUsage:               true,
		TraverseChildren:           true,
		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:                       a.knownCommand,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE:          a.understood,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	f := root.PersistentFlags()
	f.StringVar(&a.state, "state", "", "the state folder (or PERDURE_STATE)")
	f.StringVar(&a.on, "on", "", "run the command on another machine: [USER@]HOST[:PORT]")
	f.BoolVar(&a.json, "json", false, "print JSON where a command lists or shows")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "say more")
	root.AddGroup(&cobra.Group{ID: groupWork, Title: "Workspaces and sessions:"}, &cobra.Group{ID: groupKeep, Title: "Snapshots and handoffs:"},
		&cobra.Group{ID: groupHere, Title: "On this machine:"})
	root.AddCommand(a.remoteCommands()...)
	root.AddCommand(a.attachCommand(), a.connectCommand(), a.nextCommand(), a.relayCommand())
	root.AddCommand(a.serveCommand(), a.demoCommand(), a.agentCommand(), a.mcpCommand(), a.hookCommand(), a.configCommand(), a.doctorCommand(), a.completionCommand(), a.versionCommand())
	root.SetHelpCommand(a.helpCommand())
	root.SetHelpCommandGroupID(groupHere)
	return root
}

// understood notes that a command line could be read, and looks at the global flags.
func (a *app) understood(c *cobra.Command, _ []string) error {
	a.ran = true
	for _, name := range []string{"state", "on"} {
		if f := c.Root().PersistentFlags().Lookup(name); f.Changed && f.Value.String() == "" {
			return emptyGlobal("--" + name)
		}
	}
	return nil
}

const rootLong = `perdure keeps coding agents' work alive through every kind of break.

A workspace is a name, a directory, a goal and the checks that tell whether the work holds. The agent in it
can be left and found again from anywhere, and what it hands over is verified before a fresh session builds
on it. Start with ` + "`perdure serve`" + ` in one terminal and ` + "`perdure new NAME`" + ` in another.`

// The groups of the help text.
const (
	groupWork = "work"
	groupKeep = "keep"
	groupHere = "here"
)

// knownCommand refuses a word that is no command; cobra would hand it to the root's own run.
func (a *app) knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q: did you mean %q?", args[0], near[0])
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// socket is the server's of the state folder in force. Within a session whose state folder isn't named, the
// server that started the session is meant.
func (a *app) socket() (string, error) {
	if s := os.Getenv("PERDURE_SOCKET"); s != "" && a.state == "" && os.Getenv("PERDURE_STATE") == "" {
		return s, nil
	}
	dir, err := a.stateDir()
	if err != nil {
		return "", err
	}
	return serverSocket(dir)
}

// remote runs a command in the server with the app's files.
func (a *app) remote(ctx context.Context, args []string, tty, input bool) error {
	command, err := a.ssh()
	if err != nil {
		return err
	}
	o := client.Options{Host: a.on, SSH: command.Value.(string), Args: args, Stdout: a.stdout, Stderr: a.stderr, TTY: tty}
	if tty || input {
		o.Stdin = a.stdin
	}
	if o.Host == "" {
		if o.Socket, err = a.socket(); err != nil {
			return err
		}
		o.Env, o.Drop = clientEnv(), os.Getenv("PERDURE_DROP")
		if client.Terminal(a.stderr, a.stderr) {
			o.Env = append(o.Env, "PERDURE_PROGRESS=1")
		}
		o.Env = append(o.Env, a.screenEnv()...)
	}
	status, err := client.Run(ctx, o)
	switch {
	case errors.Is(err, client.ErrHost):
		return &problem{status: statusUsage, code: "usage", err: fmt.Errorf("--on: %w", err), hint: "the host as ssh knows it, as --on me@box:2222"}
	case errors.Is(err, client.ErrUnreachable):
		return &problem{status: statusUnreachable, code: "unreachable", err: err, hint: a.reachHint()}
	}
	a.status = status
	return err
}

// screenEnv tells the server how wide the terminal is that it prints to, and whether colours are wanted there.
func (a *app) screenEnv() []string {
	columns, _, err := term.GetSize(int(a.stdout.Fd()))
	if err != nil {
		return nil
	}
	env := []string{"PERDURE_COLUMNS=" + strconv.Itoa(columns)}
	if os.Getenv("NO_COLOR") != "" {
		env = append(env, "PERDURE_NO_COLOR=1")
	}
	return env
}

// jsonFlag carries --json on to the server, which answers errors in that form.
func (a *app) jsonFlag() []string {
	if a.json {
		return []string{"--json"}
	}
	return nil
}

// reachHint says what to do when nobody answered.
func (a *app) reachHint() string {
	if a.on != "" {
		return "start one there with `perdure serve`; its port is 2222 unless it was told another: --on HOST:2222"
	}
	return "start it with `perdure serve`"
}
