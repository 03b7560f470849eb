package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// remoteSpec is a command that the server implements; its flags and its help are the server's.
type remoteSpec struct{ name, use, short, group string }

var remoteSpecs = []remoteSpec{
	{"new", "new NAME [flags] [-- CMD ARG...]", "Create a workspace", groupWork},
	{"set", "set NAME [flags]", "Change a workspace", groupWork},
	{"rm", "rm NAME [--purge]", "Remove a workspace; its directory stays", groupWork},
	{"ls", "ls [--needs]", "List workspaces, what needs you first", groupWork},
	{"show", "show NAME", "Show everything about one workspace", groupWork},
	{"start", "start NAME", "Verify, then start a session", groupWork},
	{"stop", "stop NAME [--signal S]", "End the session", groupWork},
	{"peek", "peek NAME", "Print the session's current screen", groupWork},
	{"send", "send NAME [--enter] TEXT", "Type into the session", groupWork},
	{"wait", "wait NAME --for idle|exit|waiting|text=RE [--timeout D]", "Block until the session gets there", groupWork},
	{"log", "log NAME [flags]", "Print what the session has printed", groupWork},
	{"events", "events [NAME] [--follow]", "Print what happened", groupWork},
	{"snapshot", "snapshot NAME [-m T]", "Take a snapshot now", groupKeep},
	{"snapshots", "snapshots NAME [--path F]", "List snapshots, newest first", groupKeep},
	{"diff", "diff NAME [SNAP [SNAP]]", "Compare snapshots, or one with the tree", groupKeep},
	{"cat", "cat NAME SNAP PATH", "Print a file from a snapshot", groupKeep},
	{"restore", "restore NAME SNAP [flags]", "Bring back files from a snapshot", groupKeep},
	{"usage", "usage [NAME]", "Show what takes which space", groupKeep},
	{"prune", "prune [--dry-run]", "Apply the keeping policy now", groupKeep},
	{"export", "export NAME --to DIR", "Write everything in open forms, for leaving", groupKeep},
	{"handoff", "handoff record|show|log|export|verify|repair|override NAME", "Record, verify and repair handoffs", groupKeep},
	{"consent", "consent NAME [--allow HASH|--revoke HASH]", "Show and decide what may be run for a workspace", groupKeep},
	{"deliver", "deliver TO [--from NAME] [-m T]", "Send the record in force to another workspace", groupKeep},
	{"inbox", "inbox [NAME]", "List deliveries, and what became of them", groupKeep},
	{"accept", "accept ID [--merge]", "Verify a delivery, and merge it if it holds", groupKeep},
	{"reject", "reject ID --because T", "Turn a delivery down", groupKeep},
	{"brief", "brief NAME", "Print what a fresh session is told", groupKeep},
}

// remoteCommands are thin wrappers: every word goes to the server as it stands.
func (a *app) remoteCommands() []*cobra.Command {
	var out []*cobra.Command
	for _, s := range remoteSpecs {
		out = append(out, &cobra.Command{
			Use: s.use, Short: s.short, GroupID: s.group, DisableFlagParsing: true,
			RunE:              func(c *cobra.Command, args []string) error { return a.runRemote(c, s.name, args) },
			ValidArgsFunction: a.completeNames,
		})
	}
	return out
}

func isRemote(name string) bool {
	return slices.ContainsFunc(remoteSpecs, func(s remoteSpec) bool { return s.name == name })
}

// runRemote carries a command to the server. The global flags that concern the way there are taken out
// wherever they stand; --json is the server's business and goes along.
func (a *app) runRemote(c *cobra.Command, name string, args []string) error {
	before, after := splitDashes(args)
	said := slices.Contains(before, "--json")
	a.json = a.json || said // also for what is wrong with the rest
	before, err := a.takeGlobals(before)
	if err != nil {
		return err
	}
	if a.json && !said {
		before = append(before, "--json")
	}
	if a.verbose && name == "handoff" && (slices.Contains(before, "verify") || len(before) > 0 && before[0] == "log") {
		before = append(before, "-v") // the commands that have more to say
	}
	words := append(append([]string{name}, before...), after...)
	run := func() error { return a.remote(c.Context(), words, false, readsInput(before)) }
	if name == "diff" && !a.json {
		return a.paged(c.Context(), run)
	}
	return run()
}

// takeGlobals takes --state and --on with their values out of a command's words.
func (a *app) takeGlobals(args []string) ([]string, error) {
	var rest []string
	for i := 0; i < len(args); i++ {
		flag, val, has := strings.Cut(args[i], "=")
		var to *string
		switch flag {
		case "--state":
			to = &a.state
		case "--on":
			to = &a.on
		default:
			rest = append(rest, args[i])
			continue
		}
		if !has {
			if i++; i == len(args) {
				return nil, usageError("flag needs an argument: %s", flag)
			}
			val = args[i]
		}
		if val == "" {
			return nil, emptyGlobal(flag)
		}
		*to = val
	}
	return rest, nil
}

// emptyGlobal refuses --state and --on without a value: as good as leaving them out, it would be done to the wrong
// server where a variable in a script isn't set.
func emptyGlobal(flag string) error {
	return &problem{status: statusUsage, code: "usage", err: fmt.Errorf("%s is empty", flag), hint: "leave it out for this machine's own"}
}

// readsInput says whether a command reads standard input, which is when a word says so by "-". No other may:
// it would eat the input of a loop it is called in.
func readsInput(args []string) bool {
	return slices.ContainsFunc(args, func(w string) bool {
		return w == "-" || (strings.HasPrefix(w, "--") && strings.HasSuffix(w, "=-"))
	})
}

// splitDashes splits words before the first "--", after which all belong to another command.
func splitDashes(args []string) (before, after []string) {
	i := slices.Index(args, "--")
	if i < 0 {
		i = len(args)
	}
	return slices.Clone(args[:i]), args[i:]
}

func beforeDashes(args []string) []string {
	before, _ := splitDashes(args)
	return before
}
