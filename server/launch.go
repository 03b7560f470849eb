package server

import (
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/pflag"

	"perdure/workspace"
	"perdure/workspace/agent"
)

// agents are the presets that `--agent` knows: the built-in ones and the configuration's.
func (s *Server) agents() (map[string]agent.Preset, error) { return agent.With(s.conf().Agents) }

// agentDir is where an agent's settings and its conversation's id are kept: outside of the tree, since nothing is
// written there uninvited.
func (s *Server) agentDir(name string) string { return filepath.Join(s.workspaceDir(name), "agent") }

// conversation is the id of the agent's own conversation, "" if none is known.
func (s *Server) conversation(name string) string {
	data, err := os.ReadFile(filepath.Join(s.agentDir(name), "conversation"))
	id := strings.TrimSpace(string(data))
	if err != nil || !agent.ValidID(id) {
		return ""
	}
	return id
}

// keepConversation makes an id last.
func (s *Server) keepConversation(name, id string) error {
	dir := s.agentDir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep the conversation's id: %w", err)
	}
	if err := renameio.WriteFile(filepath.Join(dir, "conversation"), []byte(id+"\n"), 0o600, renameio.WithTempDir(dir)); err != nil {
		return fmt.Errorf("keep the conversation's id: %w", err)
	}
	return nil
}

// launch fills a workspace's preset in: the definition comes back with the command of this session, which resumes
// the agent's own conversation where it is still there, and else starts a fresh one with the brief.
func (s *Server) launch(d workspace.Definition, session string) (workspace.Definition, []string, error) {
	if d.Agent == "" || len(d.Command) > 0 {
		return d, nil, nil
	}
	all, err := s.agents()
	if err != nil {
		return d, nil, err
	}
	p, ok := all[d.Agent]
	if !ok {
		return d, nil, missing("`perdure agent list` names those that are known", "no agent %s", quoteName(d.Agent))
	}
	if p.Shell() {
		return d, nil, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return d, nil, fmt.Errorf("find the home folder: %w", err)
	}
	v := agent.Vars{ID: s.conversation(d.Name), Brief: filepath.Join(s.workspaceDir(d.Name), "brief.md"), Dir: s.agentDir(d.Name), Perdure: s.opts.Executable,
		Home: home, State: s.opts.State, Session: session, Workspace: d.Name, Preset: p.Name}
	if err := writeAgentFiles(p, v); err != nil {
		return d, nil, err
	}
	var env []string
	for _, k := range slices.Sorted(maps.Keys(p.Env)) {
		env = append(env, k+"="+v.Text("", p.Env[k]))
	}
	d.Command, err = s.agentCommand(p, v)
	return d, env, err
}

func writeAgentFiles(p agent.Preset, v agent.Vars) error {
	if err := os.MkdirAll(v.Dir, 0o700); err != nil {
		return fmt.Errorf("write the agent's settings: %w", err)
	}
	for name, text := range p.Files {
		if err := renameio.WriteFile(filepath.Join(v.Dir, name), []byte(v.Text(name, text)), 0o600, renameio.WithTempDir(v.Dir)); err != nil {
			return fmt.Errorf("write the agent's settings: %w", err)
		}
	}
	return nil
}

// earlyEnd is within how many seconds an agent that fails to resume its conversation says so.
const earlyEnd = 15

// agentCommand resumes, and falls back to a fresh conversation where the agent refuses that; or it starts afresh.
func (s *Server) agentCommand(p agent.Preset, v agent.Vars) ([]string, error) {
	fresh := v
	fresh.ID = ""
	if p.Conversation == agent.Preassigned {
		fresh.ID = newConversation()
	}
	start := fresh.Words(p.Start)
	if !p.Kept(v) {
		return start, s.keepConversation(v.Workspace, fresh.ID)
	}
	file := quote(filepath.Join(v.Dir, "conversation"))
	script := fmt.Sprintf("began=$(date +%%s); %s; status=$?; [ $status -ne 0 ] && [ $status -lt 128 ] && [ $(($(date +%%s) - began)) -lt %d ] || exit $status\n"+
		"echo 'perdure: the conversation could not be resumed; a fresh one starts'; echo %s >%s; exec %s",
		shellWords(v.Words(p.Resume)), earlyEnd, quote(fresh.ID), file, shellWords(start))
	return []string{"/bin/sh", "-c", script}, nil
}

func shellWords(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = quote(w)
	}
	return strings.Join(out, " ")
}

// newConversation is a random UUID (RFC 9562, version 4).
func newConversation() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// takeAgent sets what works in a workspace: a command, or a preset; the one ends the other.
func (c *call) takeAgent(d *workspace.Definition, command []string, f *definitionFlags, set *pflag.FlagSet) error {
	if command != nil {
		d.Command, d.Agent = command, ""
	}
	if !set.Changed("agent") {
		return nil
	}
	if command != nil {
		return usage("a preset has its own command", "--agent and a command after -- exclude each other")
	}
	all, err := c.s.agents()
	if err != nil {
		return err
	}
	if _, ok := all[f.agent]; !ok {
		return usage("known are "+strings.Join(slices.Sorted(maps.Keys(all)), ", "), "--agent %q is no preset", f.agent)
	}
	d.Command, d.Agent = nil, f.agent
	return nil
}
