package server

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// maxKeyFile bounds an authorized_keys file, since it is read at each attempt.
const maxKeyFile = 1 << 20

var errDenied = errors.New("permission denied")

// gate decides who enters by one connection.
type gate struct {
	door  *door
	conn  *peerConn
	named bool
	user  string
}

// sameUser pins the first name that was tried, as OpenSSH does, so that an attempt under one name can never count
// for another. The library calls it on the connection's own goroutine only.
func (g *gate) sameUser(m gossh.ConnMetadata) error {
	if g.named && g.user != m.User() {
		return fmt.Errorf("the user name changed: %w", errDenied)
	}
	g.named, g.user = true, m.User()
	return nil
}

// none lets the unix socket's peers in: the kernel has named them. Everyone else needs a key.
func (g *gate) none(m gossh.ConnMetadata) (*gossh.Permissions, error) {
	if err := g.sameUser(m); err != nil {
		return nil, err
	}
	if !g.conn.local() {
		return nil, gossh.ErrNoAuth
	}
	return permissions(g.conn.kernel), nil
}

// publicKey is asked when a key is merely offered, too. So it must leave nothing behind: what it returns counts only
// once the library has verified the signature of this very key.
func (g *gate) publicKey(m gossh.ConnMetadata, key gossh.PublicKey) (*gossh.Permissions, error) {
	if err := g.sameUser(m); err != nil {
		return nil, err
	}
	grant, err := g.door.rules.Load().keys.admit(key, g.door.opts.Login, addressOf(m.RemoteAddr()), time.Now())
	if err != nil {
		return nil, err
	}
	rules := g.door.rules.Load()
	grant.forward.none = grant.forward.none || !rules.Forwarding
	grant.noAgent = grant.noAgent || !rules.AgentForwarding
	grant.forward.local = !rules.GatewayPorts
	p := permissions(&identity{
		peer:    fmt.Sprintf("%s from %s", nameOf(key), m.RemoteAddr()),
		command: grant.command, noPty: grant.noPty, noAgent: grant.noAgent, forward: grant.forward, rights: grant.rights,
	})
	if grant.noTouch {
		p.Extensions = map[string]string{"no-touch-required": ""} // the library honours this one itself
	}
	return p, nil
}

// nameOf is how a key is called in what is logged: by its fingerprint, and a certificate by the id and serial number
// that its authority gave it.
func nameOf(key gossh.PublicKey) string {
	if c, ok := key.(*gossh.Certificate); ok {
		return fmt.Sprintf("%s (certificate %q, serial %d, of %s)", gossh.FingerprintSHA256(c.Key), c.KeyId, c.Serial, gossh.FingerprintSHA256(c.SignatureKey))
	}
	return gossh.FingerprintSHA256(key)
}

func permissions(id *identity) *gossh.Permissions {
	return &gossh.Permissions{ExtraData: map[any]any{identityKey{}: id}}
}

// log also hears of success, just before the client does: the moment that the grace time ends.
func (g *gate) log(m gossh.ConnMetadata, method string, err error) {
	switch {
	case err == nil:
		g.door.waiting.remove(g.conn)
		g.conn.enter()
		g.door.counts.entered.Add(1)
	case method != "none" && !errors.Is(err, gossh.ErrNoAuth):
		g.conn.failed.Add(1)
		g.door.counts.refused.Add(1)
		g.door.log.Info("not let in", "user", m.User(), "source", g.conn.source, "method", method, "err", err)
	}
}

func addressOf(a net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// keyFiles are authorized_keys files (sshd(8), AUTHORIZED_KEYS FILE FORMAT).
type keyFiles []string

// admit finds the first line that lets key in now, from that address, or the certificate that key is to the account
// login. The error says why none does.
func (files keyFiles) admit(key gossh.PublicKey, login string, from netip.Addr, now time.Time) (grant, error) {
	if _, cert := signer(key); cert == nil {
		if err := strong(key); err != nil {
			return grant{}, errors.Join(errDenied, err)
		}
	}
	reasons := []error{errDenied}
	for _, path := range files {
		data, err := readKeyFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			reasons = append(reasons, err)
			continue
		}
		number := 0
		for line := range bytes.Lines(data) {
			number++
			line = bytes.TrimSpace(line)
			g, ok, err := admits(line, key, login, from, now)
			if !ok {
				continue
			}
			if err == nil {
				return g, nil
			}
			reasons = append(reasons, fmt.Errorf("%s line %d: %w", path, number, err))
		}
	}
	return grant{}, errors.Join(reasons...)
}

// minRSA is the shortest RSA key, in bits, that is still believed.
const minRSA = 2048

func strong(key gossh.PublicKey) error {
	k, ok := key.(gossh.CryptoPublicKey)
	if !ok {
		return nil // keys held by hardware: none of them is RSA
	}
	if r, ok := k.CryptoPublicKey().(*rsa.PublicKey); ok && r.N.BitLen() < minRSA {
		return fmt.Errorf("an RSA key of %d bits is too short", r.N.BitLen())
	}
	return nil
}

// readKeyFile reads a file that nobody else can have written: it and its folder belong to us or root and are not
// writable by others, and it is no symbolic link. The file's checks are on what was opened, not on its name.
func readKeyFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err := trusted(path, fi); err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	di, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	if err := trusted(dir, di); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	if len(data) > maxKeyFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxKeyFile)
	}
	return data, nil
}

func trusted(path string, fi os.FileInfo) error {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to uid %d", path, st.Uid)
	}
	// In a folder with the sticky bit others may not replace a file of ours.
	if fi.Mode().Perm()&0o022 != 0 && (!fi.IsDir() || fi.Mode()&os.ModeSticky == 0) {
		return fmt.Errorf("%s is writable by others (mode %04o)", path, fi.Mode().Perm())
	}
	return nil
}

// loadHostKey reads the host key, or makes it where there is none. A key that is there but unusable is an error:
// a new one in its place would look like an attack to everyone who knows the old.
func loadHostKey(path string) (gossh.Signer, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := makeHostKey(path); err != nil {
			return nil, fmt.Errorf("make %s: %w", path, err)
		}
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s is open to others (mode %04o); it should be 0600", path, fi.Mode().Perm())
	}
	signer, err := gossh.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return signer, nil
}

// makeHostKey writes a whole key or none, and never over another: of two servers that start at once, both use the
// key of the first.
func makeHostKey(path string) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := gossh.MarshalPrivateKey(private, "perdure")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".host_key-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(pem.EncodeToMemory(block)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
