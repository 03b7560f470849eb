package server

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"perdure/workspace"
)

// caller is who asks: a person, or the agent of one workspace.
type caller struct {
	agentOf string // "" for a person
	inside  string // the workspace whose session the call came from, person or agent
	name    string // for logs and records
}

func (c caller) author() string {
	if c.agentOf != "" {
		return "agent"
	}
	return "person"
}

// mayActFor refuses an agent that acts for another's workspace.
func (c caller) mayActFor(ws string) error {
	if c.agentOf == "" || c.agentOf == ws {
		return nil
	}
	return refused("an agent records, repairs and verifies only for its own workspace", "%s is not the workspace of this session (%s)", ws, c.agentOf)
}

// mustBePerson refuses every agent.
func (c caller) mustBePerson(what string) error {
	if c.agentOf == "" {
		return nil
	}
	return refused("ask the person to do it", "only a person may %s", what)
}

// identify tells who calls. On the network the key decides: a person. On the local socket the calling process is
// walked up to a session's host, since a secret in the environment would be inherited by anything; where the walk
// finds none, the session that the caller names counts. Shell workspaces and repair shells are the person.
func (s *Server) identify(r *Request) caller {
	c := caller{name: r.Peer}
	if !r.Local {
		return c
	}
	sp, sess := s.sessionOfProcess(r.PeerPid)
	if sess == nil {
		sp, sess = s.sessionByID(r.Env["PERDURE_SESSION"])
	}
	if sess == nil {
		return c
	}
	c.inside = sp.name
	d, err := s.store.Workspace(sp.name)
	if err == nil && !d.Person() && !repairShell(sess) {
		c.agentOf = sp.name
	}
	return c
}

// repairShell says whether a session is the person's shell in a repair.
func repairShell(sess *workspace.Session) bool { return sess.Repair && shellArgv(sess.Argv) }

func (s *Server) sessionOfProcess(pid int) (*space, *workspace.Session) {
	hosts := map[int]*space{}
	for _, sp := range s.allSpaces() {
		if sess := sp.live(); sess != nil {
			hosts[sess.HostPid] = sp
		}
	}
	for range 64 { // deeper trees than this are not a session's
		if pid <= 1 {
			return nil, nil
		}
		if sp, ok := hosts[pid]; ok {
			return sp, sp.live()
		}
		pid = parentOf(pid)
	}
	return nil, nil
}

func (s *Server) sessionByID(id string) (*space, *workspace.Session) {
	if id == "" {
		return nil, nil
	}
	for _, sp := range s.allSpaces() {
		if sess := sp.live(); sess != nil && sess.ID == id {
			return sp, sess
		}
	}
	return nil, nil
}

// parentOf reads the parent from /proc/PID/stat (proc(5)); the command's name in it may hold spaces and parentheses.
func parentOf(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	i := bytes.LastIndexByte(data, ')')
	if i < 0 {
		return 0
	}
	fields := bytes.Fields(data[i+1:])
	if len(fields) < 2 {
		return 0
	}
	ppid, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0
	}
	return ppid
}
