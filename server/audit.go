package server

import (
	"errors"
	"path/filepath"
	"strings"

	gossh "golang.org/x/crypto/ssh"

	"perdure/server/store"
)

// maxAudited bounds what is told of one connection: who forwards a thousand times to one place has done one thing,
// and nobody fills the log by asking.
const maxAudited = 256

// audited notes what a verified person did or was refused at the door, once for each connection.
func (d *door) audited(peer *peerConn, conn *gossh.ServerConn, id *identity, kind, what string, err error) {
	fields := map[string]any{"by": id.peer, "what": what}
	if err != nil {
		fields["why"] = err.Error()
	}
	d.log.Info(kind, "user", conn.User(), "fields", fields)
	if d.opts.Audit != nil && peer.first(kind+" "+what) {
		d.opts.Audit(conn.User(), kind, fields)
	}
}

// first says whether this is told for the first time, and may be.
func (c *peerConn) first(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.audited == nil {
		c.audited = map[string]bool{}
	}
	if c.audited[what] || len(c.audited) >= maxAudited {
		return false
	}
	c.audited[what] = true
	return true
}

// audit writes an event of the workspace that a connection's user names, or of none.
func (s *Server) audit(user, kind string, fields map[string]any) {
	if _, err := s.store.Workspace(user); errors.Is(err, store.ErrNotFound) {
		fields["user"] = clip(user, 64)
		user = ""
	}
	s.event(user, kind, fields)
}

// program is what an event says of a command: its first word. The others may hold what is nobody's to read.
func program(command string) string {
	words := strings.Fields(command)
	for len(words) > 1 && strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "=") {
		words = words[1:] // a variable before the program
	}
	if len(words) == 0 {
		return "a shell"
	}
	if strings.Contains(words[0], "=") {
		return "an assignment"
	}
	return clip(filepath.Base(strings.Trim(words[0], `'"`)), 64)
}
