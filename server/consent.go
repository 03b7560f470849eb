package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"perdure/handoff"
	"perdure/workspace"
)

// consent is a person's word on one command, kept in the ledger under the command's hash: another command needs
// another word.
type consent struct {
	Cmd     string    `json:"cmd"`
	Allowed bool      `json:"allowed"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
}

// runnable is a command that perdure would run for a workspace, and whether it may.
type runnable struct {
	Hash    string `json:"hash"`
	Kind    string `json:"kind"` // check, needs, setup, done_when or delivered
	Label   string `json:"label,omitempty"`
	Cmd     string `json:"cmd"`
	Allowed bool   `json:"allowed"`
}

// commandHash names a command: its SHA-256 in hex.
func commandHash(cmd string) string {
	sum := sha256.Sum256([]byte(cmd))
	return hex.EncodeToString(sum[:])
}

// shownHash is as much of a hash as a person has to write.
const shownHash = 12

// consents are a workspace's, by hash: read once from the ledger, then kept up by putConsent. Those of an earlier
// workspace of the name don't count.
func (s *Server) consents(ctx context.Context, d workspace.Definition) (map[string]consent, error) {
	sp := s.space(d.Name)
	sp.mu.Lock()
	known := maps.Clone(sp.consents)
	sp.mu.Unlock()
	if known != nil {
		return known, nil
	}
	out := map[string]consent{}
	err := s.snaps.EntriesOf(ctx, d.Name, func(kind, key string, data []byte) error {
		if kind != kindConsent {
			return nil
		}
		var c consent
		if err := json.Unmarshal(data, &c); err != nil || commandHash(c.Cmd) != key || c.At.Before(d.Created) {
			return nil // no word at all is what a damaged one is worth
		}
		out[key] = c
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the consents of %s: %w", d.Name, err)
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.consents == nil {
		sp.consents = maps.Clone(out)
	}
	return out, nil
}

// commands lists what would be run for a workspace. Its checks, needs and setup were a person's own words at `new` and
// `set`, and stay allowed until revoked; a done_when that an agent recorded needs a person's word.
func (s *Server) commands(ctx context.Context, d workspace.Definition) ([]runnable, error) {
	known, err := s.consents(ctx, d)
	if err != nil {
		return nil, err
	}
	var out []runnable
	own := map[string]bool{}
	add := func(kind, label, cmd string, allowed bool) {
		if cmd == "" {
			return
		}
		hash := commandHash(cmd)
		if word, ok := known[hash]; ok {
			allowed = word.Allowed
		}
		out = append(out, runnable{hash[:shownHash], kind, label, cmd, allowed})
	}
	for _, c := range d.Checks {
		own[c.Cmd] = true
		add("check", c.Label, c.Cmd, true)
	}
	add("needs", "", d.Needs, true)
	add("setup", "", d.Setup, true)
	if r, _, err := s.inForce(d.Name); err == nil && r != nil {
		for _, c := range r.Measured.Checks { // of a record that was made with other checks, or delivered
			if !own[c.Cmd] {
				add("check", c.Label, c.Cmd, r.Workspace == d.Name)
			}
		}
		if r.Claim != nil && r.Claim.Next != nil {
			add("done_when", "", r.Claim.Next.DoneWhen, r.Author == handoff.AuthorPerson || own[r.Claim.Next.DoneWhen])
		}
	}
	for _, x := range s.waiting(d) { // a delivered command is a stranger's
		r, err := handoff.Decode(x.Encoded)
		if err != nil {
			continue
		}
		for _, c := range r.Measured.Checks {
			if !own[c.Cmd] {
				own[c.Cmd] = true
				add("delivered", c.Label, c.Cmd, false)
			}
		}
	}
	return out, nil
}

// allowed sorts a workspace's commands for the verifier: why checks may not run, and whether the others may.
type allowed struct {
	refused  map[string]string // by command
	needs    string            // the command, "" if there is none or it may not run
	setup    string
	doneWhen bool
}

func (s *Server) allowedCommands(ctx context.Context, d workspace.Definition) (allowed, error) {
	list, err := s.commands(ctx, d)
	a := allowed{refused: map[string]string{}}
	for _, c := range list {
		switch {
		case c.Kind == "check" && !c.Allowed:
			a.refused[c.Cmd] = fmt.Sprintf("a person allows it with `perdure consent %s --allow %s`", d.Name, c.Hash)
		case c.Kind == "needs" && c.Allowed:
			a.needs = c.Cmd
		case c.Kind == "setup" && c.Allowed:
			a.setup = c.Cmd
		case c.Kind == "done_when":
			a.doneWhen = c.Allowed
		}
	}
	return a, err
}

func (c *call) consentCommand() *cobra.Command {
	var allow, revoke string
	cmd := &cobra.Command{Use: "consent NAME [--allow HASH | --revoke HASH]", Short: "what perdure may run for a workspace, each command by its hash", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVar(&allow, "allow", "", "let the command of this hash run")
	cmd.Flags().StringVar(&revoke, "revoke", "", "let it not run any more")
	cmd.MarkFlagsMutuallyExclusive("allow", "revoke")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := c.workspace(args)
		if err != nil {
			return err
		}
		list, err := c.s.commands(cmd.Context(), d)
		if err != nil {
			return err
		}
		if hash := allow + revoke; cmd.Flags().Changed("allow") || cmd.Flags().Changed("revoke") {
			return c.decide(cmd.Context(), d, list, hash, allow != "")
		}
		if c.json {
			return c.print(some(list))
		}
		t := tabwriter.NewWriter(c.out, 2, 8, 2, ' ', 0)
		for _, x := range list {
			word := "needs consent"
			if x.Allowed {
				word = "allowed"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", x.Hash, word, x.Kind, x.Label, handoff.Escape(x.Cmd))
		}
		return t.Flush()
	}
	return cmd
}

// decide keeps a person's word on one of the commands.
func (c *call) decide(ctx context.Context, d workspace.Definition, list []runnable, hash string, allow bool) error {
	if err := c.who.mustBePerson("consent to commands"); err != nil {
		return err
	}
	var found []runnable
	for _, x := range list {
		full := commandHash(x.Cmd)
		if len(hash) >= 6 && strings.HasPrefix(full, strings.ToLower(hash)) && (len(found) == 0 || found[0].Cmd != x.Cmd) {
			found = append(found, x)
		}
	}
	switch {
	case len(found) == 0:
		return missing(fmt.Sprintf("`perdure consent %s` lists them", d.Name), "no command has the hash %s", quoteName(hash))
	case len(found) > 1:
		return usage("write more of it", "%d commands have a hash that begins with %s", len(found), quoteName(hash))
	}
	x := found[0]
	if err := c.s.putConsent(ctx, d.Name, consent{x.Cmd, allow, time.Now().UTC(), c.who.name}); err != nil {
		return err
	}
	kind := map[bool]string{true: "allowed", false: "revoked"}[allow]
	c.s.event(d.Name, "consent", map[string]any{"cmd": x.Cmd, "allowed": allow, "by": c.who.name})
	x.Allowed = allow
	if c.json {
		return c.print(x)
	}
	_, err := fmt.Fprintf(c.out, "%s: %s\n", kind, handoff.Escape(x.Cmd))
	return err
}

func (s *Server) putConsent(ctx context.Context, name string, w consent) error {
	data, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("encode the consent: %w", err)
	}
	if err := s.snaps.Put(ctx, name, kindConsent, commandHash(w.Cmd), data); err != nil {
		return fmt.Errorf("keep the consent: %w", err)
	}
	sp := s.space(name)
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.consents != nil {
		sp.consents[commandHash(w.Cmd)] = w
	}
	return nil
}

// consentTo keeps that a person wrote these commands themself: one that was revoked is allowed anew.
func (s *Server) consentTo(ctx context.Context, d workspace.Definition, by string) error {
	known, err := s.consents(ctx, d)
	if err != nil {
		return err
	}
	commands := []string{d.Needs, d.Setup}
	for _, c := range d.Checks {
		commands = append(commands, c.Cmd)
	}
	for _, cmd := range commands {
		if cmd == "" || known[commandHash(cmd)].Allowed {
			continue
		}
		if err := s.putConsent(ctx, d.Name, consent{cmd, true, time.Now().UTC(), by}); err != nil {
			return err
		}
	}
	return nil
}

// unconsented is a done_when or check that waits for a person's word, "" without one.
func (s *Server) unconsented(ctx context.Context, d workspace.Definition) string {
	list, err := s.commands(ctx, d)
	if err != nil {
		return ""
	}
	for _, c := range list {
		if !c.Allowed {
			return fmt.Sprintf("%s: %s", c.Kind, c.Cmd)
		}
	}
	return ""
}
