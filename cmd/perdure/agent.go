package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"perdure/workspace/agent"
)

func (a *app) agentCommand() *cobra.Command {
	c := &cobra.Command{Use: "agent list|install PRESET", Short: "List the agents' presets, or wire one into a project", GroupID: groupHere,
		Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "List the presets", Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions, RunE: func(*cobra.Command, []string) error { return a.agentList() }},
		&cobra.Command{Use: "install PRESET", Short: "Wire an agent's hooks and MCP into the project in this folder",
			Long: `Install merges perdure's hooks and its MCP server into the agent's own settings of the project in this folder,
and shows what it writes. A session that perdure starts with --agent needs none of it.`,
			Args: cobra.ExactArgs(1), ValidArgsFunction: installable, RunE: func(_ *cobra.Command, args []string) error { return a.agentInstall(args[0]) }})
	return c
}

// installable completes the presets that keep settings in a project.
func installable(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	all, err := presets()
	if err == nil && len(args) == 0 {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if len(all[name].Install) > 0 {
				names = append(names, name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// agentEntry is one preset, as `agent list --json` promises it.
type agentEntry struct {
	Name    string `json:"name"`
	About   string `json:"about"`
	Program string `json:"program"` // where it is on this machine; empty if it isn't
	Resumes bool   `json:"resumes"`
	Hooks   bool   `json:"hooks"`
}

// presets are the built-in ones and those of the configuration.
func presets() (map[string]agent.Preset, error) {
	c, err := readSettings("")
	if err != nil {
		return nil, err
	}
	return agent.With(c.Agents)
}

func (a *app) agentList() error {
	if err := a.notRemote("agent list"); err != nil {
		return err
	}
	all, err := presets()
	if err != nil {
		return err
	}
	var out []agentEntry
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		e := agentEntry{Name: name, About: p.About, Resumes: len(p.Resume) > 0, Hooks: len(p.Hooks) > 0}
		program := os.Getenv("SHELL")
		if !p.Shell() {
			program = p.Start[0]
		}
		if found, err := exec.LookPath(program); err == nil {
			e.Program = found
		}
		out = append(out, e)
	}
	if a.json {
		return writeJSON(a.stdout, out)
	}
	tw := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "NAME\tAGENT\tRESUMES\tHOOKS\tPROGRAM")
	for _, e := range out {
		where := e.Program
		if where == "" {
			where = "not installed"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", e.Name, e.About, yesNo(e.Resumes), yesNo(e.Hooks), printable(where))
	}
	return tw.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// agentInstall merges a preset's files into the project's own. Doing it again changes nothing.
func (a *app) agentInstall(name string) error {
	if err := a.notRemote("agent install"); err != nil {
		return err
	}
	all, err := presets()
	if err != nil {
		return err
	}
	p, ok := all[name]
	if !ok {
		return &problem{status: statusMissing, code: "not-found", err: fmt.Errorf("no agent %q", name), hint: "`perdure agent list` names them"}
	}
	if len(p.Install) == 0 {
		return &problem{status: statusRefused, code: "refused", err: fmt.Errorf("%s keeps no settings in a project that perdure could merge into", name),
			hint: "`perdure new NAME --agent " + name + "` wires it in at each start"}
	}
	for _, file := range slices.Sorted(maps.Keys(p.Install)) {
		text := agent.Vars{Perdure: "perdure", Preset: name}.Text(file, p.Files[file])
		if err := a.mergeInto(filepath.FromSlash(p.Install[file]), []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) mergeInto(path string, text []byte) error {
	var ours map[string]any
	if err := json.Unmarshal(text, &ours); err != nil {
		return fmt.Errorf("the preset's settings: %w", err)
	}
	theirs := map[string]any{}
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("read the project's settings: %w", err)
	default:
		if err := json.Unmarshal(old, &theirs); err != nil {
			return &problem{status: statusRefused, code: "refused", err: fmt.Errorf("%s is no JSON object: %w", path, err), hint: "mend it, and install again"}
		}
	}
	if !merge(theirs, ours) {
		fmt.Fprintf(a.stdout, "%s: has it already\n", path)
		return nil
	}
	out, err := json.MarshalIndent(theirs, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the project's settings: %w", err)
	}
	tmp := path + ".perdure-tmp"
	if err := os.WriteFile(tmp, append(out, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the project's settings: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write the project's settings: %w", err)
	}
	fmt.Fprintf(a.stdout, "%s: wrote\n%s\n", path, out)
	return nil
}

// merge adds to one object what another has more: objects key by key, lists by the entries that aren't there. What is
// there already stands. It says whether anything was added.
func merge(to, from map[string]any) (changed bool) {
	for k, v := range from {
		old, ok := to[k]
		if !ok {
			to[k], changed = v, true
			continue
		}
		switch v := v.(type) {
		case map[string]any:
			if m, ok := old.(map[string]any); ok {
				changed = merge(m, v) || changed
			}
		case []any:
			list, ok := old.([]any)
			for _, e := range v {
				if ok && !slices.ContainsFunc(list, func(x any) bool { return reflect.DeepEqual(x, e) }) {
					list, changed = append(list, e), true
				}
			}
			if ok {
				to[k] = list
			}
		}
	}
	return changed
}
