package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"perdure/client"
	"perdure/client/link"
	"perdure/client/predict"
	"perdure/workspace"
)

const connectLong = `Connect attaches to a workspace's session on another machine and stays attached: when the link breaks, the laptop
sleeps or its address changes, it dials again and goes on where it was. Nothing is lost and nothing comes twice, in
either direction; what is typed meanwhile is kept and sent once.

It runs the system's ssh with your configuration (or PERDURE_SSH, a command with arguments), and at the far end
"perdure relay NAME", so that it works through perdure's own server and through the machine's ordinary sshd. The first
connection may ask questions; later ones are silent, and stop with the reason where a key is refused or has changed.

HOST is what your ssh configuration knows it as; it defaults to --on or PERDURE_ON. A single argument is the workspace
where there is such a default, unless it holds an @ or a colon. Without NAME a list is shown.

What you type shows at once on a slow link, underlined until the answer is here; wrong guesses are taken back, and nothing
shows where the far end asks for a password.

Without a terminal the session's output is followed from its beginning, byte for byte, and input is passed on; there are
no escapes, and a workspace that is halted is refused.

At the start of a line:
  ~.  ~d   leave; the session goes on
  ~s       how the link is
  ~w       show another workspace, from a list
  ~n       go to the workspace that has waited longest for you
  ~?       these
  ~~       a tilde

Exit status: the session's own; 128 and its number if a signal ended it; 0 after ~. ; 2 wrong usage; 3 no such workspace;
4 refused or halted; 5 the machine or its server can't be reached, or the host key or ours was refused.`

func (a *app) connectCommand() *cobra.Command {
	var o client.ConnectOptions
	var mode string
	c := &cobra.Command{
		Use:     "connect [[USER@]HOST[:PORT]] [NAME]",
		Short:   "Attach from anywhere, and stay attached",
		Long:    connectLong,
		Example: "  perdure connect box auth\n  perdure connect me@box:2222 auth --read-only",
		GroupID: groupWork, Args: cobra.MaximumNArgs(2), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			switch o.Predict = predict.Mode(mode); o.Predict {
			case predict.Adaptive, predict.Always, predict.Never:
				return a.connect(c.Context(), o, args)
			}
			return usageError("--predict is adaptive, always or never, not %q", mode)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.ReadOnly, "read-only", false, "watch, and type nothing")
	f.StringVar(&mode, "predict", string(predict.Adaptive), "show what you type before the answer is here: adaptive (where the link is slow), always or never")
	f.StringVar(&o.RemotePath, "remote-path", "", "where perdure is at the far end, if not on the PATH there")
	f.BoolVar(&o.Whole, "no-skip", false, "show all output, however far behind; else the screen is shown instead once it is 8 MiB and 5 s behind")
	return c
}

func (a *app) connect(ctx context.Context, o client.ConnectOptions, args []string) error {
	host, name, err := a.whereTo(args)
	if err != nil {
		return err
	}
	if name != "" {
		if err := workspace.ValidName(name); err != nil {
			return usageError("%w", err)
		}
	}
	command, err := a.ssh()
	if err != nil {
		return err
	}
	o.Host, o.Workspace, o.SSH = host, name, command.Value.(string)
	o.Stdin, o.Stdout, o.Stderr = a.stdin, a.stdout, a.stderr
	status, err := client.Connect(ctx, o)
	var final *link.FinalError
	switch {
	case errors.Is(err, client.ErrHost):
		return &problem{status: statusUsage, code: "usage", err: err}
	case errors.As(err, &final):
		return &problem{status: final.Status, code: "connect", err: final.Err, hint: final.Hint}
	case errors.Is(err, client.ErrUnreachable):
		return &problem{status: statusUnreachable, code: "unreachable", err: err}
	}
	a.status = status
	return err
}

// whereTo tells host and workspace apart.
func (a *app) whereTo(args []string) (host, name string, err error) {
	if host = a.on; host == "" {
		host = os.Getenv("PERDURE_ON")
	}
	if host == "" {
		c, err := readSettings("")
		if err != nil {
			return "", "", err
		}
		host = c.On
	}
	switch {
	case len(args) == 2:
		return args[0], args[1], nil
	case len(args) == 1 && (host == "" || strings.ContainsAny(args[0], "@:")):
		return args[0], "", nil
	case len(args) == 1:
		name = args[0]
	}
	if host == "" {
		return "", "", usageError("connect needs a host: perdure connect HOST [NAME], or set PERDURE_ON, or on in the configuration")
	}
	return host, name, nil
}

func (a *app) relayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "relay [NAME]",
		Short: "Speak wire frames on standard input and output; what connect runs at the far end",
		Long: `Relay is the far end of "perdure connect": it joins its standard input and output to a workspace's session, as frames
that can be resumed. It works over any SSH server, through perdure's own or as a command on the machine.
The frames are described in workspace/wire/FORMAT.md; others may speak them.`,
		GroupID: groupHere, Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeNames,
		RunE: func(c *cobra.Command, args []string) error {
			if client.Terminal(a.stdin, a.stdout) {
				return usageError("relay speaks frames, not to a terminal: see `perdure connect`")
			}
			return a.remote(c.Context(), append([]string{"relay"}, args...), false, true)
		},
	}
}
