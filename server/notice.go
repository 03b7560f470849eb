package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"perdure/handoff"
	"perdure/workspace/wire"
)

// quickBudget is what a quick verification may delay an attach by; after that it goes on beside it.
const quickBudget = 200 * time.Millisecond

// noticeSeconds is how long a notice lies over the last row.
const noticeSeconds = 4

// quick starts the quick verification of an attach and gives it its budget. The channel yields what is to be said,
// line by line, and is closed in the end.
func (a *attachment) quick(ctx context.Context) <-chan string {
	said := make(chan string, 2)
	first := make(chan struct{})
	a.s.wg.Go(func() {
		defer close(said)
		running := a.quickLabels()
		rep, err := a.s.verifyQuick(ctx, a.d.Name)
		if err == nil {
			text := noticeText(a.d.Name, rep)
			if running != "" {
				text += "; running " + running
			}
			said <- a.s.haltedOr(a.d.Name, text)
		}
		close(first)
		if rep, ok := a.quickChecks(ctx); ok {
			said <- quickText(a.d.Name, rep)
		}
	})
	select {
	case <-first:
	case <-time.After(quickBudget):
	case <-ctx.Done():
	}
	return said
}

// quickBeside is quick for a client that comes back: it waits for nothing and speaks only if something is wrong.
func (a *attachment) quickBeside(ctx context.Context) <-chan string {
	said := make(chan string, 2)
	a.s.wg.Go(func() {
		defer close(said)
		rep, err := a.s.verifyQuick(ctx, a.d.Name)
		text := ""
		if err == nil && rep.Verdict.Halts() {
			text = noticeText(a.d.Name, rep)
		}
		if text = a.s.haltedOr(a.d.Name, text); text != "" {
			said <- text
		}
		if rep, ok := a.quickChecks(ctx); ok && amiss(rep) != nil {
			said <- quickText(a.d.Name, rep)
		}
	})
	return said
}

// quickChecks runs the checks marked quick beside the session; false where there are none, or they said nothing.
func (a *attachment) quickChecks(ctx context.Context) (handoff.Report, bool) {
	if a.quickLabels() == "" {
		return handoff.Report{}, false
	}
	rep, err := a.s.verifyQuickChecks(a.d.Name).wait(ctx)
	if err != nil && ctx.Err() == nil {
		a.s.log.Error("quick checks", "workspace", a.d.Name, "err", err)
	}
	return rep, err == nil && len(rep.Checks) > 0
}

// quickLabels are the labels of the checks that this attach runs, "" for none: who only watches runs nothing, and a
// session that is fresh comes after all of them.
func (a *attachment) quickLabels() string {
	if a.readOnly || a.fresh {
		return ""
	}
	var labels []string
	for _, c := range a.d.Checks {
		if c.Quick {
			labels = append(labels, handoff.Escape(c.Label))
		}
	}
	return strings.Join(labels, ", ")
}

// haltedOr says that the workspace is halted, or else the text.
func (s *Server) haltedOr(name, text string) string {
	if h, err := s.store.Halt(name); err == nil && h != nil {
		return fmt.Sprintf("perdure: %s is halted: %s", name, handoff.Escape(h.Reason))
	}
	return text
}

// noticeText is the one line about a live session's record.
func noticeText(name string, rep handoff.Report) string {
	text := fmt.Sprintf("perdure: %s: %s", name, rep.Verdict)
	if rep.Verdict == handoff.Unrecorded {
		text = fmt.Sprintf("perdure: %s: no handoff recorded yet", name)
	}
	if rep.Behind > 0 {
		text += fmt.Sprintf(", record behind by %d file(s)", rep.Behind)
	}
	for _, f := range rep.Findings {
		if f.Kind == string(rep.Verdict) && rep.Verdict.Halts() {
			return text + ": " + handoff.Escape(f.Subject)
		}
	}
	return text
}

// amiss are the findings of quick checks that are worth a word: results that aren't the record's, or none.
func amiss(rep handoff.Report) []handoff.Finding {
	var out []handoff.Finding
	for _, f := range rep.Findings {
		if f.Kind != handoff.Note && handoff.Verdict(f.Kind).Halts() || f.Recorded != "" && f.Found != "" {
			out = append(out, f)
		}
	}
	return out
}

// quickText is the one line about the quick checks of an attach.
func quickText(name string, rep handoff.Report) string {
	wrong := amiss(rep)
	if len(wrong) == 0 {
		return fmt.Sprintf("perdure: %s: quick checks as recorded", name)
	}
	f := wrong[0]
	text := fmt.Sprintf("perdure: %s: quick check: %s", name, handoff.Escape(f.Subject))
	if f.Recorded != "" {
		text += " recorded " + handoff.Escape(f.Recorded) + ","
	}
	text += " found " + handoff.Escape(f.Found)
	if len(wrong) > 1 {
		text += fmt.Sprintf(", and %d more", len(wrong)-1)
	}
	return text + fmt.Sprintf(" (perdure handoff verify %s --quick)", name)
}

// sendNotice says what the attach's verification found, as it comes.
func (a *attachment) sendNotice(ctx context.Context, conn *wire.Conn, notice <-chan string) {
	for {
		select {
		case <-ctx.Done():
			return
		case text, ok := <-notice:
			if !ok || conn.Write(wire.Notice{Text: text, Seconds: noticeSeconds}) != nil { // a host that is gone shows where it is read from
				return
			}
		}
	}
}
