package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// hookTimeout is what a hook may keep an agent waiting at the most; at a session's end, agents wait far less.
const (
	hookTimeout    = 12 * time.Second
	hookEndTimeout = 1200 * time.Millisecond
)

// hookCommand is what agents' hooks call. Whatever fails, it exits with 0: an agent must not stop because perdure's
// server is down. With -v it says what failed.
func (a *app) hookCommand() *cobra.Command {
	return &cobra.Command{
		Use: "hook PRESET EVENT [JSON]", Short: "What agents' hooks call", Hidden: true, Args: cobra.RangeArgs(2, 3), GroupID: groupHere,
		RunE: func(c *cobra.Command, args []string) error {
			limit := hookTimeout
			if args[1] == "SessionEnd" {
				limit = hookEndTimeout
			}
			ctx, cancel := context.WithTimeout(c.Context(), limit)
			defer cancel()
			words := append([]string{"hook"}, args...)
			if len(args) == 2 {
				words = append(words, "-")
			}
			said := a.stderr
			if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil && !a.verbose {
				defer null.Close()
				a.stderr = null
			}
			err := a.remote(ctx, words, false, len(args) == 2)
			if a.status = 0; err != nil && a.verbose {
				fmt.Fprintf(said, "perdure: %v\n", err)
			}
			return nil
		},
	}
}
