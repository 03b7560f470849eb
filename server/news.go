package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perdure/handoff"
	"perdure/snapshot"
)

// What one hook leaves for a later one, in the session's folder.
const (
	noteTurn = "turn-tree" // the tree when the agent's last turn ended; the file's time says when that was
	noteNews = "news-told" // the deliveries it was told of, by id and state
)

// tellNews tells an agent at its prompt what others changed while it was idle, and who, and of deliveries. The edits of
// a turn that was broken off are nobody else's, so without a turn's end nothing is said of edits.
func (h *hook) tellNews(ctx context.Context) error {
	var text string
	since := h.noted(noteTurn)
	if edits, _ := h.changedSince(ctx, h.note(noteTurn)); len(edits) > 0 {
		who := h.c.s.othersEdits(ctx, h.d, since, edits)
		lines := make([]string, len(edits))
		for i, c := range edits {
			lines[i] = fmt.Sprintf("%s, %s %s", handoff.Escape(c.Path), c.Kind, who[c.Path])
		}
		text = "perdure: edited since your last turn, not by you:\n" + listed(lines)
	}
	if news := h.news(); len(news) > 0 {
		text += "perdure: deliveries:\n" + listed(news)
	}
	err := h.leave(noteTurn, "")
	if text == "" {
		return err
	}
	return errors.Join(err, h.say(text))
}

// news are the deliveries that the agent wasn't told of yet: those that wait for it, and what became of its own.
func (h *hook) news() []string {
	told := strings.Fields(h.note(noteNews))
	var out []string
	for _, x := range h.c.s.deliveriesOf(h.d.Name) {
		key := x.ID + ":" + x.State
		if x.At.Before(h.d.Created) || slices.Contains(told, key) {
			continue
		}
		told = append(told, key)
		if x.From != h.d.Name || x.State != deliveryUnverified { // that it sent it, it knows
			out = append(out, handoff.Escape(deliveryLine(h.d.Name, x)))
		}
	}
	if err := h.leave(noteNews, strings.Join(told, " ")); err != nil {
		h.c.s.log.Error("hook", "workspace", h.d.Name, "err", err) // it is told again
	}
	return out
}

// idleFrom notes the tree that an idle agent leaves, which others may edit from then on.
func (h *hook) idleFrom(ctx context.Context, activity string) error {
	if activity != idle {
		return nil
	}
	now, err := h.c.s.snaps.Read(ctx, h.d.Name, h.d.Dir)
	if err != nil {
		return fmt.Errorf("read the tree: %w", err)
	}
	return h.leave(noteTurn, now.Tree)
}

// changedSince is what differs from a tree; nothing where it isn't known.
func (h *hook) changedSince(ctx context.Context, tree string) ([]snapshot.Change, error) {
	if tree == "" {
		return nil, nil
	}
	now, err := h.c.s.snaps.Read(ctx, h.d.Name, h.d.Dir)
	if err != nil || now.Tree == tree {
		return nil, err
	}
	return h.c.s.snaps.Diff(ctx, now.Repo, tree, now.Tree)
}

func paths(changes []snapshot.Change) []string {
	out := make([]string, len(changes))
	for i, c := range changes {
		out[i] = handoff.Escape(c.Path)
	}
	return out
}

// maxListed bounds how many lines a hook lists: context is dear.
const maxListed = 40

func listed(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		if i == maxListed {
			fmt.Fprintf(&b, "- and %d more\n", len(lines)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n", l)
	}
	return b.String()
}

// noted is when a note was left.
func (h *hook) noted(name string) time.Time {
	fi, err := os.Stat(filepath.Join(h.sess.Dir, name))
	if err != nil {
		return h.sess.Started
	}
	return fi.ModTime()
}
