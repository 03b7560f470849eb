package main

import (
	"slices"

	"github.com/spf13/cobra"
)

// helpCommand prints help. A remote command's is the server's, like its flags.
func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 1 && args[0] == "handoff" && !slices.Contains(handoffWords, args[1]) {
				return usageError("unknown command %q", "handoff "+args[1])
			}
			if len(args) > 0 && isRemote(args[0]) {
				return a.remote(c.Context(), append(args, "--help"), false, false)
			}
			target, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError("unknown command %q", args[0])
			}
			target.InitDefaultHelpFlag()
			return target.Help()
		},
	}
}
