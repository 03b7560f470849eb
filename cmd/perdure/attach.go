package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"perdure/client"
	"perdure/workspace"
)

func (a *app) attachCommand() *cobra.Command {
	var readOnly, direct bool
	c := &cobra.Command{
		Use:   "attach NAME [--read-only] [--direct]",
		Short: "Attach to a workspace's session",
		Long: `Attach shows a workspace's session in this terminal, after verifying and starting one if none is live.
The session's exit status is passed on. With --direct it goes to the session's own process, without server or
store; ~. at the start of a line leaves.`,
		GroupID: groupWork, Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeNames,
		RunE: func(c *cobra.Command, args []string) error {
			if direct {
				return a.attachDirect(c.Context(), args, readOnly)
			}
			words := append([]string{"attach"}, args...)
			if readOnly {
				words = append(words, "--read-only")
			}
			words = append(words, a.jsonFlag()...)
			return a.remote(c.Context(), words, client.Terminal(a.stdin, a.stdout), false)
		},
	}
	c.Flags().BoolVar(&readOnly, "read-only", false, "watch, and type nothing")
	c.Flags().BoolVar(&direct, "direct", false, "go to the session's own process, without the server")
	return c
}

// attachDirect finds a live session in the state folder by itself and attaches to its host.
func (a *app) attachDirect(ctx context.Context, args []string, readOnly bool) error {
	if err := a.notRemote("attach --direct"); err != nil {
		return err
	}
	name := os.Getenv("PERDURE_WORKSPACE")
	if len(args) == 1 {
		name = args[0]
	}
	if name == "" {
		return usageError("attach --direct needs the workspace's name")
	}
	if err := workspace.ValidName(name); err != nil {
		return usageError("%w", err)
	}
	if !client.Terminal(a.stdin, a.stdout) {
		return errors.New("attach --direct: standard input and output are not a terminal")
	}
	state, err := a.stateDir()
	if err != nil {
		return err
	}
	sess, err := liveSession(state, name)
	if err != nil {
		return err
	}
	conn, closer, err := workspace.Dial(ctx, sess.Dir)
	if err != nil {
		return fmt.Errorf("reach the session of %s: %w", name, err)
	}
	a.status, err = client.Direct(ctx, client.DirectOptions{
		Conn: conn, Closer: closer, Name: name, ReadOnly: readOnly, Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr})
	return err
}

// liveSession is the newest live session of a workspace; a folder that can't be read hides no other.
func liveSession(state, name string) (*workspace.Session, error) {
	dir := filepath.Join(state, "workspaces", name, "sessions")
	entries, err := os.ReadDir(dir) // by name, and so by time
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &problem{status: statusMissing, code: "not-found", err: fmt.Errorf("no session of %s in %s", name, state), hint: "see `perdure ls`"}
	}
	if err != nil {
		return nil, fmt.Errorf("look for sessions: %w", err)
	}
	var unread error
	for _, e := range slices.Backward(entries) {
		sess, err := workspace.Load(filepath.Join(dir, e.Name()))
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		if sess.State == workspace.Live {
			return sess, nil
		}
	}
	if unread != nil {
		return nil, fmt.Errorf("find a live session of %s: %w", name, unread)
	}
	return nil, &problem{status: statusMissing, code: "not-found", err: fmt.Errorf("no session of %s is live", name),
		hint: fmt.Sprintf("`perdure attach %[1]s` starts one, `perdure log %[1]s` shows the last", name)}
}
