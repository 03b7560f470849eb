package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"perdure/workspace"
	"perdure/workspace/screen"
	"perdure/workspace/wire"
)

// attachHistory is how many lines of history a redraw puts into the client's own scrollback.
const attachHistory = 2000

// attachment is one client that looks at a workspace through a terminal of its own.
type attachment struct {
	s        *Server
	d        workspace.Definition
	r        *Request
	keys     *keys
	readOnly bool
	link     *relay // of a client that speaks frames; nil for a terminal over SSH
	fresh    bool   // all checks were run before the session that is shown
}

// attach shows a workspace until its session ends or the client leaves.
func (s *Server) attach(ctx context.Context, r *Request, name string, readOnly bool) Exit {
	d, err := s.store.Workspace(name)
	if err != nil {
		return Exit{Status: report(err, false, r.Out, r.Err)}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &attachment{s: s, d: d, r: r, keys: readKeys(ctx, r.In), readOnly: readOnly}
	exit, err := a.run(ctx)
	if err != nil && ctx.Err() == nil {
		return Exit{Status: report(err, false, crlf{r.Out}, crlf{r.Err})}
	}
	return exit
}

func (a *attachment) run(ctx context.Context) (Exit, error) {
	sp := a.s.space(a.d.Name)
	for {
		sess := sp.live()
		if sess == nil && a.readOnly {
			return a.lastScreen(sp)
		}
		if sess == nil {
			var err error
			if sess, err = a.begin(ctx); err != nil || sess == nil {
				return Exit{Status: statusRefused}, err
			}
			a.fresh = true
		}
		exit, err := a.show(ctx, sp, sess)
		if !errors.Is(err, errHostGone) && !errors.Is(err, errNoHost) {
			return exit, err
		}
		now, loadErr := workspace.Load(sess.Dir)
		if loadErr == nil && now.State == workspace.Live {
			return exit, err // it lives but does not speak with us: never start another beside it
		}
		sp.replace(sess, orLost(now, sess))
		if errors.Is(err, errHostGone) && ctx.Err() == nil {
			return exit, &problem{statusFailed, "lost", fmt.Errorf("the session of %s was lost: %w", a.d.Name, errHostGone), "attach again: the work is verified, and a fresh session starts"}
		}
	}
}

// begin is a session where none is live, verified first.
func (a *attachment) begin(ctx context.Context) (*workspace.Session, error) {
	if a.link != nil && a.r.Term == nil {
		return a.verifyQuietly(ctx)
	}
	return a.verifyAndStart(ctx)
}

// errNoHost says that no host answered an attach; errHostGone that one broke off without an exit.
var (
	errNoHost   = errors.New("the session's host does not answer")
	errHostGone = errors.New("its host is gone")
)

// show relays one live session.
func (a *attachment) show(ctx context.Context, sp *space, sess *workspace.Session) (Exit, error) {
	if a.link != nil {
		return a.link.join(ctx, a, sp, sess)
	}
	conn, closer, err := workspace.Dial(ctx, sess.Dir)
	if err != nil {
		return Exit{Status: statusFailed}, errors.Join(errNoHost, err)
	}
	defer closer.Close()
	stop := context.AfterFunc(ctx, func() { closer.Close() })
	defer stop()

	notice := a.quick(ctx)
	t := a.r.Term
	err = conn.Write(wire.Attach{Cols: t.Cols, Rows: t.Rows, XPixel: t.XPixel, YPixel: t.YPixel, ReadOnly: a.readOnly, History: attachHistory, Term: t.Term, Client: a.r.Peer})
	if err != nil {
		return Exit{Status: statusFailed}, errors.Join(errNoHost, err)
	}
	a.enter(sp, sess, false)
	defer a.leave(sp)
	if !a.readOnly {
		defer a.s.lendAgent(sp, a.s.agentOf(a.r, sp.name), a.r.Peer)()
	}

	ctx, cancel := context.WithCancel(ctx)
	var pumps sync.WaitGroup
	pumps.Go(func() { a.sendInput(ctx, conn) })
	pumps.Go(func() { a.sendNotice(ctx, conn, notice) })
	defer pumps.Wait()
	defer cancel()
	return a.receive(conn, sess)
}

// receive copies what the session prints to the client until either ends.
func (a *attachment) receive(conn *wire.Conn, sess *workspace.Session) (Exit, error) {
	at := uint64(wire.NoOffset) // how far the client was given the output as it was printed
	for {
		f, err := conn.Read()
		if err != nil {
			if exit, ok := a.missed(sess, at); ok {
				return exit, nil
			}
			_, _ = a.r.Out.Write(screen.Restore())
			return Exit{Status: statusFailed}, errors.Join(errHostGone, err)
		}
		var data []byte
		switch f := f.(type) {
		case wire.Redraw:
			data = f.Data
		case wire.Output:
			data, at = f.Data, f.Offset+uint64(len(f.Data))
		case wire.Skipped:
			data = fmt.Appendf(nil, "\r\n[perdure: %d bytes of output were skipped]\r\n", f.Bytes)
		case wire.Exited:
			_, _ = a.r.Out.Write(screen.Restore()) // the client may be gone
			return Exit{Status: int(f.Code), Signal: f.Signal}, nil
		case wire.Fault:
			_, _ = a.r.Out.Write(screen.Restore()) // the client may be gone
			return Exit{Status: statusFailed}, fmt.Errorf("the session's host: %s", f.Message)
		}
		if _, err := a.r.Out.Write(data); err != nil {
			return Exit{Status: statusFailed}, nil // the client left
		}
	}
}

// sendInput takes the client's keys, sizes and signals to the host.
func (a *attachment) sendInput(ctx context.Context, conn *wire.Conn) {
	if held := a.keys.held; len(held) > 0 && !a.readOnly {
		if conn.Write(wire.Input{Offset: wire.NoOffset, Data: held}) != nil {
			return
		}
	}
	a.keys.held = nil
	input := a.keys.c
	signals := a.r.Signals
	for {
		var f wire.Frame
		select {
		case <-ctx.Done():
			return
		case p, ok := <-input:
			if !ok {
				input = nil // the client types no more; it may still look on
				continue
			}
			if a.readOnly {
				continue
			}
			f = wire.Input{Offset: wire.NoOffset, Data: p.data}
		case t, ok := <-a.r.Resizes:
			if !ok {
				return
			}
			a.r.Term = &t
			f = wire.Resize{Cols: t.Cols, Rows: t.Rows, XPixel: t.XPixel, YPixel: t.YPixel}
		case sig, ok := <-signals:
			if !ok {
				signals = nil
				continue
			}
			if a.readOnly {
				continue
			}
			f = wire.Signal{Name: sig}
		}
		if err := conn.Write(f); err != nil {
			return
		}
	}
}

func (a *attachment) enter(sp *space, sess *workspace.Session, resumed bool) {
	sp.mu.Lock()
	sp.viewers++
	if !a.readOnly {
		sp.typists++
	}
	sp.mu.Unlock()
	kind := "attached"
	if resumed {
		kind = "resumed"
	}
	a.s.event(sp.name, kind, map[string]any{"session": sess.ID, "by": a.r.Peer, "read_only": a.readOnly})
}

// leave counts the attachment out; the last one that may type leaves a snapshot and an observation behind.
func (a *attachment) leave(sp *space) {
	sp.mu.Lock()
	sp.viewers--
	if !a.readOnly {
		sp.typists--
	}
	last := !a.readOnly && sp.typists == 0
	sp.mu.Unlock()
	a.s.event(sp.name, "detached", map[string]any{"by": a.r.Peer})
	if !last {
		return
	}
	a.s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.s.ctx), time.Minute)
		defer cancel()
		if _, err := a.s.capture(ctx, sp.name, "disconnect", ""); err != nil {
			a.s.log.Error("snapshot on disconnect", "workspace", sp.name, "err", err)
			return
		}
		a.s.observe(ctx, sp.name, "disconnect")
	})
}

// lastScreen shows what an ended session's terminal showed, without verifying or starting anything.
func (a *attachment) lastScreen(sp *space) (Exit, error) {
	sess := sp.newest()
	if sess == nil {
		return Exit{Status: statusRefused}, refused("", "%s has no session to look at", sp.name)
	}
	v, err := lastView(sess)
	if err != nil {
		return Exit{Status: statusFailed}, err
	}
	text := strings.TrimRight(strings.Join(v.Rows, "\r\n"), "\r\n ")
	fmt.Fprintf(a.r.Out, "%s\r\n[perdure: session %s]\r\n", text, sess.State)
	return Exit{}, nil
}

// crlf writes text for a raw terminal.
type crlf struct{ w io.Writer }

func (c crlf) Write(p []byte) (int, error) {
	if _, err := io.WriteString(c.w, strings.ReplaceAll(string(p), "\n", "\r\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}
