package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/shlex"
	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/server/store"
	"perdure/workspace"
)

// call is one perdure command on its way: who asks, and where its words go.
type call struct {
	s      *Server
	r      *Request
	out    io.Writer
	errOut io.Writer
	who    caller
	json   bool
	status int  // what a command that succeeded as a command exits with (a verdict, a session's exit)
	exit   Exit // what an attachment ended with
}

// command runs one command line as an SSH exec brought it.
func (s *Server) command(ctx context.Context, r *Request) Exit {
	c := &call{s: s, r: r, out: r.Out, errOut: r.Err, who: s.identify(r)}
	if r.Term != nil { // a raw terminal wants its carriage returns
		c.out, c.errOut = crlf{r.Out}, crlf{r.Out}
	}
	words, err := shlex.Split(r.Command)
	if err != nil {
		return Exit{Status: report(usage("quote the words as a shell does", "command line: %w", err), false, c.out, c.errOut)}
	}
	if len(words) > 0 && words[0] == "perdure" {
		words = words[1:]
	}
	c.json = wantsJSON(words)
	words = countedSnapshots(words)
	root := c.tree()
	root.SetArgs(words)
	if err := root.ExecuteContext(ctx); err != nil {
		return Exit{Status: report(asUsage(err), c.json, c.out, c.errOut)}
	}
	if c.exit != (Exit{}) {
		return c.exit
	}
	return Exit{Status: c.status}
}

// countedSnapshots writes the -N of CONTRACT, which would be taken for a flag, as latest-N.
func countedSnapshots(words []string) []string {
	if len(words) == 0 || !slices.Contains([]string{"diff", "cat", "restore"}, words[0]) {
		return words
	}
	out := slices.Clone(words)
	for i, w := range out[1:] {
		if w == "--" {
			break
		}
		if _, err := strconv.Atoi(w); err == nil && strings.HasPrefix(w, "-") {
			out[i+1] = "latest" + w
		}
	}
	return out
}

// wantsJSON looks ahead, so that even a wrong command line is answered in the form that was asked for.
func wantsJSON(words []string) bool {
	for _, w := range words {
		if w == "--" {
			return false
		}
		if w == "--json" || w == "--json=true" {
			return true
		}
	}
	return false
}

// asUsage turns the command library's own complaints into wrong usage.
func asUsage(err error) error {
	var p *problem
	if errors.As(err, &p) {
		return err
	}
	for _, start := range []string{"unknown command", "unknown flag", "unknown shorthand", "flag needs an argument", "invalid argument", "accepts ", "requires ", "required flag", "if any flags"} {
		if strings.HasPrefix(err.Error(), start) {
			return usage("`perdure help` lists the commands", "%s", strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	return err
}

// tree builds every command that the server implements. There is none that does nothing.
func (c *call) tree() *cobra.Command {
	root := &cobra.Command{
		Use: "perdure", Short: "keep coding agents' work alive through every kind of break", SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("`perdure help` lists the commands", "unknown command %q", args[0])
			}
			return cmd.Help()
		},
	}
	root.PersistentFlags().BoolVar(&c.json, "json", c.json, "print JSON")
	root.SetOut(c.out)
	root.SetErr(c.errOut)
	root.AddCommand(c.newCommand(), c.setCommand(), c.rmCommand())
	root.AddCommand(c.lsCommand(), c.showCommand(), c.eventsCommand())
	root.AddCommand(c.attachCommand(), c.relayCommand(), c.nextCommand(), c.startCommand(), c.stopCommand(), c.peekCommand(), c.sendCommand(), c.waitCommand(), c.logCommand())
	root.AddCommand(c.snapshotCommand(), c.snapshotsCommand(), c.diffCommand(), c.catCommand(), c.restoreCommand())
	root.AddCommand(c.usageCommand(), c.pruneCommand(), c.exportCommand())
	root.AddCommand(c.deliverCommand(), c.inboxCommand(), c.acceptCommand(), c.rejectCommand())
	root.AddCommand(c.consentCommand(), c.handoffCommand(), c.briefCommand(), c.hookCommand(), c.haltsCommand(), c.versionCommand())
	return root
}

func (c *call) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "the server's version", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		if c.json {
			return c.print(map[string]string{"version": c.s.opts.Version})
		}
		_, err := fmt.Fprintf(c.out, "perdure %s\n", c.s.opts.Version)
		return err
	}}
}

// print writes a value as JSON.
func (c *call) print(v any) error {
	e := json.NewEncoder(c.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (c *call) workspace(args []string) (workspace.Definition, error) {
	name := c.who.inside
	if name == "" && c.r.Local {
		name = c.r.Env["PERDURE_WORKSPACE"]
	}
	if len(args) > 0 {
		name = args[0]
	}
	if name == "" {
		return workspace.Definition{}, usage("outside a session the workspace's name is needed", "no workspace is named")
	}
	d, err := c.s.store.Workspace(name)
	if errors.Is(err, store.ErrNotFound) {
		return d, missing(c.s.namesHint(), "no workspace %s", quoteName(name))
	}
	return d, err
}

// own is workspace for a command that an agent may give only for its own.
func (c *call) own(args []string) (workspace.Definition, error) {
	d, err := c.workspace(args)
	if err != nil {
		return d, err
	}
	return d, c.who.mayActFor(d.Name)
}

// present refuses what needs the workspace's files where its directory is gone.
func present(d workspace.Definition) error {
	if isDir(d.Dir) {
		return nil
	}
	dir := handoff.Escape(d.Dir)
	return &problem{statusFailed, "failed", fmt.Errorf("the directory of %s is gone: %s", d.Name, dir),
		fmt.Sprintf("`perdure restore %s latest --to %s` brings the last snapshot back", d.Name, dir)}
}

// path makes a path absolute: the caller's directory on the box, else the home.
func (c *call) path(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	base := ""
	if c.r.Local {
		base = c.r.Env["PERDURE_CWD"]
	}
	if base == "" {
		base, _ = os.UserHomeDir()
	}
	return filepath.Join(base, p)
}

// quoteName shows a name from outside: quoted, controls escaped.
func quoteName(name string) string { return fmt.Sprintf("%q", name) }

// readWord reads a line from a raw terminal, echoing it; what follows it stays in rest.
func readWord(ctx context.Context, r *Request, out io.Writer) (word string, rest io.Reader) {
	var line []byte
	b := make([]byte, 1)
	for ctx.Err() == nil {
		if n, err := r.In.Read(b); n == 0 || err != nil {
			return "", r.In
		}
		switch {
		case b[0] == '\r' || b[0] == '\n':
			fmt.Fprintln(out)
			return string(line), r.In
		case b[0] == 3 || b[0] == 4:
			fmt.Fprintln(out)
			return "", r.In
		case b[0] == 127 || b[0] == 8:
			if len(line) > 0 {
				line = line[:len(line)-1]
				fmt.Fprint(out, "\b \b")
			}
		case b[0] > 32 && b[0] < 127 && len(line) < 64:
			line = append(line, b[0])
			fmt.Fprint(out, string(b))
		}
	}
	return "", r.In
}

// upToOne takes at most a workspace's name.
func upToOne(args []string) error {
	if len(args) > 1 {
		return usage("", "too many arguments: %s", strings.Join(args[1:], " "))
	}
	return nil
}

// unique drops what is said twice and keeps the order.
func unique(list []string) []string {
	var out []string
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
