package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/shlex"

	"perdure/handoff"
	"perdure/server/store"
	"perdure/workspace"
)

// commandUser is the SSH user whose execs are perdure commands.
const commandUser = "perdure"

// handle serves one verified session channel: the user names what it is about.
func (s *Server) handle(ctx context.Context, r *Request) Exit {
	if r.Term == nil && r.Err == nil {
		r.Err = r.Out
	}
	if err := r.Rights.check(r); err != nil {
		s.audit(r.User, "refused", map[string]any{"by": r.Peer, "what": program(r.Command), "why": err.Error()})
		return Exit{Status: report(err, false, r.Out, r.Err)}
	}
	if relayLine(r.Command) {
		return s.command(ctx, r) // from any user: USER is who `ssh` logs in as
	}
	if r.User != commandUser {
		d, err := s.store.Workspace(r.User)
		switch {
		case err == nil:
			return s.handleWorkspace(ctx, r, d)
		case !errors.Is(err, store.ErrNotFound):
			return Exit{Status: report(err, false, r.Out, r.Err)}
		}
	}
	if r.Command == "" {
		return s.pick(ctx, r)
	}
	if r.User != commandUser && r.User != s.login {
		err := missing(s.namesHint(), "no workspace %q", r.User)
		return Exit{Status: report(err, false, r.Out, r.Err)}
	}
	return s.command(ctx, r)
}

// relayLine says whether a command line is what `perdure connect` runs at the far end, whatever perdure's path there.
func relayLine(line string) bool {
	words, err := shlex.Split(line)
	return err == nil && len(words) >= 2 && len(words) <= 3 && filepath.Base(words[0]) == "perdure" && words[1] == "relay"
}

// handleWorkspace attaches, or runs a command in the workspace's directory.
func (s *Server) handleWorkspace(ctx context.Context, r *Request, d workspace.Definition) Exit {
	if r.Command == "" && r.Term != nil {
		return s.attach(ctx, r, d.Name, r.Rights.readOnly)
	}
	command := r.Command
	if command == "" {
		command = "exec " + quote(loginShell())
	}
	if !isDir(d.Dir) {
		err := fmt.Errorf("the directory %s of %s is gone", d.Dir, d.Name)
		return Exit{Status: report(&problem{statusFailed, "gone", err, fmt.Sprintf("`perdure restore %s latest --to %s` brings the last snapshot back", d.Name, d.Dir)}, false, r.Out, r.Err)}
	}
	env := append(s.baseEnv(d, r.Env), "PERDURE_WORKSPACE="+d.Name)
	s.event(d.Name, "ran", map[string]any{"by": r.Peer, "what": program(r.Command)})
	sp := s.space(d.Name)
	defer s.lendAgent(sp, r.Agent, r.Peer)()
	if path, err := s.agentSocket(d.Name); err == nil && sp.agents.holds() {
		env = append(env, "SSH_AUTH_SOCK="+path)
	}
	defer sp.visit(r.Peer)()
	return runExec(ctx, r, d.Dir, d.Path, env, gitPath(command))
}

func (s *Server) namesHint() string {
	all, err := s.store.Workspaces()
	if err != nil || len(all) == 0 {
		return "`perdure new NAME` makes one"
	}
	names := make([]string, 0, len(all))
	for _, d := range all {
		names = append(names, d.Name)
	}
	return "there are: " + strings.Join(names, ", ")
}

// pick lists the workspaces and attaches to the one that is chosen by its number or name.
func (s *Server) pick(ctx context.Context, r *Request) Exit {
	out := crlf{r.Out}
	list, err := s.summaries(ctx)
	if err != nil {
		return Exit{Status: report(err, false, out, out)}
	}
	if r.User != commandUser && r.User != s.login {
		fmt.Fprintf(out, "perdure: no workspace %s\n", quoteName(r.User))
	}
	if len(list) == 0 || r.Term == nil {
		listWorkspaces(out, list)
		return Exit{Status: statusMissing}
	}
	name, err := choice(ctx, r, out, list)
	if err != nil {
		return Exit{Status: report(err, false, out, out)}
	}
	if name == "" {
		return Exit{}
	}
	return s.attach(ctx, r, name, r.Rights.readOnly)
}

// choose is pick for a relay: the name that the person chose, "" where they left.
func (s *Server) choose(ctx context.Context, r *Request) (string, error) {
	list, err := s.summaries(ctx)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", missing("`perdure new NAME` makes one", "no workspaces yet")
	}
	return choice(ctx, r, crlf{r.Out}, list)
}

func listWorkspaces(out io.Writer, list []summary) {
	if len(list) == 0 {
		fmt.Fprintln(out, "no workspaces yet: `perdure new NAME` makes one")
	}
	for i, w := range list {
		fmt.Fprintf(out, "%3d  %-20s %-8s %s\n", i+1, w.Name, w.State, clip(handoff.Escape(w.Goal), 60))
	}
}

// choice asks for a workspace by its number or name; "" means that the person left.
func choice(ctx context.Context, r *Request, out io.Writer, list []summary) (string, error) {
	listWorkspaces(out, list)
	fmt.Fprint(out, "number or name (q leaves): ")
	word, rest := readWord(ctx, r, out)
	if word == "" || word == "q" {
		return "", nil
	}
	r.In = rest
	for i, w := range list {
		if w.Name == word || fmt.Sprint(i+1) == word {
			return w.Name, nil
		}
	}
	return "", missing("", "no workspace %s", quoteName(word))
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
