package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perdure/snapshot"
	"perdure/workspace"
	"perdure/workspace/agent"
)

// payload is what agents' hooks are given, of several agents: each fills what it has.
type payload struct {
	SessionID   string          `json:"session_id"`
	ThreadID    string          `json:"thread-id"`
	Source      string          `json:"source"`
	StopActive  bool            `json:"stop_hook_active"`
	Message     string          `json:"message"`
	Kind        string          `json:"notification_type"`
	LastMessage string          `json:"last-assistant-message"`
	Tool        string          `json:"tool_name"`
	Input       json.RawMessage `json:"tool_input"`
}

// maxPayload bounds what one hook may send: a tool's whole input can be in it.
const maxPayload = 4 << 20

// hookBudget is what a hook may keep an agent waiting.
const hookBudget = 10 * time.Second

// hook is one call of an agent's hook.
type hook struct {
	c    *call
	d    workspace.Definition
	sp   *space
	sess *workspace.Session
	p    agent.Preset
	name string // the event, as the agent calls it
	in   payload
}

func (c *call) hookCommand() *cobra.Command {
	return &cobra.Command{Use: "hook PRESET EVENT [JSON|-]", Short: "what agents' hooks call", Hidden: true, Args: cobra.RangeArgs(2, 3), RunE: func(cmd *cobra.Command, args []string) error {
		h, err := c.readHook(args)
		if err != nil || h == nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), hookBudget)
		defer cancel()
		return h.run(ctx)
	}}
}

// readHook is nil where the call comes from no session of perdure's: the hooks of a project may be called anywhere.
func (c *call) readHook(args []string) (*hook, error) {
	all, err := c.s.agents()
	if err != nil {
		return nil, err
	}
	p, ok := all[args[0]]
	if !ok || p.Hooks[args[1]] == "" {
		return nil, missing("`perdure agent list` names the agents", "no hook %s of an agent %s", quoteName(args[1]), quoteName(args[0]))
	}
	if c.who.inside == "" {
		return nil, nil
	}
	h := &hook{c: c, p: p, name: args[1], sp: c.s.space(c.who.inside)}
	if h.sess = h.sp.live(); h.sess == nil {
		return nil, nil
	}
	if h.d, err = c.s.store.Workspace(c.who.inside); err != nil {
		return nil, err
	}
	data := []byte("{}")
	if len(args) == 3 && args[2] == "-" {
		if data, err = io.ReadAll(io.LimitReader(c.r.In, maxPayload)); err != nil {
			return nil, fmt.Errorf("read the hook's input: %w", err)
		}
	} else if len(args) == 3 {
		data = []byte(args[2])
	}
	if len(strings.TrimSpace(string(data))) > 0 {
		if err := json.Unmarshal(data, &h.in); err != nil {
			return nil, usage("it is the JSON that the agent gives its hooks", "the hook's input: %w", err)
		}
	}
	return h, nil
}

func (h *hook) run(ctx context.Context) error {
	h.capture()
	switch h.p.Hooks[h.name] {
	case agent.Begin:
		return h.begin(ctx)
	case agent.Prompt:
		return errors.Join(h.report(working, "", ""), h.tellNews(ctx))
	case agent.Working:
		return h.report(working, "", "")
	case agent.Permission:
		return h.report(waiting, whyPermission, h.asked())
	case agent.Notification:
		return h.notified()
	case agent.Failure:
		return h.report(waiting, whyQuestion, cmp.Or(h.in.Message, "it failed"))
	case agent.Compact, agent.Compacted:
		_, _, err := h.c.s.captureIfChanged(ctx, h.d.Name, "compact")
		h.c.s.observe(ctx, h.d.Name, "compact")
		return errors.Join(h.report(working, "", ""), err)
	case agent.Stop:
		return h.stop(ctx)
	case agent.Done:
		return h.report(idle, whyTurnDone, oneLine(h.in.LastMessage))
	}
	return nil
}

// capture keeps the id of the conversation as the agent tells it.
func (h *hook) capture() {
	id := cmp.Or(h.in.SessionID, h.in.ThreadID)
	if h.d.Agent != h.p.Name || !agent.ValidID(id) || id == h.c.s.conversation(h.d.Name) {
		return
	}
	if err := h.c.s.keepConversation(h.d.Name, id); err != nil {
		h.c.s.log.Error("hook", "workspace", h.d.Name, "err", err)
	}
}

func (h *hook) report(activity, why, text string) error {
	return h.c.s.reported(h.sp, h.sess, hookReport{At: time.Now().UTC(), Event: h.name, Activity: activity, Why: why, Text: text})
}

// asked is what a permission is wanted for.
func (h *hook) asked() string {
	var in struct {
		Command string `json:"command"`
		Path    string `json:"file_path"`
	}
	_ = json.Unmarshal(h.in.Input, &in) // a tool without either is named alone
	return oneLine(cmp.Or(h.in.Message, strings.TrimSpace(h.in.Tool+" "+cmp.Or(in.Command, in.Path)), "permission"))
}

// notified tells a call for a person from the reminder that a turn is done.
func (h *hook) notified() error {
	switch {
	case h.in.Kind == "permission_prompt" || h.in.Kind == "ToolPermission":
		return h.report(waiting, whyPermission, h.asked())
	case h.in.Kind == "idle_prompt":
		return h.report(waiting, whyQuestion, oneLine(h.in.Message))
	}
	return h.report(waiting, reason(h.in.Message), oneLine(h.in.Message))
}

func oneLine(s string) string { return clip(strings.Join(strings.Fields(s), " "), 200) }

// say gives the model text in the form that its agent reads.
func (h *hook) say(text string) error {
	var err error
	switch h.p.Context {
	case "text":
		_, err = fmt.Fprintln(h.c.out, text)
	case "json":
		err = h.c.print(map[string]any{"hookSpecificOutput": map[string]string{"hookEventName": h.name, "additionalContext": text}})
	}
	return err
}

// begin tells a conversation that starts, was resumed, compacted or cleared, where the work stands.
func (h *hook) begin(ctx context.Context) error {
	activity := idle
	if h.in.Source == "compact" {
		activity = working // the turn goes on
	}
	if err := h.report(activity, "", ""); err != nil {
		return err
	}
	rep, err := h.c.s.verifyQuick(ctx, h.d.Name)
	if err != nil {
		return err
	}
	brief, err := h.c.s.brief(ctx, h.d)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("perdure (workspace %s), quick verification: %s\n%s", h.d.Name, rep.Verdict, rep.Text(false))
	if r, _, err := h.c.s.inForce(h.d.Name); err == nil && r != nil {
		if edits, _ := h.changedSince(ctx, r.Measured.Tree); len(edits) > 0 {
			text += "\nEdited since the record:\n" + listed(paths(edits))
		}
	}
	h.news() // the brief names the deliveries
	return errors.Join(h.say(text+"\n"+escapeText(brief)), h.idleFrom(ctx, activity))
}

// note reads and writes what one hook leaves for a later one: a tree's id.
func (h *hook) note(name string) string {
	data, _ := os.ReadFile(filepath.Join(h.sess.Dir, name)) // none is ""
	return strings.TrimSpace(string(data))
}

func (h *hook) leave(name, tree string) error {
	if err := os.WriteFile(filepath.Join(h.sess.Dir, name), []byte(tree+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep a hook's note: %w", err)
	}
	return nil
}

// unrecordedFor is after which time a record is asked for even if the checks are slow; quickEnough is when they are not.
const (
	unrecordedFor = 30 * time.Minute
	quickEnough   = time.Minute
)

// stop ends a turn. It asks for a record once per tree, and never while the agent already goes on because of a stop
// hook: that would be a loop.
func (h *hook) stop(ctx context.Context) error {
	now, err := h.c.s.snaps.Read(ctx, h.d.Name, h.d.Dir)
	if err != nil {
		return errors.Join(h.report(idle, whyTurnDone, oneLine(h.in.LastMessage)), err)
	}
	if err := h.leave(noteTurn, now.Tree); err != nil {
		return err
	}
	if h.in.StopActive || !h.wantsRecord(ctx, now.Tree) {
		return h.report(idle, whyTurnDone, oneLine(h.in.LastMessage))
	}
	if err := h.leave("asked-tree", now.Tree); err != nil {
		return err
	}
	if err := h.report(working, "", ""); err != nil {
		return err
	}
	return h.c.print(map[string]string{"decision": "block", "reason": "perdure: the tree changed since the last record. Record what is true now: `perdure handoff record --passed ID --failed 'ID: why' --next T` " +
		"(or --finished), by the handoff_record tool or the command line. It runs the checks itself. If there is nothing worth recording, say so and stop."})
}

// wantsRecord says whether a tree is worth asking for: changed, not asked for yet, and cheap to record or long overdue.
func (h *hook) wantsRecord(ctx context.Context, tree string) bool {
	if h.p.Context == "" || h.note("asked-tree") == tree {
		return false
	}
	r, _, err := h.c.s.inForce(h.d.Name)
	if err != nil {
		return false
	}
	if r == nil {
		list, err := h.c.s.snaps.List(ctx, h.d.Name)
		return err == nil && len(list) > 0 && first(list).Tree != tree
	}
	if r.Measured.Tree == tree {
		return false
	}
	var took time.Duration
	for _, c := range r.Measured.Checks {
		took += time.Duration(c.Ms) * time.Millisecond
	}
	return took < quickEnough || time.Since(r.Measured.At) > unrecordedFor
}

// first is the oldest snapshot: the tree that the goal starts from.
func first(list []snapshot.Snapshot) snapshot.Snapshot {
	return slices.MinFunc(list, func(a, b snapshot.Snapshot) int { return a.At.Compare(b.At) })
}
