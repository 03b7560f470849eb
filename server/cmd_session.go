package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perdure/workspace"
	"perdure/workspace/journal"
	"perdure/workspace/screen"
)

func (c *call) attachCommand() *cobra.Command {
	var readOnly bool
	cmd := &cobra.Command{Use: "attach NAME [--read-only]", Short: "attach to a workspace's session", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "look on; type nothing, verify nothing, start nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		return c.attachTo(cmd, d, readOnly)
	}
	return cmd
}

func (c *call) attachTo(cmd *cobra.Command, d workspace.Definition, readOnly bool) error {
	if c.r.Term == nil {
		if err := c.s.mayStart(d.Name, false); err != nil {
			return err
		}
		return usage("over plain ssh, `ssh -t` asks for one", "attach needs a terminal")
	}
	if c.who.inside == d.Name {
		return refused("", "this is the session of %s", d.Name)
	}
	c.exit = c.s.attach(cmd.Context(), c.r, d.Name, readOnly)
	return nil
}

func (c *call) nextCommand() *cobra.Command {
	return &cobra.Command{Use: "next", Short: "attach to the workspace that has waited longest for the person", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		list, err := c.s.summaries(cmd.Context())
		if err != nil {
			return err
		}
		list = needing(list)
		if len(list) == 0 {
			return missing("", "no workspace needs you")
		}
		d, err := c.workspace([]string{list[0].Name})
		if err != nil {
			return err
		}
		return c.attachTo(cmd, d, false)
	}}
}

func (c *call) startCommand() *cobra.Command {
	return &cobra.Command{Use: "start NAME", Short: "verify, then start a session", Args: cobra.MaximumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		if err := c.who.mustBePerson("start a session"); err != nil {
			return err
		}
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		if sess := c.s.space(d.Name).live(); sess != nil {
			return refused("`perdure attach "+d.Name+"` shows it", "%s has a live session already", d.Name)
		}
		rep, err := c.s.verifyFull(d.Name).wait(cmd.Context())
		if err != nil {
			return err
		}
		sess, err := c.s.startSession(cmd.Context(), d, startOptions{env: c.r.Env, verdict: rep.Verdict})
		if err != nil {
			return err
		}
		if c.json {
			return c.print(map[string]any{"session": sess.ID, "pid": sess.Pid, "verdict": rep.Verdict})
		}
		_, err = fmt.Fprintf(c.out, "started %s: pid %d, verdict %s\n", d.Name, sess.Pid, rep.Verdict)
		return err
	}}
}

func (c *call) stopCommand() *cobra.Command {
	var signal string
	cmd := &cobra.Command{Use: "stop NAME [--signal S]", Short: "end the session", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVar(&signal, "signal", "HUP", "the signal to begin with; KILL follows after a grace of 5 s")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		if c.who.agentOf != "" {
			return c.who.mustBePerson("stop a session")
		}
		signal = strings.TrimPrefix(strings.ToUpper(signal), "SIG")
		switch signal {
		case "HUP", "INT", "TERM", "KILL", "QUIT", "USR1", "USR2":
		default:
			return usage("HUP, INT, QUIT, TERM, KILL, USR1 and USR2 are known", "no signal %s", quoteName(signal))
		}
		if c.s.space(d.Name).live() == nil {
			return refused("", "%s has no live session", d.Name)
		}
		if err := c.s.stopSession(cmd.Context(), d.Name, signal); err != nil {
			return err
		}
		if c.json {
			return c.print(map[string]any{"stopped": d.Name})
		}
		_, err = fmt.Fprintf(c.out, "stopped %s\n", d.Name)
		return err
	}
	return cmd
}

func (c *call) peekCommand() *cobra.Command {
	return &cobra.Command{Use: "peek NAME", Short: "the current screen as text", Args: cobra.MaximumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		sess := c.s.space(d.Name).newest()
		if sess == nil {
			return missing("`perdure start "+d.Name+"` starts one", "%s had no session yet", d.Name)
		}
		v, err := view(cmd.Context(), sess)
		if err != nil {
			return err
		}
		if c.json {
			return c.print(v)
		}
		_, err = fmt.Fprintln(c.out, strings.TrimRight(strings.Join(v.Rows, "\n"), "\n "))
		return err
	}}
}

type logOptions struct {
	raw, text, cast bool
	from            uint64
	session         string
}

func (c *call) logCommand() *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{Use: "log NAME [--text|--raw|--cast] [--from OFFSET] [--session ID]", Short: "what the session printed", Args: cobra.MaximumNArgs(1)}
	f := cmd.Flags()
	f.BoolVar(&o.text, "text", false, "clean text (the default)")
	f.BoolVar(&o.raw, "raw", false, "the bytes")
	f.BoolVar(&o.cast, "cast", false, "asciicast v2")
	f.Uint64Var(&o.from, "from", 0, "from this offset on")
	f.StringVar(&o.session, "session", "", "another session than the newest: its id or its beginning")
	cmd.MarkFlagsMutuallyExclusive("text", "raw", "cast")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		sess, err := c.s.findSession(d.Name, o.session)
		if err != nil {
			return err
		}
		return c.log(sess, o)
	}
	return cmd
}

// findSession is the newest session, or the one whose id begins so.
func (s *Server) findSession(name, id string) (*workspace.Session, error) {
	if id == "" {
		if sess := s.space(name).newest(); sess != nil {
			return sess, nil
		}
		return nil, missing("`perdure start "+name+"` starts one", "%s had no session yet", name)
	}
	entries, err := os.ReadDir(filepath.Join(s.workspaceDir(name), "sessions"))
	if err != nil {
		return nil, missing("`perdure start "+name+"` starts one", "%s had no session yet", name)
	}
	var found []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), strings.ToUpper(id)) {
			found = append(found, e.Name())
		}
	}
	switch len(found) {
	case 0:
		return nil, missing("", "%s had no session %s", name, quoteName(id))
	case 1:
		return workspace.Load(filepath.Join(s.workspaceDir(name), "sessions", found[0]))
	}
	return nil, usage("", "%s had %d sessions that begin with %s", name, len(found), quoteName(id))
}

func (c *call) log(sess *workspace.Session, o logOptions) error {
	r, err := journal.OpenReader(filepath.Join(sess.Dir, "journal"))
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	defer r.Close()
	start, end := r.Bounds()
	if o.from > end {
		return usage("", "the journal ends at %d", end)
	}
	if o.from < start {
		fmt.Fprintf(c.errOut, "perdure: the journal begins at %d: %d older bytes were trimmed\n", start, start-o.from)
		o.from = start
	}
	if c.json {
		return c.print(map[string]any{"session": sess.ID, "start": start, "end": end})
	}
	if o.cast {
		return c.cast(sess, r, o.from)
	}
	if o.raw {
		return r.Chunks(o.from, func(_ uint64, _ time.Time, data []byte) error {
			_, err := c.r.Out.Write(data)
			return err
		})
	}
	text := screen.NewStripper(c.out)
	err = r.Chunks(o.from, func(_ uint64, _ time.Time, data []byte) error {
		_, err := text.Write(data)
		return err
	})
	return errors.Join(err, text.Close())
}

func (c *call) briefCommand() *cobra.Command {
	return &cobra.Command{Use: "brief NAME", Short: "what a fresh session is told", Args: cobra.MaximumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		text, err := c.s.brief(cmd.Context(), d)
		if err != nil {
			return err
		}
		if c.json {
			return c.print(map[string]string{"brief": text})
		}
		_, err = fmt.Fprint(c.out, escapeText(text))
		return err
	}}
}
