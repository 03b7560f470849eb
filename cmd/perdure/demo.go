package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Play the whole story on a throwaway repository",
		Long: `Demo plays the whole story in a minute or two, with real processes and real breaks: an agent at work on a
throwaway repository, reached by ssh through a server of its own; its connection cut and its session killed; the work
verified and continued; then a handoff that isn't true, which is caught, stops the work and is repaired. Each step shows
what was run and what it printed, and is checked: the first that isn't as told ends the demo with status 1.

It needs go, git and ssh. It touches neither your server nor your home, and leaves nothing behind.`,
		GroupID: groupHere, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.notRemote("demo"); err != nil {
				return err
			}
			// An interrupt ends the demo by its own way out, which removes what it made; so does a reader who left.
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
			defer stop()
			return runDemo(ctx, newNarrator(a.stdout))
		},
	}
}

// demo is one telling of the story.
type demo struct {
	box  *demoBox
	tell *narrator
	term *demoTerminal // the ssh client that is attached now, if any
}

// chapter is one step of the story: what it is called, and how it is played and checked.
type chapter struct {
	title string
	play  func(*demo, context.Context) error
}

// runDemo plays every chapter. Whatever happens in them, the throwaway machine is gone when it returns.
func runDemo(ctx context.Context, tell *narrator) (err error) {
	if err := demoTools("go", "git", "ssh"); err != nil {
		return err
	}
	box, err := newDemoBox()
	if err != nil {
		return fmt.Errorf("demo: make a throwaway machine: %w", err)
	}
	d := &demo{box: box, tell: tell}
	closed := false
	tidy := func() error {
		if closed {
			return nil
		}
		closed = true
		if d.term != nil {
			d.term.kill()
		}
		return box.close()
	}
	defer func() { // a panic passes on, but leaves nothing behind either
		tell.settle()
		if tidyErr := tidy(); tidyErr != nil {
			err = errors.Join(err, fmt.Errorf("demo: tidy up: %w", tidyErr))
		}
	}()
	tell.begin(box.root)
	for i, ch := range story {
		tell.title(i+1, len(story)+1, ch.title)
		if err := ch.play(d, ctx); err != nil {
			return d.failed(ctx, i+1, ch.title, err)
		}
	}
	return d.ending(tidy)
}

// failed says which step wasn't as told.
func (d *demo) failed(ctx context.Context, step int, title string, err error) error {
	if ctx.Err() != nil {
		return &problem{status: statusFailed, code: "interrupted", err: fmt.Errorf("demo: interrupted in step %d; what it made is removed again", step)}
	}
	if log := d.box.serverLog(); log != "" {
		d.tell.say("What the server had to say:")
		d.tell.output(log, 20)
	}
	return &problem{status: statusFailed, code: "demo", err: fmt.Errorf("demo: step %d (%s) was not as told: %w", step, title, err),
		hint: "above is what was run and what it printed; everything that the demo made is removed again"}
}

// ending takes the machine down as the last step, and says so only once nothing is left.
func (d *demo) ending(tidy func() error) error {
	n := len(story) + 1
	d.tell.title(n, n, "Nothing is left")
	if err := tidy(); err != nil {
		return &problem{status: statusFailed, code: "demo", err: fmt.Errorf("demo: step %d: tidy up: %w", n, err)}
	}
	d.tell.say("The server is stopped, no process of the story is left, and %s is removed.", d.box.root)
	d.tell.end()
	return nil
}

// demoHints say where the programs come from that the story needs.
var demoHints = map[string]string{
	"go":  "install Go from https://go.dev/dl, and see that `go` is on the PATH",
	"git": "install git, and see that it is on the PATH",
	"ssh": "install OpenSSH's client, and see that `ssh` is on the PATH",
}

// demoTools looks for the programs before anything is started.
func demoTools(names ...string) error {
	var absent []string
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			absent = append(absent, name)
		}
	}
	if len(absent) == 0 {
		return nil
	}
	var hints []string
	for _, name := range absent {
		hints = append(hints, demoHints[name])
	}
	return &problem{status: statusFailed, code: "missing-program", err: fmt.Errorf("demo: %s: not found on the PATH %s", strings.Join(absent, ", "), os.Getenv("PATH")),
		hint: strings.Join(hints, "; ")}
}
