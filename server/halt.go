package server

import (
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
	fmt.Fprint(out, rep.Render(a.r.style()))
	if rep.Verdict.Halts() {
		fmt.Fprintf(out, "perdure: overridden: a person decided that this stops nobody\n")
	}
	fmt.Fprintf(out, "perdure: a fresh session starts; its brief is in $PERDURE_BRIEF\n")
}

func (a *attachment) start(ctx context.Context, o startOptions) (*workspace.Session, error) {
	o.term, o.env = a.r.Term, a.r.Env
	return a.s.startSession(ctx, a.d, o)
}

// verifyShown runs the full verification with its progress; nil without an error means that the person left.
func (a *attachment) verifyShown(ctx context.Context) (*handoff.Report, error) {
	v := a.s.verifyFull(a.d.Name)
	if stay, err := a.await(ctx, v, "verifying", "verification"); err != nil || !stay {
		return nil, err
	}
	return &v.report, v.err
}

// patchScreens is how many screens of a patch the prompt shows: the report above it should stay in reach.
const patchScreens = 4

// haltKeys are the ways on, in at most 80 columns.
const haltKeys = "[d] diff  [c] carry  [r] repair  [l] last screen  [v] verify again  [q] leave"

// haltPrompt shows what differs and offers one key for each way on. Only a key that was typed after the prompt was
// drawn, and alone, is an answer; what was typed before it was meant for something else.
func (a *attachment) haltPrompt(ctx context.Context, rep handoff.Report) (*workspace.Session, error) {
	out := crlf{a.r.Out}
	halted := fmt.Sprintf("%s\nperdure: %s is halted: work stops until the record is repaired\n", rep.Render(a.r.style()), a.d.Name)
	drawn := a.ask(ctx, halted)
	for {
		key, err := a.keys.answer(ctx, drawn)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, refused("attach from a terminal, or use `perdure handoff repair`", "%s is halted", a.d.Name)
		case key == 0:
			fmt.Fprintf(out, "perdure: answer by one key, typed alone\n%s\n", haltKeys)
			continue
		}
		sess, done, err := a.haltKey(ctx, out, key)
		switch {
		case err != nil:
			report(err, false, out, out)
		case done:
			return sess, nil
		}
		if key == 'd' || key == 'l' {
			fmt.Fprintln(out, haltKeys) // the same prompt goes on
			continue
		}
		drawn = a.ask(ctx, "")
	}
}

// ask draws the prompt once nothing is being typed any more, and drops what was. It gives the time of the drawing:
// that of before the write, since who answers has seen it.
func (a *attachment) ask(ctx context.Context, text string) (drawn time.Time) {
	out := crlf{a.r.Out}
	before := a.keys.drop()
	before += a.keys.pause(ctx)
	if before > 0 {
		fmt.Fprintf(out, "perdure: %d bytes that were typed before this prompt are dropped\n", before)
	}
	drawn = time.Now()
	fmt.Fprintf(out, "%s%s\n", text, haltKeys)
	return drawn
}

// haltKey does what one key asks; done ends the prompt, with a session or without.
func (a *attachment) haltKey(ctx context.Context, out io.Writer, key byte) (sess *workspace.Session, done bool, err error) {
	switch key {
	case 'd':
		p := &patchView{out: out, style: a.r.style(), lines: patchScreens * max(int(a.r.Term.Rows), 24)}
		err := a.s.diffFromRecord(ctx, a.d, p)
		return nil, false, errors.Join(err, p.end(fmt.Sprintf("`perdure diff %s record` shows all", a.d.Name)))
	case 'l':
		a.showLast(out)
		return nil, false, nil
	case 'c':
		return a.carryShown(ctx, out)
	case 'r':
		if a.d.OnMismatch == "hold" {
			return nil, false, refused("repair from another terminal with `perdure handoff repair`", "%s is set to hold on a mismatch", a.d.Name)
		}
		o := startOptions{repair: true, shell: !a.s.agentRepairs(ctx, a.d), verdict: a.haltVerdict()}
		sess, err = a.start(ctx, o)
		return sess, err == nil, err
	case 'v':
		return a.verifyAgain(ctx, out)
	case 'q', ctrlC, ctrlD:
		fmt.Fprintf(out, "perdure: %s stays halted\n", a.d.Name)
		return nil, true, nil
	}
	return nil, false, nil
}

// carryShown carries the claims over in the server's own time, so that leaving cancels nothing, and starts the session.
func (a *attachment) carryShown(ctx context.Context, out io.Writer) (*workspace.Session, bool, error) {
	v := &verification{done: make(chan struct{})}
	var r handoff.Record
	a.s.wg.Go(func() {
		defer close(v.done)
		r, v.err = a.s.carry(a.s.ctx, a.d.Name, recordRequest{author: handoff.AuthorPerson}, v.tell)
	})
	stay, err := a.await(ctx, v, "carrying", "carry")
	if err != nil || !stay {
		return nil, err == nil, err
	}
	if v.err != nil {
		return nil, false, v.err
	}
	fmt.Fprintf(out, "perdure: carried: record %s\n", r.ID)
	sess, err := a.start(ctx, startOptions{verdict: handoff.Holds})
	return sess, err == nil, err
}

// verifyAgain starts the session if the record holds by now.
func (a *attachment) verifyAgain(ctx context.Context, out io.Writer) (*workspace.Session, bool, error) {
	rep, err := a.verifyShown(ctx)
	if err != nil || rep == nil {
		return nil, rep == nil && err == nil, err
	}
	if h, err := a.s.store.Halt(a.d.Name); err == nil && h == nil {
		a.sayVerdict(out, *rep)
		sess, err := a.start(ctx, startOptions{verdict: rep.Verdict})
		return sess, err == nil, err
	}
	fmt.Fprint(out, rep.Render(a.r.style()))
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
