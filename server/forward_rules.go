package server

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// forwardRules are what a key may forward. Without permitopen it may connect to anything, as a shell of its could;
// without permitlisten it may listen on the loopback addresses only.
type forwardRules struct {
	none    bool
	local   bool // listens on the loopback only, whatever the key says
	opens   []hostPort
	listens []hostPort
}

// hostPort is one permitopen or permitlisten. Hosts are compared as written: no name is looked up.
type hostPort struct {
	host string // "*" is every host
	port int    // 0 is every port
}

// parseHostPort reads [host:]port; alone is the host where only a port is given, "" if there must be one.
func parseHostPort(s, alone string) (hostPort, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		if alone == "" || strings.ContainsAny(s, ":[]") {
			return hostPort{}, fmt.Errorf("%q is not host:port", s)
		}
		host, port = alone, s
	}
	if host == "" {
		return hostPort{}, fmt.Errorf("%q names no host", s)
	}
	if port == "*" {
		return hostPort{host: host}, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return hostPort{}, fmt.Errorf("%q has no port", s)
	}
	return hostPort{host: host, port: int(n)}, nil
}

func (p hostPort) covers(host string, port int) bool {
	return (p.port == 0 || p.port == port) && (p.host == "*" || strings.EqualFold(p.host, host))
}

func (r forwardRules) mayOpen(host string, port int) bool {
	if r.none {
		return false
	}
	for _, p := range r.opens {
		if p.covers(host, port) {
			return true
		}
	}
	return len(r.opens) == 0
}

// mayListen says whether the key may listen at host, with "" and "*" for every address of the box. Addresses that
// others can reach need a permitlisten that names them, or all.
func (r forwardRules) mayListen(host string, port int) bool {
	if r.none || r.local && !loopback(host) {
		return false
	}
	if host == "" {
		host = "*"
	}
	for _, p := range r.listens {
		if p.covers(host, port) || (p.host == "localhost" && loopback(host) && (p.port == 0 || p.port == port)) {
			return true
		}
	}
	return len(r.listens) == 0 && loopback(host)
}

// mayUnix says whether the key may reach and make unix sockets. One that is held to a command, to workspaces or to ports may
// not: the server's own socket, which asks for no key, would let it out of that.
func (r forwardRules) mayUnix(id *identity) bool {
	return !r.none && len(r.opens) == 0 && len(r.listens) == 0 && id.command == "" && !id.rights.noCommands && len(id.rights.workspaces) == 0
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
