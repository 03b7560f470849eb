package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"perdure/client"
)

// paged runs fn with its standard output shown by a pager, if that is a terminal. less shows control characters by
// name, so that what a file holds can't steer the terminal.
func (a *app) paged(ctx context.Context, fn func() error) error {
	words := pager()
	if len(words) == 0 || !client.Terminal(a.stdout, a.stdout) {
		return fn()
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the pager: %w", err)
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, a.stdout, a.stderr
	if err := cmd.Start(); err != nil {
		r.Close()
		w.Close()
		return fn()
	}
	r.Close()
	terminal := a.stdout
	a.stdout = w
	err = fn()
	w.Close()
	a.stdout = terminal
	_ = cmd.Wait() // how the person left the pager is not how the command ended
	return err
}

// pager is the person's, as a shell would run it, or less: it leaves short texts on the screen.
func pager() []string {
	for _, name := range []string{"PERDURE_PAGER", "PAGER"} {
		if p, set := os.LookupEnv(name); set {
			if p == "" || p == "cat" {
				return nil
			}
			return []string{"sh", "-c", p}
		}
	}
	if less, err := exec.LookPath("less"); err == nil {
		return []string{less, "-FX"}
	}
	return nil
}
