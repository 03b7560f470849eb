package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perdure/client"
)

// completeTime bounds what a press of the tab key may wait for the server.
const completeTime = 2 * time.Second

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a completion script for a shell",
		Long: `Completion prints a script that completes commands, flags and workspace names. For bash:

  source <(perdure completion bash)`,
		GroupID: groupHere, Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs), ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				if _, err := a.stdout.WriteString(bashWords); err != nil {
					return fmt.Errorf("print: %w", err)
				}
				return c.Root().GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return c.Root().GenZshCompletion(a.stdout)
			}
			return c.Root().GenFishCompletion(a.stdout, true)
		},
	}
}

// bashWords stands in for the one function of the bash-completion package that the script needs, where that isn't
// installed: the words of the line, and the one that is being typed.
const bashWords = `if ! declare -F _get_comp_words_by_ref >/dev/null; then
    _get_comp_words_by_ref() {
        words=("${COMP_WORDS[@]}")
        cword=$COMP_CWORD
        cur=${COMP_WORDS[COMP_CWORD]}
        prev=${COMP_WORDS[COMP_CWORD-1]}
    }
fi
`

// completeNames completes the first word after a command with the server's workspaces; without a server there
// is nothing to complete, and no reason to complain in the middle of a line.
func (a *app) completeNames(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	place := 0
	if c.Name() == "handoff" {
		place = 1
		if len(args) == 0 {
			return beginning(handoffWords, begun), cobra.ShellCompDirectiveNoFileComp
		}
	}
	if len(args) != place {
		return nil, cobra.ShellCompDirectiveDefault
	}
	if strings.HasPrefix(begun, "-") || c.Name() == "new" { // a flag, or a name that isn't there yet
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return beginning(a.names(c.Context()), begun), cobra.ShellCompDirectiveNoFileComp
}

// handoffWords are the commands below handoff.
var handoffWords = []string{"record", "show", "log", "export", "verify", "repair", "override"}

func beginning(words []string, begun string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, begun) })
}

func (a *app) names(ctx context.Context) []string {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	var out bytes.Buffer
	command, err := a.ssh()
	if err != nil {
		return nil
	}
	o := client.Options{Host: a.on, SSH: command.Value.(string), Args: []string{"ls", "--json"}, Stdout: &out}
	if o.Host == "" {
		if o.Socket, err = a.socket(); err != nil {
			return nil
		}
	}
	if status, err := client.Run(ctx, o); err != nil || status != 0 {
		return nil
	}
	var list []struct {
		Name string `json:"name"`
		Goal string `json:"goal"`
	}
	if json.Unmarshal(out.Bytes(), &list) != nil {
		return nil
	}
	var names []string
	for _, w := range list {
		if w.Goal != "" {
			names = append(names, w.Name+"\t"+printable(w.Goal))
			continue
		}
		names = append(names, w.Name)
	}
	return names
}
