package server

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"strings"
	"time"
)

// grant is what one line of authorized_keys allows its key.
type grant struct {
	from    string // pattern list; "" allows every address
	expires time.Time
	command string
	noPty   bool
	noTouch bool
	noAgent bool // forwards no SSH agent

	isAuthority bool     // the key signs certificates
	principals  []string // of which a certificate must name one
	forward     forwardRules
	rights      rights
}

// parseGrant reads a line's options. One that isn't known rejects the line, since it may be meant to restrict it.
func parseGrant(options []string) (grant, error) {
	var g grant
	for _, option := range options {
		name, value, valued := strings.Cut(option, "=")
		name = strings.ToLower(name)
		value, err := unquote(value, valued)
		if err != nil {
			return grant{}, fmt.Errorf("option %s: %w", name, err)
		}
		if err := g.set(name, value, valued); err != nil {
			return grant{}, err
		}
	}
	return g, nil
}

func (g *grant) set(name, value string, valued bool) error {
	unknown := fmt.Errorf("option %q is not supported", name)
	if valued {
		switch name {
		case "command":
			if g.command != "" || value == "" {
				return errors.New("option command is empty or repeated")
			}
			g.command = value
		case "from":
			if g.from != "" || value == "" {
				return errors.New("option from is empty or repeated")
			}
			g.from = value
		case "expiry-time":
			t, err := parseExpiry(value)
			if err != nil {
				return err
			}
			if g.expires.IsZero() || t.Before(g.expires) {
				g.expires = t
			}
		case "permitopen":
			return permit(&g.forward.opens, name, value, "")
		case "permitlisten":
			return permit(&g.forward.listens, name, value, "localhost")
		case "principals":
			if len(g.principals) > 0 || value == "" {
				return errors.New("option principals is empty or repeated")
			}
			for p := range strings.SplitSeq(value, ",") {
				g.principals = append(g.principals, strings.TrimSpace(p))
			}
		case "perdure-workspaces":
			return g.rights.limit(value)
		default:
			return unknown
		}
		return nil
	}
	switch name {
	case "perdure-read-only":
		g.rights.readOnly, g.rights.noCommands, g.forward.none, g.noAgent = true, true, true, true
	case "perdure-no-commands":
		g.rights.noCommands = true
	case "restrict":
		g.noPty, g.forward.none, g.noAgent = true, true, true
	case "no-port-forwarding":
		g.forward.none = true
	case "port-forwarding": // after restrict; one who only watches forwards nothing
		g.forward.none = g.rights.readOnly
	case "no-pty":
		g.noPty = true
	case "pty": // after restrict
		g.noPty = false
	case "no-touch-required":
		g.noTouch = true
	case "cert-authority":
		g.isAuthority = true
	case "no-agent-forwarding":
		g.noAgent = true
	case "agent-forwarding": // after restrict
		g.noAgent = g.rights.readOnly
	case "no-x11-forwarding", "x11-forwarding", "no-user-rc", "user-rc":
		// Nothing of these is offered to anyone.
	default:
		return unknown
	}
	return nil
}

func permit(list *[]hostPort, name, value, alone string) error {
	p, err := parseHostPort(value, alone)
	if err != nil {
		return fmt.Errorf("option %s: %w", name, err)
	}
	*list = append(*list, p)
	return nil
}

func (g *grant) check(from netip.Addr, now time.Time) error {
	if !g.expires.IsZero() && !now.Before(g.expires) {
		return errors.New("the key has expired")
	}
	if g.from == "" {
		return nil
	}
	ok, err := matchAddress(g.from, from)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("the key is not for use from %s", from)
	}
	return nil
}

// unquote takes the quotes off; a quote inside is written \".
func unquote(s string, valued bool) (string, error) {
	if !valued {
		return "", nil
	}
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return "", errors.New("the value is not in quotes")
	}
	return strings.ReplaceAll(s[1:len(s)-1], `\"`, `"`), nil
}

// parseExpiry reads YYYYMMDD[Z] or YYYYMMDDHHMM[SS][Z]; local time without the Z (sshd(8)).
func parseExpiry(s string) (time.Time, error) {
	zone := time.Local
	digits, utc := strings.CutSuffix(s, "Z")
	if utc {
		zone = time.UTC
	}
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(layout) != len(digits) {
			continue
		}
		if t, err := time.ParseInLocation(layout, digits, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("option expiry-time: %q is no time", s)
}

// matchAddress reads a pattern list of addresses, networks in CIDR form and wildcards; a match of a negated pattern
// refuses, whatever else matches. Names never match: nobody is looked up.
func matchAddress(list string, from netip.Addr) (bool, error) {
	matched := false
	for pattern := range strings.SplitSeq(list, ",") {
		pattern, negated := strings.CutPrefix(strings.TrimSpace(pattern), "!")
		hit := false
		if strings.Contains(pattern, "/") {
			network, err := netip.ParsePrefix(pattern)
			if err != nil {
				return false, fmt.Errorf("option from: %w", err)
			}
			hit = network.Contains(from)
		} else if addr, err := netip.ParseAddr(pattern); err == nil {
			hit = addr.Unmap() == from
		} else {
			// Only * and ? are wildcards here, and an address holds none of path.Match's other signs.
			hit, err = path.Match(strings.NewReplacer(`\`, `\\`, "[", `\[`).Replace(pattern), from.String())
			if err != nil {
				return false, fmt.Errorf("option from: %w", err)
			}
		}
		if hit && negated {
			return false, nil
		}
		matched = matched || hit
	}
	return matched, nil
}
