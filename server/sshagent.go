package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"perdure/workspace"
)

// The names of agent forwarding (draft-ietf-sshm-ssh-agent, section 4, as OpenSSH has them).
const (
	agentRequest = "auth-agent-req@openssh.com"
	agentChannel = "auth-agent@openssh.com"
)

const (
	// agentTime is what a client has to answer that its agent is asked for. One whose link is dead is passed over.
	agentTime = 5 * time.Second
	// maxAgentConns bounds the programs of one workspace that ask an agent at one time.
	maxAgentConns = 64
)

// dialAgent reaches the SSH agent of whoever is attached.
type dialAgent func(context.Context) (io.ReadWriteCloser, error)

// forwardedAgent asks a client for its agent.
func forwardedAgent(conn *gossh.ServerConn) dialAgent {
	return func(context.Context) (io.ReadWriteCloser, error) {
		ch, requests, err := conn.OpenChannel(agentChannel, nil)
		if err != nil {
			return nil, err
		}
		go gossh.DiscardRequests(requests) // ends with the channel
		return ch, nil
	}
}

// agentAt is an agent on this machine: of a person who attaches on the box, or whose relay another SSH server runs.
func agentAt(path string) dialAgent {
	return func(ctx context.Context) (io.ReadWriteCloser, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
}

// lentAgents are the SSH agents of those who are attached to one workspace. Its sessions reach the newest by a socket
// whose path never changes, and which is there only while an agent is.
type lentAgents struct {
	mu   sync.Mutex
	list []*dialAgent // newest last
	l    net.Listener
}

// agentSocket is SSH_AUTH_SOCK of a workspace's sessions.
func (s *Server) agentSocket(name string) (string, error) {
	return workspace.SocketPath(filepath.Join(s.workspaceDir(name), "agent.sock"))
}

// lendAgent makes a client's agent the one that the workspace's sessions reach, until it is taken back.
func (s *Server) lendAgent(sp *space, dial dialAgent, peer string) (takeBack func()) {
	if dial == nil {
		return func() {}
	}
	a := &sp.agents
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.l == nil {
		l, err := s.listenAgent(sp.name)
		if err != nil {
			s.log.Warn("an SSH agent can't be lent", "workspace", sp.name, "err", err)
			return func() {}
		}
		a.l = l
		s.wg.Go(func() { s.serveAgents(a, l) })
	}
	own := &dial
	a.list = append(a.list, own)
	s.log.Info("SSH agent forwarded", "workspace", sp.name, "peer", peer)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.list = slices.DeleteFunc(a.list, func(d *dialAgent) bool { return d == own })
		if len(a.list) == 0 && a.l != nil {
			a.l.Close() // which removes the socket: no program waits for an agent that isn't there
			a.l = nil
		}
	}
}

func (s *Server) listenAgent(name string) (net.Listener, error) {
	path, err := s.agentSocket(name)
	if err != nil {
		return nil, err
	}
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(path) // of a server that was killed; if it stays, listening says so
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for programs that ask for the agent: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// serveAgents takes in the programs that ask, until the last agent is gone.
func (s *Server) serveAgents(a *lentAgents, l net.Listener) {
	stop := context.AfterFunc(s.ctx, func() { l.Close() })
	defer stop()
	slots := make(chan struct{}, maxAgentConns)
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			if transient(err) {
				time.Sleep(50 * time.Millisecond) // for descriptors to come free
				continue
			}
			return // closed
		}
		if u, ok := c.(*net.UnixConn); !ok || !ownUser(u) {
			c.Close()
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			c.Close()
			continue
		}
		asking.Go(func() {
			defer func() { <-slots }()
			defer c.Close()
			s.ask(a, c)
		})
	}
}

// ask joins a program to the newest agent that answers.
func (s *Server) ask(a *lentAgents, c net.Conn) {
	defer func() {
		if r := recover(); r != nil { // the agent's bytes are a peer's
			s.log.Error("panic", "in", "agent forwarding", "value", fmt.Sprint(r))
		}
	}()
	a.mu.Lock()
	list := slices.Clone(a.list)
	a.mu.Unlock()
	for _, dial := range slices.Backward(list) {
		agent, err := answerWithin(s.ctx, *dial)
		if err != nil {
			continue // the one before may still be there
		}
		stop := context.AfterFunc(s.ctx, func() { agent.Close(); c.Close() })
		defer stop()
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(c, agent); c.Close() })
		both.Go(func() { _, _ = io.Copy(agent, c); agent.Close() })
		both.Wait()
		return
	}
}

// answerWithin reaches an agent in the time it has. A client that doesn't answer leaves a goroutine, which ends with
// its connection, and that within the time for dead peers.
func answerWithin(ctx context.Context, dial dialAgent) (io.ReadWriteCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	type answer struct {
		agent io.ReadWriteCloser
		err   error
	}
	got := make(chan answer)
	go func() {
		agent, err := dial(ctx)
		select {
		case got <- answer{agent, err}:
		case <-ctx.Done():
			if err == nil {
				agent.Close()
			}
		}
	}()
	select {
	case a := <-got:
		return a.agent, a.err
	case <-ctx.Done():
		return nil, errors.New("the agent's client does not answer")
	}
}

// agentOf is the agent that a request brings: the connection's, or for one that came over the unix socket the one
// that the calling process has. The workspace's own is not lent to it again.
func (s *Server) agentOf(r *Request, name string) dialAgent {
	path := r.Env["PERDURE_SSH_AUTH_SOCK"]
	if !r.Local || path == "" {
		return r.Agent
	}
	if own, err := s.agentSocket(name); err != nil || !filepath.IsAbs(path) || filepath.Clean(path) == own {
		return nil
	}
	return agentAt(path)
}

// holds says whether an agent is there.
func (a *lentAgents) holds() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.list) > 0
}
