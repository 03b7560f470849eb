package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perdure/workspace"
	"perdure/workspace/journal"
	"perdure/workspace/screen"
)

// enterPause lies between a text and the Enter that sends it: agents take a burst for a paste, and the Enter in it for
// a line break.
const enterPause = 150 * time.Millisecond

func (c *call) sendCommand() *cobra.Command {
	var enter bool
	cmd := &cobra.Command{Use: "send NAME [--enter] TEXT", Short: "type into the session"}
	cmd.Flags().BoolVar(&enter, "enter", false, "press Enter after it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		switch {
		case len(args) == 2:
			names, args = args[:1], args[1:]
		case len(args) == 1 && (c.who.inside != "" || c.r.Local && c.r.Env["PERDURE_WORKSPACE"] != ""):
		default:
			return usage("`perdure send NAME [--enter] TEXT`, the text quoted as one word", "send takes a name and a text")
		}
		d, err := c.own(names)
		if err != nil {
			return err
		}
		sess := c.s.space(d.Name).live()
		if sess == nil {
			return refused("`perdure start "+d.Name+"` starts one", "%s has no live session", d.Name)
		}
		pieces := [][]byte{[]byte(args[0])}
		if enter {
			pieces = append(pieces, []byte("\r"))
		}
		if args[0] == "" {
			pieces = pieces[1:]
		}
		if err := sess.Send(cmd.Context(), enterPause, pieces...); err != nil {
			return fmt.Errorf("send to %s: %w", d.Name, err)
		}
		if c.json {
			return c.print(map[string]any{"sent": len(args[0]), "enter": enter})
		}
		return nil
	}
	return cmd
}

func (c *call) waitCommand() *cobra.Command {
	var until string
	var timeout time.Duration
	cmd := &cobra.Command{Use: "wait NAME --for idle|exit|waiting|text=RE [--timeout D]", Short: "block until the session gets there", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVar(&until, "for", "", "idle (it doesn't work any more), waiting (for a person), exit, or text=RE (a line that it shows)")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time (default: never)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		if timeout < 0 || cmd.Flags().Changed("timeout") && timeout == 0 {
			return usage("a duration is as 90s or 10m", "--timeout %s is no time to wait", timeout)
		}
		w := &waiter{s: c.s, sp: c.s.space(d.Name), until: until}
		if err := w.parse(); err != nil {
			return err
		}
		ctx := cmd.Context()
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		got, err := w.wait(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return &problem{statusFailed, "timeout", fmt.Errorf("%s did not get to %q within %s", d.Name, until, timeout), "`perdure peek " + d.Name + "` shows where it is"}
		}
		if err != nil {
			return err
		}
		if c.json {
			return c.print(got)
		}
		return nil
	}
	return cmd
}

// waiter waits for one session's state.
type waiter struct {
	s     *Server
	sp    *space
	until string
	re    *regexp.Regexp
	sess  *workspace.Session
	ended uint64 // how far the journal was looked at
	text  []byte // the line that it ended with
}

// waitPoll is how often a wait looks: states change with time too, and nobody is woken for that.
const waitPoll = 100 * time.Millisecond

// maxLine bounds how much of a line that was never ended is kept, in bytes.
const maxLine = 64 << 10

func (w *waiter) parse() (err error) {
	expr, isText := strings.CutPrefix(w.until, "text=")
	switch {
	case isText && expr != "":
		if w.re, err = regexp.Compile(expr); err != nil {
			return usage("it is a regular expression as Go has them (RE2)", "--for text=: %w", err)
		}
	case w.until == idle, w.until == waiting, w.until == "exit":
	default:
		return usage("idle, exit, waiting and text=RE are known", "--for %q is nothing to wait for", w.until)
	}
	if w.sess = w.sp.newest(); w.sess == nil {
		return refused("`perdure start "+w.sp.name+"` starts one", "%s had no session yet", w.sp.name)
	}
	return nil
}

// wait returns what it found, as JSON shows it.
func (w *waiter) wait(ctx context.Context) (map[string]any, error) {
	if st, err := w.sess.Status(ctx); err == nil {
		w.ended = st.End
		w.s.see(w.sp, w.sess, st)
	}
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for {
		got, err := w.look(ctx)
		if got != nil || err != nil {
			return got, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.s.ctx.Done():
			return nil, errors.New("the server ends; wait again")
		case <-tick.C:
		}
	}
}

func (w *waiter) look(ctx context.Context) (map[string]any, error) {
	over := w.over()
	if w.re != nil {
		if line, ok := w.shows(ctx); ok {
			return map[string]any{"text": line}, nil
		}
	}
	if over != nil {
		if w.until == "exit" {
			return endFields(over), nil
		}
		return nil, &problem{statusFailed, "ended", fmt.Errorf("the session of %s ended first", w.sp.name), ""}
	}
	if w.re != nil || w.until == "exit" {
		return nil, nil
	}
	now, ok := w.s.doing(w.sp, w.sess)
	if !ok || (w.until == waiting && now.activity != waiting) || now.activity == working {
		return nil, nil
	}
	return map[string]any{"activity": now.activity, "source": now.source, "attention": now.attention()}, nil
}

// over is the session once it is no longer live.
func (w *waiter) over() *workspace.Session {
	now := w.sp.newest()
	if now == nil || now.ID != w.sess.ID {
		return w.sess
	}
	if now.State != workspace.Live {
		return now
	}
	return nil
}

// shows finds the text on the screen, or in what was printed since the wait began.
func (w *waiter) shows(ctx context.Context) (string, bool) {
	if r, err := journal.OpenReader(filepath.Join(w.sess.Dir, "journal")); err == nil {
		defer r.Close()
		start, end := r.Bounds()
		if end > w.ended {
			_ = r.Chunks(max(start, w.ended), func(_ uint64, _ time.Time, data []byte) error { // what can't be read isn't found
				w.text = append(w.text, data...)
				return nil
			})
			w.ended = end
			if line, ok := w.match(strings.Split(screen.Strip(w.text), "\n")); ok {
				return line, true
			}
			w.forget()
		}
	}
	v, err := view(ctx, w.sess)
	if err != nil {
		return "", false
	}
	return w.match(v.Lines())
}

// forget drops the lines that were looked at; the last may go on.
func (w *waiter) forget() {
	if i := strings.LastIndexByte(string(w.text), '\n'); i >= 0 {
		w.text = append([]byte{}, w.text[i+1:]...)
	}
	if len(w.text) > maxLine {
		w.text = append([]byte{}, w.text[len(w.text)-maxLine:]...)
	}
}

func (w *waiter) match(lines []string) (string, bool) {
	for _, l := range lines {
		if w.re.MatchString(l) {
			return strings.TrimSpace(l), true
		}
	}
	return "", false
}
