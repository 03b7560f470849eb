package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	gossh "golang.org/x/crypto/ssh"
)

// authority says what a certificate adds to the line of the authority that signed it: it must be a user's, in force,
// signed by an algorithm that is still believed, and name a principal that the line wants, or without those the
// account that the server runs as. Its own restrictions narrow the line's (PROTOCOL.certkeys of OpenSSH).
func (g *grant) authority(cert *gossh.Certificate, login string, from netip.Addr, now time.Time) error {
	if cert.CertType != gossh.UserCert {
		return errors.New("the certificate is not a user's")
	}
	if err := strong(cert.Key); err != nil {
		return err
	}
	if err := strong(cert.SignatureKey); err != nil {
		return fmt.Errorf("the authority's key: %w", err)
	}
	if cert.Signature == nil || !slices.Contains(keyAlgorithms, cert.Signature.Format) {
		return errors.New("the certificate is signed by an algorithm that is not believed")
	}
	principal, err := g.principal(cert, login)
	if err != nil {
		return err
	}
	// The library checks the validity, the signature and that no critical option is unknown.
	checker := gossh.CertChecker{
		Clock:                    func() time.Time { return now },
		SupportedCriticalOptions: []string{"force-command", "source-address"},
	}
	if err := checker.CheckCert(principal, cert); err != nil {
		return err
	}
	return g.narrow(cert, from)
}

// principal finds one that both sides name. A certificate without any is for everyone, which is refused, as sshd does
// for a trusted authority.
func (g *grant) principal(cert *gossh.Certificate, login string) (string, error) {
	wanted := g.principals
	if len(wanted) == 0 {
		wanted = []string{login}
	}
	for _, p := range cert.ValidPrincipals {
		if slices.Contains(wanted, p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("the certificate is for none of %s", strings.Join(wanted, ", "))
}

func (g *grant) narrow(cert *gossh.Certificate, from netip.Addr) error {
	if list, ok := cert.CriticalOptions["source-address"]; ok {
		match, err := matchNetworks(list, from)
		if err != nil {
			return err
		}
		if !match {
			return fmt.Errorf("the certificate is not for use from %s", from)
		}
	}
	if command, ok := cert.CriticalOptions["force-command"]; ok {
		if command == "" || g.command != "" && g.command != command {
			return errors.New("the certificate's forced command and the line's differ")
		}
		g.command = command
	}
	// What a certificate doesn't permit is refused.
	has := func(name string) bool { _, ok := cert.Extensions[name]; return ok }
	g.noPty = g.noPty || !has("permit-pty")
	g.forward.none = g.forward.none || !has("permit-port-forwarding")
	g.noAgent = g.noAgent || !has("permit-agent-forwarding")
	g.noTouch = g.noTouch && has("no-touch-required")
	return nil
}

// matchNetworks reads a certificate's source-address: addresses and networks in CIDR form, without wildcards.
func matchNetworks(list string, from netip.Addr) (bool, error) {
	match := false
	for text := range strings.SplitSeq(list, ",") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, addrErr := netip.ParseAddr(text)
			if addrErr != nil {
				return false, fmt.Errorf("source-address: %q is no network", text)
			}
			p = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())
		}
		match = match || p.Contains(from)
	}
	return match, nil
}

// signer is the key whose line admits: a plain key's own, a certificate's authority.
func signer(key gossh.PublicKey) (blob []byte, cert *gossh.Certificate) {
	if c, ok := key.(*gossh.Certificate); ok {
		return c.SignatureKey.Marshal(), c
	}
	return key.Marshal(), nil
}

// admits checks one line of a key file against a key. ok is false where the line is of another key.
func admits(line []byte, key gossh.PublicKey, login string, from netip.Addr, now time.Time) (g grant, ok bool, err error) {
	want, cert := signer(key)
	k, _, options, _, err := gossh.ParseAuthorizedKey(line)
	if err != nil || !bytes.Equal(k.Marshal(), want) {
		return grant{}, false, nil
	}
	if g, err = parseGrant(options); err != nil {
		return grant{}, true, err
	}
	// An authority's key opens nothing by itself, and a plain line's key signs for nobody.
	if g.isAuthority != (cert != nil) {
		return grant{}, false, nil
	}
	if len(g.principals) > 0 && cert == nil {
		return grant{}, true, errors.New("option principals is for cert-authority lines")
	}
	if err := g.check(from, now); err != nil {
		return grant{}, true, err
	}
	if cert != nil {
		err = g.authority(cert, login, from, now)
	}
	return g, true, err
}
