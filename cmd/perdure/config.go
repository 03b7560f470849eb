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

// configuration is what is in force here. The names are a promise.
type configuration struct {
	State          value `json:"state"`
	Listen         value `json:"listen"`
	AuthorizedKeys value `json:"authorized_keys"`
	Socket         value `json:"socket"`
	SSH            value `json:"ssh"`
}

func (a *app) configCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:     "config",
		Short:   "Show the effective configuration, and where each value came from",
		GroupID: groupHere, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if err := a.notRemote("config"); err != nil {
				return err
			}
			conf, err := a.configuration(f)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.stdout, conf)
			}
			return conf.write(a.stdout)
		},
	}
	f.register(c)
	return c
}

func (a *app) configuration(f serveFlags) (conf configuration, err error) {
	if conf.State, err = a.stateValue(); err != nil {
		return conf, err
	}
	if conf.Listen, conf.AuthorizedKeys, err = f.values(); err != nil {
		return conf, err
	}
	socket, err := a.socket()
	if err != nil {
		return conf, err
	}
	conf.Socket = value{socket, "the state folder"}
	if socket == os.Getenv("PERDURE_SOCKET") {
		conf.Socket.Source = "PERDURE_SOCKET"
	}
	conf.SSH = value{"ssh", "default"}
	if s := os.Getenv("PERDURE_SSH"); s != "" {
		conf.SSH = value{s, "PERDURE_SSH"}
	}
	return conf, nil
}

func (c configuration) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range []struct {
		name string
		v    value
	}{{"state", c.State}, {"listen", c.Listen}, {"authorized_keys", c.AuthorizedKeys}, {"socket", c.Socket}, {"ssh", c.SSH}} {
		text := fmt.Sprint(row.v.Value)
		if list, ok := row.v.Value.([]string); ok {
			text = strings.Join(list, " ")
		}
		fmt.Fprintf(tw, "%s\t%s\t(%s)\n", row.name, printable(text), row.v.Source)
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
