package main

import (
	"github.com/spf13/cobra"

	"perdure/client"
)

func (a *app) nextCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "next",
		Short:   "Attach to the workspace that has waited longest",
		GroupID: groupWork, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.remote(c.Context(), append([]string{"next"}, a.jsonFlag()...), client.Terminal(a.stdin, a.stdout), false)
		},
	}
}
