package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"perdure/handoff"
	"perdure/workspace"
)

// verifyAndStart brings a workspace without a live session back: full verification with progress, and then the
// fresh session, or the halt prompt. A nil session without an error means that the person left.
func (a *attachment) verifyAndStart(ctx context.Context) (*workspace.Session, error) {
	rep, err := a.verifyShown(ctx)
	if err != nil || rep == nil {
		return nil, err
	}
	out := crlf{a.r.Out}
	h, err := a.s.store.Halt(a.d.Name)
	if err != nil {
		return nil, err
	}
	if h == nil {
		a.sayVerdict(out, *rep)
		return a.start(ctx, startOptions{verdict: rep.Verdict})
	}
	return a.haltPrompt(ctx, *rep)
}

// sayVerdict tells in a few lines what a fresh session starts from.
func (a *attachment) sayVerdict(out io.Writer, rep handoff.Report) {
	if rep.Verdict == handoff.Unrecorded && a.s.space(a.d.Name).newest() == nil {
		fmt.Fprintf(out, "perdure: %s: first session\n", a.d.Name)
		return
	}
	fmt.Fprint(out, rep.Text(false))
	if rep.Verdict.Halts() {
		fmt.Fprintf(out, "perdure: overridden: a person decided that this stops nobody\n")
	}
	fmt.Fprintf(out, "perdure: a fresh session starts; its brief is in $PERDURE_BRIEF\n")
}

func (a *attachment) start(ctx context.Context, o startOptions) (*workspace.Session, error) {
	o.term, o.env = a.r.Term, a.r.Env
	return a.s.startSession(ctx, a.d, o)
}

// verifyShown runs the full verification with its progress on one line. The person may leave (q), look at the last
// screen (l) or leave it in the background (b); none of them cancels it.
func (a *attachment) verifyShown(ctx context.Context) (*handoff.Report, error) {
	v := a.s.verifyFull(a.d.Name)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	began, shown := time.Now(), false
	out := crlf{a.r.Out}
	input := a.keys.c
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-v.done:
			if shown {
				fmt.Fprint(a.r.Out, "\r\x1b[K")
			}
			if v.err != nil {
				return nil, v.err
			}
			return &v.report, nil
		case p, ok := <-input:
			if !ok {
				input = nil
				continue
			}
			switch {
			case bytes.ContainsAny(p, "bq\x03\x04"):
				fmt.Fprintf(out, "\nperdure: the verification of %s goes on; attach again to see its verdict\n", a.d.Name)
				return nil, nil
			case bytes.ContainsAny(p, "l"):
				a.showLast(out)
			}
		case <-tick.C:
			p := v.latest()
			line := fmt.Sprintf("perdure: verifying %s  %s  %s  %d tests  %s", a.d.Name, time.Since(began).Round(100*time.Millisecond), p.Label, p.Tests, handoff.Escape(p.Tail))
			fmt.Fprint(a.r.Out, "\r\x1b[K"+clip(line, int(a.r.Term.Cols)-1))
			shown = true
		}
	}
}

// clip cuts a line to a width in columns; progress lines are plain text, where a rune is a column at the least.
func clip(line string, cols int) string {
	r := []rune(line)
	if cols > 0 && len(r) > cols {
		return string(r[:cols])
	}
	return line
}

const haltKeys = "[d] diff  [c] carry  [r] repair session  [l] last screen  [v] verify again  [q] leave"

// haltPrompt shows what differs and offers one key for each way on.
func (a *attachment) haltPrompt(ctx context.Context, rep handoff.Report) (*workspace.Session, error) {
	out := crlf{a.r.Out}
	fmt.Fprintf(out, "%s\nperdure: %s is halted: work stops until the record is repaired\n%s\n", rep.Text(false), a.d.Name, haltKeys)
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case p, ok := <-a.keys.c:
			if !ok {
				return nil, refused("attach from a terminal, or use `perdure handoff repair`", "%s is halted", a.d.Name)
			}
			for _, key := range p {
				sess, done, err := a.haltKey(ctx, out, key)
				if err != nil {
					report(err, false, out, out)
					fmt.Fprintln(out, haltKeys)
					continue
				}
				if done {
					return sess, nil
				}
			}
		}
	}
}

// haltKey does what one key asks; done ends the prompt, with a session or without.
func (a *attachment) haltKey(ctx context.Context, out io.Writer, key byte) (sess *workspace.Session, done bool, err error) {
	switch key {
	case 'd':
		return nil, false, a.s.diffFromRecord(ctx, a.d, out)
	case 'l':
		a.showLast(out)
		return nil, false, nil
	case 'c':
		fmt.Fprintln(out, "perdure: running the checks again")
		r, err := a.s.carry(ctx, a.d.Name, recordRequest{author: "person"}, nil)
		if err != nil {
			return nil, false, err
		}
		fmt.Fprintf(out, "perdure: carried: record %s\n", r.ID)
		sess, err = a.start(ctx, startOptions{verdict: handoff.Holds})
		return sess, err == nil, err
	case 'r':
		if a.d.OnMismatch == "hold" {
			return nil, false, refused("repair from another terminal with `perdure handoff repair`", "%s is set to hold on a mismatch", a.d.Name)
		}
		o := startOptions{repair: true, shell: !a.s.agentRepairs(ctx, a.d), verdict: a.haltVerdict()}
		sess, err = a.start(ctx, o)
		return sess, err == nil, err
	case 'v':
		rep, err := a.verifyShown(ctx)
		if err != nil || rep == nil {
			return nil, rep == nil && err == nil, err
		}
		if h, err := a.s.store.Halt(a.d.Name); err == nil && h == nil {
			a.sayVerdict(out, *rep)
			sess, err = a.start(ctx, startOptions{verdict: rep.Verdict})
			return sess, err == nil, err
		}
		fmt.Fprintf(out, "%s\n%s\n", rep.Text(false), haltKeys)
		return nil, false, nil
	case 'q', 3, 4:
		fmt.Fprintf(out, "perdure: %s stays halted\n", a.d.Name)
		return nil, true, nil
	}
	return nil, false, nil
}

func (a *attachment) haltVerdict() handoff.Verdict {
	if h, err := a.s.store.Halt(a.d.Name); err == nil && h != nil {
		return h.Verdict
	}
	return handoff.Drifted
}

func (a *attachment) showLast(out io.Writer) {
	sess := a.s.space(a.d.Name).newest()
	if sess == nil {
		fmt.Fprintln(out, "perdure: there was no session before")
		return
	}
	v, err := lastView(sess)
	if err != nil {
		report(err, false, out, out)
		return
	}
	fmt.Fprintf(out, "\n%s\n", strings.TrimRight(strings.Join(v.Rows, "\n"), "\n "))
}

// diffFromRecord prints what changed since the record in force, as a patch.
func (s *Server) diffFromRecord(ctx context.Context, d workspace.Definition, out io.Writer) error {
	r, _, err := s.inForce(d.Name)
	if err != nil {
		return err
	}
	if r == nil {
		return missing("record one with `perdure handoff record`", "%s has no record to compare with", d.Name)
	}
	now, err := s.snaps.Read(ctx, d.Name, d.Dir)
	if err != nil {
		return fmt.Errorf("read the tree: %w", err)
	}
	if now.Tree == r.Measured.Tree {
		_, err := fmt.Fprintln(out, "the tree is the record's: nothing differs")
		return err
	}
	if !s.snaps.Has(ctx, now.Repo, r.Measured.Tree) {
		return errors.New("the record's tree can't be found any more")
	}
	return s.snaps.Patch(ctx, now.Repo, r.Measured.Tree, now.Tree, out)
}
