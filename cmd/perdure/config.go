package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func (a *app) configCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "config",
		Short: "Show the effective configuration, and where each value came from",
		Long: `Config shows what is in force for this user: the state folder, the socket, and each name that the configuration file
may set, with its value and whether that is the default, the file's, a flag's or the environment's.

The file is TOML, at $PERDURE_CONFIG or ~/.config/perdure/config.toml; a name with a dot is in the table before it:

    listen = ["127.0.0.1:2222"]
    [checks]
    parallel = 4

A running server reads it again on SIGHUP; only listen and metrics wait for the next start.`,
		GroupID: groupHere, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if err := a.notRemote("config"); err != nil {
				return err
			}
			rows, err := a.configuration(f)
			if err != nil {
				return err
			}
			if a.json {
				all := make(map[string]value, len(rows))
				for _, r := range rows {
					all[r.name] = r.value
				}
				return writeJSON(a.stdout, all)
			}
			return writeRows(a.stdout, rows)
		},
	}
	f.register(c)
	return c
}

func (a *app) configuration(f serveFlags) ([]row, error) {
	state, err := a.stateValue()
	if err != nil {
		return nil, err
	}
	path, err := a.socket()
	if err != nil {
		return nil, err
	}
	socket := value{path, "the state folder"}
	if path == os.Getenv("PERDURE_SOCKET") {
		socket.Source = "PERDURE_SOCKET"
	}
	c, rows, err := f.settings()
	if err != nil {
		return nil, err
	}
	file := value{c.path, "default"}
	switch {
	case f.config != "":
		file.Source = "--config"
	case os.Getenv("PERDURE_CONFIG") != "":
		file.Source = "PERDURE_CONFIG"
	}
	for i, r := range rows {
		env := map[string]string{"ssh": "PERDURE_SSH", "on": "PERDURE_ON"}[r.name]
		if s := os.Getenv(env); env != "" && s != "" {
			rows[i].value = value{s, env}
		} else if r.name == "ssh" && r.Value == "" {
			rows[i].Value = "ssh"
		}
	}
	return append([]row{{"state", state}, {"socket", socket}, {"config", file}}, rows...), nil
}

func writeRows(w io.Writer, rows []row) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		text := fmt.Sprint(r.Value)
		if list, ok := r.Value.([]string); ok {
			text = strings.Join(list, " ")
		}
		if text == "" {
			text = "-"
		}
		fmt.Fprintf(tw, "%s\t%s\t(%s)\n", r.name, printable(text), r.Source)
	}
	return tw.Flush()
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
