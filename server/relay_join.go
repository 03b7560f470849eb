package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"perdure/handoff"
	"perdure/workspace"
	"perdure/workspace/journal"
	"perdure/workspace/wire"
)

// run shows one workspace after the other, until one is left for good. Who wants to go where there is nothing, or
// thinks better of it in the picker, is back where they were.
func (l *relay) run(ctx context.Context, name string) Exit {
	next, shown := &name, ""
	for {
		to, err := l.find(ctx, *next)
		if shown != "" && ctx.Err() == nil && (err != nil || to == "") {
			if err != nil {
				l.saying = "perdure: " + handoff.Escape(err.Error())
			}
			to, err = shown, nil
		}
		if err != nil {
			return l.fault(err)
		}
		if to == "" { // the person left the picker
			l.farewell(Exit{})
			return Exit{}
		}
		shown = to
		exit, going, err := l.show(ctx, to)
		switch {
		case ctx.Err() != nil:
			return Exit{Status: statusFailed}
		case err != nil:
			return l.fault(err)
		case going == nil:
			l.farewell(exit)
			return exit
		}
		l.left()
		next = going
		l.mu.Lock()
		l.hello.Session, l.attach.Resume, l.attach.From = "", !l.hello.Terminal, 0
		l.mu.Unlock()
	}
}

// farewell tells how it ended where no session's end has told that already.
func (l *relay) farewell(exit Exit) {
	if !l.told.Load() {
		_ = l.conn.Write(wire.Exited{Code: int32(exit.Status), Signal: exit.Signal}) // the client may be gone
	}
}

// find is the workspace that is meant: the name itself, the one that waits, or what the picker gives.
func (l *relay) find(ctx context.Context, name string) (string, error) {
	switch {
	case name == "@next":
		list, err := l.s.summaries(ctx)
		if err != nil {
			return "", err
		}
		if list = needing(list); len(list) == 0 {
			return "", missing("", "no workspace needs you")
		}
		return list[0].Name, nil
	case name != "":
		d, err := l.s.store.Workspace(name)
		return d.Name, err
	case !l.hello.Terminal:
		return "", usage("name one: perdure connect HOST NAME", "without a terminal there is no picker")
	}
	req := *l.r
	req.Term, req.Out, req.In = l.terminal(), drawn{l.conn}, &keyReader{ctx: ctx, keys: l.keys}
	_, _ = drawn{l.conn}.Write([]byte("\x1b[!p\x1b[?1049l\x1b[H\x1b[2J"))
	return l.s.choose(ctx, &req)
}

func (l *relay) terminal() *Terminal {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hello.Terminal {
		return nil
	}
	t := Terminal{Term: l.attach.Term, Cols: l.attach.Cols, Rows: l.attach.Rows, XPixel: l.attach.XPixel, YPixel: l.attach.YPixel}
	if t.Cols == 0 || t.Rows == 0 {
		t.Cols, t.Rows = 80, 24
	}
	return &t
}

// show joins a workspace's session, verifying and starting one first where none is live. going is where the client
// wants to be next.
func (l *relay) show(ctx context.Context, name string) (exit Exit, going *string, err error) {
	d, err := l.s.store.Workspace(name)
	if err != nil {
		return Exit{}, nil, err
	}
	req := *l.r
	req.Term, req.Resizes, req.Signals = l.terminal(), nil, nil
	if l.hello.Terminal {
		req.Out, req.Err = drawn{l.conn}, drawn{l.conn}
	} else {
		req.Out = l.r.Err
	}
	a := &attachment{s: l.s, d: d, r: &req, keys: &keys{c: l.keys}, readOnly: l.attach.ReadOnly, link: l}
	sp := l.s.space(name)
	if over, err := l.ended(sp); err != nil || over != nil {
		if err != nil {
			return Exit{}, nil, err
		}
		exit, err = l.rest(over, l.attach.From)
		return exit, nil, err
	}
	exit, err = a.run(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	going, l.going, l.leave = l.going, nil, nil
	if going != nil {
		err = nil
	}
	return exit, going, err
}

// verifyQuietly is verifyAndStart for a client without a terminal: what would be asked is refused, with the report.
func (a *attachment) verifyQuietly(ctx context.Context) (*workspace.Session, error) {
	rep, err := a.s.verifyFull(a.d.Name).wait(ctx)
	if err != nil {
		return nil, err
	}
	if rep.Verdict.Halts() {
		fmt.Fprint(a.r.Out, rep.Text(false))
	}
	return a.start(ctx, startOptions{verdict: rep.Verdict})
}

// join shows one live session to the relay's client.
func (l *relay) join(ctx context.Context, a *attachment, sp *space, sess *workspace.Session) (Exit, error) {
	conn, closer, err := workspace.Dial(ctx, sess.Dir)
	if err != nil {
		return Exit{Status: statusFailed}, errors.Join(errNoHost, err)
	}
	defer closer.Close()
	relayCtx := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { closer.Close() })
	defer stop()

	resumed := l.hello.Session == sess.ID
	var notice <-chan string
	if said := l.saying; said != "" {
		l.saying = ""
		one := make(chan string, 1)
		one <- said
		notice = one
	} else if !resumed {
		notice = a.quick(ctx)
	}
	if err := l.introduce(conn, sess); err != nil {
		return Exit{Status: statusFailed}, errors.Join(errNoHost, err)
	}
	a.enter(sp, sess, resumed)
	defer a.leave(sp)
	if !a.readOnly {
		defer a.s.lendAgent(sp, a.s.agentOf(a.r, sp.name), a.r.Peer)()
	}
	if resumed {
		notice = a.quickBeside(ctx)
	}
	l.begin(conn, cancel)
	defer l.ask(relayCtx)
	l.s.wg.Go(func() { a.sendNotice(ctx, conn, notice) })
	type result struct {
		exit Exit
		err  error
	}
	done := make(chan result, 1)
	go func() { // a write to a client that takes nothing ends with the channel; the attachment ends before
		exit, err := l.forward(ctx, conn, sess)
		done <- result{exit, err}
	}()
	select {
	case r := <-done:
		return r.exit, r.err
	case <-ctx.Done():
	}
	if l.isGoing() {
		<-done // nothing of this session may come after the next one's first frame
	}
	return Exit{Status: statusFailed}, ctx.Err()
}

func (l *relay) isGoing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.going != nil
}

// introduce attaches to the host in the client's name.
func (l *relay) introduce(host *wire.Conn, sess *workspace.Session) error {
	l.mu.Lock()
	hello, attach := l.hello, l.attach
	hello.Input = max(hello.Input, l.typed)
	l.mu.Unlock()
	if hello.Session != sess.ID {
		attach.Resume, attach.From = !hello.Terminal, 0
	}
	if attach.History == 0 || attach.History > attachHistory {
		attach.History = attachHistory
	}
	attach.Client = l.r.Peer
	if err := l.conn.Write(wire.Session{ID: sess.ID, Workspace: sess.Workspace}); err != nil {
		return err
	}
	if err := host.Write(hello); err != nil {
		return err
	}
	return host.Write(attach)
}

// forward takes the host's frames to the client until either ends.
func (l *relay) forward(ctx context.Context, host *wire.Conn, sess *workspace.Session) (Exit, error) {
	at := uint64(0)
	for {
		f, err := host.Read()
		if err != nil && ctx.Err() != nil {
			return Exit{Status: statusFailed}, ctx.Err()
		}
		if err != nil {
			return l.hostGone(sess, at, err)
		}
		switch f := f.(type) {
		case wire.Ping:
			_ = host.Write(wire.Pong(f))
			continue
		case wire.Attached:
			at = f.Offset
			l.taken(f.InputOffset)
		case wire.InputAck:
			l.taken(f.Offset)
		case wire.Skipped:
			at += f.Bytes
		case wire.Output:
			at = f.Offset + uint64(len(f.Data))
		}
		if err := l.conn.Write(f); err != nil {
			return Exit{Status: statusFailed}, nil // the client left
		}
		switch f := f.(type) {
		case wire.Exited:
			l.told.Store(true)
			return Exit{Status: int(f.Code), Signal: f.Signal}, nil
		case wire.Fault:
			l.told.Store(true)
			return Exit{Status: statusFailed}, nil
		}
	}
}

// taken keeps the end of the input that was delivered, from which a next prompt goes on.
func (l *relay) taken(end uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.typed, l.sent = max(l.typed, end), max(l.sent, end)
	if l.going != nil && l.leave != nil && l.typed >= l.sent {
		l.leave()
	}
}

// hostGone tells a session that ended while its host had no time to write out the rest from one that was lost.
func (l *relay) hostGone(sess *workspace.Session, at uint64, err error) (Exit, error) {
	now, loadErr := workspace.Load(sess.Dir)
	if loadErr != nil || now.State != workspace.Ended {
		return Exit{Status: statusFailed}, errors.Join(errHostGone, err)
	}
	return l.rest(now, at)
}

// rest shows what an ended session printed after an offset, and how it ended.
func (l *relay) rest(sess *workspace.Session, from uint64) (Exit, error) {
	if sess.State == workspace.Lost || sess.Exit == nil {
		return Exit{}, &problem{statusFailed, "lost", fmt.Errorf("the session of %s was lost: %w", sess.Workspace, errHostGone), "connect again: the work is verified, and a fresh session starts"}
	}
	r, err := journal.OpenReader(filepath.Join(sess.Dir, "journal"))
	if err != nil {
		return Exit{}, fmt.Errorf("read the journal: %w", err)
	}
	defer r.Close()
	start, end := r.Bounds()
	at := min(max(from, start), end)
	l.mu.Lock()
	typed := l.typed
	l.mu.Unlock()
	frames := []wire.Frame{wire.Session{ID: sess.ID, Workspace: sess.Workspace}, wire.Attached{Offset: at, Gap: at - min(from, at), InputOffset: typed}}
	for _, f := range frames {
		if err := l.conn.Write(f); err != nil {
			return Exit{Status: statusFailed}, nil // the client left
		}
	}
	err = r.Chunks(at, func(off uint64, _ time.Time, data []byte) error {
		return l.conn.Write(wire.Output{Offset: off, Data: data})
	})
	if err != nil {
		return Exit{Status: statusFailed}, fmt.Errorf("read the journal: %w", err)
	}
	e := wire.Exited{Code: int32(sess.Exit.Code), Signal: sess.Exit.Signal, Offset: end}
	_ = l.conn.Write(e) // the client may be gone
	l.told.Store(true)
	return Exit{Status: sess.Exit.Code, Signal: sess.Exit.Signal}, nil
}
