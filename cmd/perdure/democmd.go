package main

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "demo",
		Short:   "Show the whole story on a throwaway repository",
		Long:    "Demo runs a server, a workspace and a real break on a repository that it makes and removes again.",
		GroupID: groupHere, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.notRemote("demo"); err != nil {
				return err
			}
			// An interrupt ends the demo by its own way out, which removes what it made.
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return runDemo(ctx, a.stdout)
		},
	}
}
