package server

import (
	"context"
	"encoding/binary"
	"maps"
	"strings"

	"github.com/gliderlabs/ssh"
	gossh "golang.org/x/crypto/ssh"
)

const (
	maxEnvVars  = 64
	maxEnvBytes = 8 << 10
	maxTermName = 64
	// maxCols and maxRows bound what a screen costs; no real terminal is larger.
	maxCols, maxRows = 2000, 1000
	// maxSignals is how many signals may wait for a program that doesn't take them.
	maxSignals = 16
	// sftpCommand is the command that stands for the sftp subsystem, as sshd names its own.
	sftpCommand = "internal-sftp"
)

// session serves one session channel, from its opening until the client has closed it or is gone.
func (d *door) session(_ *ssh.Server, conn *gossh.ServerConn, opened gossh.NewChannel, ctx ssh.Context) {
	defer d.recovered("session channel")
	peer, ok := ctx.Value(peerKey{}).(*peerConn)
	id := identityOf(conn)
	if !ok || id == nil {
		_ = opened.Reject(gossh.Prohibited, "not authenticated")
		return
	}
	if !peer.open() {
		peer.refuse(opened, gossh.ResourceShortage, "too many sessions on this connection")
		return
	}
	defer peer.release()
	ended := make(chan struct{})
	if !d.begin(func() { <-ended }) { // shutdown waits for this goroutine, which is the library's
		_ = opened.Reject(gossh.ResourceShortage, "the server is closing")
		return
	}
	defer close(ended)
	ch, requests, err := opened.Accept()
	if err != nil {
		return // the connection is gone
	}
	s := &channel{door: d, ch: ch, id: id, resizes: make(chan Terminal, 1), signals: make(chan string, maxSignals), env: map[string]string{}}
	s.user, s.conn = conn.User(), conn
	s.serve(ctx, requests)
}

// channel is the state of one session channel. All of it belongs to the goroutine of serve.
type channel struct {
	door *door
	ch   gossh.Channel
	id   *identity
	user string
	conn *gossh.ServerConn

	agent    bool // the client's SSH agent may be asked
	env      map[string]string
	envBytes int
	term     *Terminal
	resizes  chan Terminal
	signals  chan string
	running  chan struct{} // closed when the request has been answered; nil before there is one
}

// serve answers the channel's requests. They must always be taken, or they would hold up the whole connection; so
// nothing here waits for the program.
func (s *channel) serve(ctx context.Context, requests <-chan *gossh.Request) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		s.ch.Close()
		if s.running != nil {
			<-s.running
		}
	}()
	for req := range requests {
		command, starts := s.starting(req)
		if !starts {
			_ = req.Reply(s.configure(req), nil) // fails only with the channel
			continue
		}
		_ = req.Reply(true, nil) // before the program's first byte
		s.running = make(chan struct{})
		go s.run(ctx, s.request(command))
	}
}

// starting says whether a request starts something, of which a channel may have one, and with what command.
func (s *channel) starting(req *gossh.Request) (command string, ok bool) {
	if s.running != nil {
		return "", false
	}
	switch req.Type {
	case "shell":
		return "", len(req.Payload) == 0
	case "exec":
		command, ok = onlyString(req.Payload)
		return command, ok && command != "" && !strings.ContainsRune(command, 0)
	case "subsystem":
		name, ok := onlyString(req.Payload)
		return sftpCommand, ok && name == "sftp"
	}
	return "", false
}

// configure takes a request that changes the channel, and says whether it was accepted.
func (s *channel) configure(req *gossh.Request) bool {
	switch req.Type {
	case "pty-req":
		return s.allocate(req.Payload)
	case "env":
		return s.setEnv(req.Payload)
	case "window-change":
		return s.resize(req.Payload)
	case "signal":
		name, ok := onlyString(req.Payload)
		return ok && s.signal(name)
	case agentRequest:
		allowed := len(req.Payload) == 0 && s.running == nil && !s.id.noAgent
		s.agent = s.agent || allowed
		return allowed
	case "break": // RFC 4335; to a terminal it is what interrupts
		return len(req.Payload) == 4 && s.term != nil && s.signal("INT")
	}
	return false
}

func (s *channel) allocate(payload []byte) bool {
	if s.term != nil || s.running != nil || s.id.noPty {
		return false
	}
	term, rest, ok := takeString(payload)
	if !ok || len(term) > maxTermName || !printable(term) {
		return false
	}
	size, rest, ok := takeSize(rest)
	if !ok {
		return false
	}
	// The encoded modes are those of the client's terminal; it goes raw, so they say little, and aren't used.
	if _, ok := onlyString(rest); !ok {
		return false
	}
	size.Term = term
	s.term = &size
	return true
}

func (s *channel) setEnv(payload []byte) bool {
	name, rest, ok := takeString(payload)
	if !ok || s.running != nil {
		return false
	}
	value, ok := onlyString(rest)
	if !ok || !s.mayset(name) || strings.ContainsRune(value, 0) {
		return false
	}
	bytes := s.envBytes + len(name) + len(value)
	if len(s.env) >= maxEnvVars || bytes > maxEnvBytes {
		return false
	}
	s.env[name], s.envBytes = value, bytes
	return true
}

// mayset lets through what describes the client's terminal and language; what programs on the box say to their own
// server only over the unix socket.
func (s *channel) mayset(name string) bool {
	for _, r := range name {
		if r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return false
		}
	}
	switch {
	case name == "LANG", name == "TERM", name == "COLORTERM", name == "NO_COLOR", strings.HasPrefix(name, "LC_"):
		return true
	}
	return s.id.local && strings.HasPrefix(name, "PERDURE_")
}

func (s *channel) resize(payload []byte) bool {
	size, rest, ok := takeSize(payload)
	if !ok || len(rest) > 0 || s.term == nil {
		return false
	}
	size.Term = s.term.Term
	if s.running == nil {
		s.term = &size
		return true
	}
	select {
	case s.resizes <- size:
		return true
	default:
	}
	select { // only the newest counts; this goroutine is the only one that puts sizes in
	case <-s.resizes:
	default:
	}
	s.resizes <- size
	return true
}

func (s *channel) signal(name string) bool {
	if s.running == nil || !knownSignal(name) {
		return false
	}
	select {
	case s.signals <- name:
		return true
	default:
		return false
	}
}

// request freezes what the client has asked for.
func (s *channel) request(command string) *Request {
	env := maps.Clone(s.env)
	if s.id.command != "" { // the key's own; the program may look at what was asked (sshd(8))
		if command != "" {
			env["SSH_ORIGINAL_COMMAND"] = command
		}
		command = s.id.command
	}
	r := &Request{
		User: s.user, Local: s.id.local, Peer: s.id.peer, PeerPid: s.id.pid,
		Command: command, Env: env,
		Rights: s.id.rights, In: s.ch, Out: s.ch, Err: s.ch.Stderr(),
		Resizes: s.resizes, Signals: s.signals,
	}
	if s.agent {
		r.Agent = forwardedAgent(s.conn)
	}
	if s.term != nil {
		term := *s.term
		r.Term = &term
	}
	return r
}

// run has the core answer, tells how it ended and closes the channel. serve then sees the client's own close.
func (s *channel) run(ctx context.Context, r *Request) {
	defer close(s.running)
	defer s.ch.Close()
	exit := Exit{Status: 255} // of a panic
	func() {
		defer s.door.recovered("request")
		exit = s.door.core.handle(ctx, r)
	}()
	if s.ch.CloseWrite() != nil {
		return // the client is gone: nobody to tell
	}
	if exit.Signal != "" {
		_, _ = s.ch.SendRequest("exit-signal", false, gossh.Marshal(&struct {
			Signal  string
			Core    bool
			Message string
			Lang    string
		}{Signal: exitSignalName(exit.Signal)}))
		return
	}
	_, _ = s.ch.SendRequest("exit-status", false, gossh.Marshal(&struct{ Status uint32 }{uint32(exit.Status)}))
}

// takeString reads an SSH string (RFC 4251, section 5). A length beyond the payload is refused before it is used.
func takeString(p []byte) (s string, rest []byte, ok bool) {
	if len(p) < 4 {
		return "", nil, false
	}
	n := uint64(binary.BigEndian.Uint32(p))
	if p = p[4:]; n > uint64(len(p)) {
		return "", nil, false
	}
	return string(p[:n]), p[n:], true
}

// onlyString reads a payload that is one string and nothing else.
func onlyString(p []byte) (string, bool) {
	s, rest, ok := takeString(p)
	return s, ok && len(rest) == 0
}

// takeSize reads columns, rows, and both in pixels, and brings them within bounds. A size of nothing, which some
// programs without a terminal of their own send, becomes the customary one.
func takeSize(p []byte) (t Terminal, rest []byte, ok bool) {
	if len(p) < 16 {
		return Terminal{}, nil, false
	}
	field := func(i int, most uint32) uint16 { return uint16(min(binary.BigEndian.Uint32(p[4*i:]), most)) }
	t = Terminal{Cols: field(0, maxCols), Rows: field(1, maxRows), XPixel: field(2, 0xffff), YPixel: field(3, 0xffff)}
	if t.Cols == 0 || t.Rows == 0 {
		t.Cols, t.Rows = 80, 24
	}
	return t, p[16:], true
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '/' { // a path would reach outside the terminfo folders
			return false
		}
	}
	return true
}
