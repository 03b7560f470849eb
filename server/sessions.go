package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"perdure/handoff"
	"perdure/workspace"
)

// adoptBudget bounds how long one dead host can delay the server's start.
const adoptBudget = 2 * time.Second

// stopGrace is how long a session has to end by itself before it is killed.
const stopGrace = 5 * time.Second

// space is what the server knows of a workspace at run time; all that must last is in the store.
type space struct {
	name string
	work sync.Mutex // one start, snapshot or removal at a time

	mu       sync.Mutex
	session  *workspace.Session // the newest, or nil
	typists  int                // attachments that may type
	viewers  int
	status   *workspace.Status  // what the live session's host said last
	hook     *hookReport        // what the session's agent said last
	hooked   string             // the session that hook is of
	told     doing              // what events were last made of
	running  *verification      // a full one, at most one
	quick    *verification      // of quick checks, at most one
	last     time.Time          // the last output that an interval snapshot has seen
	taken    time.Time          // when the last interval snapshot was looked for
	failed   *failure           // since when no snapshot can be taken, nil if one can
	consents map[string]consent // by hash; nil until they are asked for
	visits   []*visit           // a person's commands in the directory, the newest last
	agents   lentAgents         // has a lock of its own
	// retrying: a verification whose environment wasn't ready is tried again.
	retrying bool
}

func (sp *space) live() *workspace.Session {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.session != nil && sp.session.State == workspace.Live {
		return sp.session
	}
	return nil
}

// watching is the number of attachments.
func (sp *space) watching() int {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.typists + sp.viewers
}

func (sp *space) newest() *workspace.Session {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.session
}

func (sp *space) set(sess *workspace.Session) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.session = sess
}

// replace puts what became of a session in its place, unless a newer one has taken it.
func (sp *space) replace(old, now *workspace.Session) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.session != nil && sp.session.ID == old.ID {
		sp.session = now
	}
}

func (s *Server) space(name string) *space {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spaces[name]
	if sp == nil {
		sp = &space{name: name}
		s.spaces[name] = sp
	}
	return sp
}

func (s *Server) allSpaces() []*space {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*space, 0, len(s.spaces))
	for _, sp := range s.spaces {
		out = append(out, sp)
	}
	slices.SortFunc(out, func(a, b *space) int { return strings.Compare(a.name, b.name) })
	return out
}

func (s *Server) workspaceDir(name string) string {
	return filepath.Join(s.opts.State, "workspaces", name)
}

// adopt finds the sessions of earlier servers: hosts that answer are live, the rest ended or lost.
func (s *Server) adopt(ctx context.Context) error {
	all, err := s.store.Workspaces()
	if err != nil {
		return fmt.Errorf("read the workspaces: %w", err)
	}
	known := map[string]bool{}
	for _, d := range all {
		known[d.Name] = true
		s.space(d.Name)
	}
	sessions, errs := workspace.Scan(filepath.Join(s.opts.State, "workspaces"), adoptBudget)
	for _, err := range errs {
		s.log.Warn("a session folder can't be read; it is left as it is", "err", err)
	}
	for _, sess := range sessions {
		if !known[sess.Workspace] {
			continue
		}
		sp := s.space(sess.Workspace)
		if old := sp.newest(); old != nil && old.ID > sess.ID && old.State == workspace.Live {
			continue
		}
		if old := sp.newest(); old == nil || old.ID < sess.ID || sess.State == workspace.Live {
			sp.set(sess)
		}
	}
	for _, sp := range s.allSpaces() {
		s.recallFailure(sp)
		s.welcome(ctx, sp)
	}
	return nil
}

// welcome says what became of a workspace's session, once, and watches the live ones.
func (s *Server) welcome(ctx context.Context, sp *space) {
	sess := sp.newest()
	if sess == nil {
		return
	}
	switch sess.State {
	case workspace.Live:
		s.watchDrop(sp.name)
		s.event(sp.name, "adopted", map[string]any{"session": sess.ID, "pid": sess.Pid})
		s.wg.Go(func() { s.watch(ctx, sp, sess) })
	case workspace.Lost:
		if !s.alreadyTold(sp.name, "lost", sess.ID) {
			s.event(sp.name, "lost", map[string]any{"session": sess.ID})
		}
	case workspace.Ended:
		if !s.alreadyTold(sp.name, "ended", sess.ID) {
			s.event(sp.name, "ended", endFields(sess))
		}
	}
}

func (s *Server) alreadyTold(ws, kind, session string) bool {
	told, err := s.store.Told(ws, kind, session)
	return err == nil && told
}

func endFields(sess *workspace.Session) map[string]any {
	f := map[string]any{"session": sess.ID}
	if sess.Exit != nil {
		f["exit"] = sess.Exit.Code
		if sess.Exit.Signal != "" {
			f["signal"] = sess.Exit.Signal
		}
	}
	return f
}

// watch waits for a session's end, and then keeps what it left behind.
func (s *Server) watch(ctx context.Context, sp *space, sess *workspace.Session) {
	ended := s.waitEnd(ctx, sp, sess)
	if ended == nil {
		return // the server goes; the session stays
	}
	sp.replace(sess, ended)
	if ended.State == workspace.Lost {
		s.event(sp.name, "lost", map[string]any{"session": ended.ID})
	} else {
		s.event(sp.name, "ended", endFields(ended))
	}
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if _, _, err := s.captureIfChanged(done, sp.name, "exit"); err != nil {
		s.log.Error("snapshot at the session's end", "workspace", sp.name, "err", err)
	}
	s.observe(done, sp.name, "exit")
}

// waitEnd holds a connection to the host, which ends when the host does; then the session folder tells how.
func (s *Server) waitEnd(ctx context.Context, sp *space, sess *workspace.Session) *workspace.Session {
	for ctx.Err() == nil {
		conn, closer, err := workspace.Dial(ctx, sess.Dir)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { closer.Close() })
			s.hear(sp, sess, conn)
			stop()
			closer.Close()
		}
		if ctx.Err() != nil {
			return nil
		}
		now, err := workspace.Load(sess.Dir)
		if err != nil || now.State != workspace.Live {
			return orLost(now, sess)
		}
		select { // the host still winds up, or answers anew: look again, gently
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// orLost is what was read of a session, or the session as lost where its folder can no longer tell.
func orLost(now, before *workspace.Session) *workspace.Session {
	if now != nil {
		return now
	}
	lost := *before
	lost.State = workspace.Lost
	return &lost
}

// startOptions say how a session starts.
type startOptions struct {
	term    *Terminal
	env     map[string]string // the client's, already filtered by the door
	repair  bool
	shell   bool // the person's shell in place of the workspace's command
	verdict handoff.Verdict
}

// startSession starts a session; the caller has verified first and holds no lock.
func (s *Server) startSession(ctx context.Context, d workspace.Definition, o startOptions) (*workspace.Session, error) {
	sp := s.space(d.Name)
	sp.work.Lock()
	defer sp.work.Unlock()
	if sess := sp.live(); sess != nil {
		return sess, nil // somebody else was first
	}
	if err := s.mayStart(d.Name, o.repair); err != nil {
		return nil, err
	}
	if _, err := s.writeBrief(ctx, d); err != nil {
		return nil, err
	}
	id := newID()
	run, agentEnv, err := s.launch(d, id)
	if err != nil {
		return nil, err
	}
	req := workspace.StartRequest{
		Definition: d, ID: id, SessionDir: filepath.Join(s.workspaceDir(d.Name), "sessions", id), Dir: d.Dir,
		Argv: s.sessionArgv(run, o.shell), Repair: o.repair, Executable: s.opts.Executable, Cols: 80, Rows: 24, Term: "xterm-256color",
		JournalBytes: int64(s.conf().Journal.Size),
	}
	if o.term != nil && o.term.Cols > 0 && o.term.Rows > 0 {
		req.Cols, req.Rows, req.Term = o.term.Cols, o.term.Rows, o.term.Term
	}
	req.Env = append(s.sessionEnv(d, id, req.Term, o), agentEnv...)
	s.watchDrop(d.Name)
	sess, err := workspace.Start(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("start a session of %s: %w", d.Name, err)
	}
	sp.set(sess)
	s.event(d.Name, "started", map[string]any{"session": sess.ID, "pid": sess.Pid, "repair": o.repair, "verdict": string(o.verdict)})
	s.wg.Go(func() { s.watch(s.ctx, sp, sess) })
	return sess, nil
}

// mayStart is the gate that no ordinary session passes while its workspace is halted.
func (s *Server) mayStart(name string, repair bool) error {
	if repair {
		return nil
	}
	h, err := s.store.Halt(name)
	if err != nil {
		return fmt.Errorf("read the halt: %w", err)
	}
	if h == nil {
		return nil
	}
	return refused(fmt.Sprintf("see `perdure handoff verify %[1]s`, then `perdure handoff repair %[1]s …` or `perdure handoff override %[1]s --because T`", name),
		"%s is halted: %s", name, h.Reason)
}

// sessionArgv starts the command through the login shell, so that the person's own set-up applies. PATH is put
// together after the profile ran, since many a profile sets it anew: a command finds first what its workspace's checks
// find, the person's shell what they are used to, and both find perdure.
func (s *Server) sessionArgv(d workspace.Definition, shell bool) []string {
	sh := loginShell()
	own := ":" + quote(filepath.Dir(s.opts.Executable)) + "; export PATH; "
	if shell || len(d.Command) == 0 {
		return []string{sh, "-l", "-c", `PATH="$PATH"` + own + "exec " + quote(sh) + " -i"}
	}
	path := `PATH="$PATH"` + own
	if d.Path != "" {
		path = "PATH=" + quote(d.Path) + `:"$PATH"` + own
	}
	words := make([]string, len(d.Command))
	for i, w := range d.Command {
		words[i] = quote(w)
	}
	return []string{sh, "-l", "-c", path + "exec " + strings.Join(words, " ")}
}

// shellArgv tells the argument list of a person's shell, as sessionArgv makes it, from an agent's.
func shellArgv(argv []string) bool {
	return len(argv) == 4 && strings.HasSuffix(argv[3], "; export PATH; exec "+quote(argv[0])+" -i")
}

func loginShell() string {
	if sh := os.Getenv("SHELL"); filepath.IsAbs(sh) {
		return sh
	}
	return "/bin/sh"
}

// quote makes one word of a POSIX shell.
func quote(w string) string { return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'" }

// sessionEnv is the server's environment less what belongs to other terminals and other servers, with the client's
// locale and perdure's own variables.
func (s *Server) sessionEnv(d workspace.Definition, id, term string, o startOptions) []string {
	env := s.baseEnv(d, o.env)
	verdict := o.verdict
	if verdict == "" {
		verdict = handoff.Unrecorded
	}
	sock, _ := SocketPath(s.opts.State) // serve has listened there, so it is known to be good
	agent, err := s.agentSocket(d.Name)
	if err == nil { // without it, programs say that there is no agent
		env = append(env, "SSH_AUTH_SOCK="+agent)
	}
	return append(env,
		"TERM="+term,
		"PERDURE_WORKSPACE="+d.Name,
		"PERDURE_SESSION="+id,
		"PERDURE_SOCKET="+sock,
		"PERDURE_STATE="+s.opts.State,
		"PERDURE_DROP="+s.dropDir(d.Name),
		"PERDURE_BRIEF="+filepath.Join(s.workspaceDir(d.Name), "brief.md"),
		"PERDURE_VERDICT="+string(verdict),
	)
}

// baseEnv is what a command or a session of the workspace starts from.
func (s *Server) baseEnv(d workspace.Definition, client map[string]string) []string {
	var env []string
	for _, kv := range os.Environ() {
		k, _, _ := strings.Cut(kv, "=")
		switch {
		case k == "TERM" || k == "COLORTERM" || k == "TMUX" || k == "TMUX_PANE" || k == "STY" || k == "PATH" || k == "PWD" || k == "OLDPWD" || k == "NOTIFY_SOCKET":
		case strings.HasPrefix(k, "SSH_") || strings.HasPrefix(k, "PERDURE_"):
		case client[k] != "":
		default:
			env = append(env, kv)
		}
	}
	for k, v := range client {
		if k == "COLORTERM" || k == "LANG" || strings.HasPrefix(k, "LC_") {
			env = append(env, k+"="+v)
		}
	}
	path := d.Path
	if path == "" {
		path = os.Getenv("PATH")
	}
	return append(env, "PATH="+path+":"+filepath.Dir(s.opts.Executable))
}

// newID is a ULID of now: ids sort by time (github.com/ulid/spec).
func newID() string { return ulid.Make().String() }

// stopSession ends a session and waits until its host is gone.
func (s *Server) stopSession(ctx context.Context, name, signal string) error {
	sp := s.space(name)
	sess := sp.live()
	if sess == nil {
		return nil
	}
	if err := sess.Stop(ctx, signal, stopGrace); err != nil {
		return fmt.Errorf("stop the session of %s: %w", name, err)
	}
	now, err := workspace.Load(sess.Dir)
	if err == nil && now.State != workspace.Live {
		sp.replace(sess, now)
	}
	return nil
}
