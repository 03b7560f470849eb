package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gliderlabs/ssh"
	gossh "golang.org/x/crypto/ssh"
)

// The algorithms of the door. The library's own lists still hold SHA-1, so they are pinned; the exchange that
// resists quantum computers comes first, and GCM before the slower ciphers.
var (
	keyExchanges = []string{gossh.KeyExchangeMLKEM768X25519, gossh.KeyExchangeCurve25519}
	ciphers      = []string{
		gossh.CipherAES128GCM, gossh.CipherAES256GCM, gossh.CipherChaCha20Poly1305,
		gossh.CipherAES128CTR, gossh.CipherAES192CTR, gossh.CipherAES256CTR,
	}
	macs          = []string{gossh.HMACSHA256ETM, gossh.HMACSHA512ETM, gossh.HMACSHA256, gossh.HMACSHA512}
	keyAlgorithms = []string{
		gossh.KeyAlgoED25519, gossh.KeyAlgoSKED25519, gossh.KeyAlgoSKECDSA256,
		gossh.KeyAlgoECDSA256, gossh.KeyAlgoECDSA384, gossh.KeyAlgoECDSA521,
		gossh.KeyAlgoRSASHA256, gossh.KeyAlgoRSASHA512,
	}
)

const (
	maxAuthTries = 6
	// maxWaiting bounds the connections that have not authenticated yet.
	maxWaiting = 100
	// graceTime is what a connection has to authenticate.
	graceTime = 30 * time.Second
	// keepaliveEvery is how often a client is asked for a sign of life; with deadAfter it bounds the time until a
	// dead peer is detached to the promised 45 s (one more tick may pass before its silence is noticed).
	keepaliveEvery = 15 * time.Second
	deadAfter      = 25 * time.Second
)

// doorOptions say how a door is opened. What of its settings is zero is the constants above.
type doorOptions struct {
	HostKey        string   // made when it doesn't exist
	AuthorizedKeys []string // read at each attempt to enter
	Login          string   // the name of the account the server runs as
	Logger         *slog.Logger
	Audit          func(user, kind string, fields map[string]any) // told what verified people did; may be nil
	DoorSettings
}

func (o *doorOptions) fill() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Grace == 0 {
		o.Grace = Duration(graceTime)
	}
	if o.Tries == 0 {
		o.Tries = maxAuthTries
	}
	if o.Keepalive == 0 {
		o.Keepalive = Duration(keepaliveEvery)
	}
	if o.Dead == 0 {
		o.Dead = Duration(deadAfter)
	}
	if o.Startups.Full == 0 { // nothing is said: what keys say of forwards holds
		o.Forwarding, o.AgentForwarding, o.GatewayPorts = true, true, true
		o.Startups = Startups{maxWaiting, 100, maxWaiting}
	}
}

// doorRules are those of the door's settings that may change while it is open.
type doorRules struct {
	DoorSettings
	keys   keyFiles
	exempt []netip.Prefix
}

// door speaks SSH: it lets verified people in and hands each of their session channels to the core as one request.
type door struct {
	opts      doorOptions
	core      core
	log       *slog.Logger
	rules     atomic.Pointer[doorRules]
	server    *ssh.Server
	waiting   waitingRoom
	penalties penaltyBox
	counts    doorCounts

	mu      sync.Mutex
	closing bool
	conns   map[*peerConn]struct{}
	work    sync.WaitGroup // added to under mu, and only while not closing
}

// newDoor loads the host key, or makes it. Without one there is no door.
func newDoor(o doorOptions, c core) (*door, error) {
	o.fill()
	signer, err := loadHostKey(o.HostKey)
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	d := &door{
		opts: o, core: c, log: o.Logger,
		waiting: waitingRoom{sources: map[string][]*peerConn{}},
		conns:   map[*peerConn]struct{}{},
	}
	d.setRules(o.DoorSettings, o.AuthorizedKeys)
	d.server = &ssh.Server{
		Version:              "perdure",
		HostSigners:          []ssh.Signer{signer},
		ConnCallback:         d.connected,
		ServerConfigCallback: d.config,
		// Non-nil and without the library's own handlers: what isn't listed is refused.
		ChannelHandlers: map[string]ssh.ChannelHandler{
			"session":                        d.session,
			"direct-tcpip":                   d.directTCP,
			"direct-streamlocal@openssh.com": d.directUnix,
		},
		RequestHandlers: map[string]ssh.RequestHandler{
			"tcpip-forward":                          d.global(d.listenTCP),
			"cancel-tcpip-forward":                   d.global(d.cancelTCP),
			"streamlocal-forward@openssh.com":        d.global(d.listenUnix),
			"cancel-streamlocal-forward@openssh.com": d.global(d.cancelUnix),
		},
		SubsystemHandlers: map[string]ssh.SubsystemHandler{},
	}
	return d, nil
}

// apply puts changed settings into force, for those who come from now on.
func (d *door) apply(s Settings) { d.setRules(s.Door, s.AuthorizedKeys) }

func (d *door) setRules(s DoorSettings, keys []string) {
	exempt, err := parseNetworks(s.PenaltyExempt)
	if err != nil {
		d.log.Error("penalty_exempt", "err", err) // Settings.Check has refused it before
	}
	d.rules.Store(&doorRules{DoorSettings: s, keys: keys, exempt: exempt})
}

// serveNetwork lets those in who hold an authorized key. It returns nil once ctx ends or l is closed.
func (d *door) serveNetwork(ctx context.Context, l net.Listener) error {
	return d.accept(ctx, l, func(c net.Conn) (*peerConn, error) { return networkPeer(c), nil })
}

// serveLocal lets the processes of this uid in, as the kernel names them (unix(7), SO_PEERCRED), without a key.
func (d *door) serveLocal(ctx context.Context, l net.Listener) error {
	return d.accept(ctx, l, localPeer)
}

func (d *door) accept(ctx context.Context, l net.Listener, admit func(net.Conn) (*peerConn, error)) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	for {
		raw, err := l.Accept()
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		case transient(err):
			d.log.Warn("accept a connection", "err", err)
			select {
			case <-time.After(50 * time.Millisecond): // for descriptors to come free
			case <-ctx.Done():
			}
			continue
		default:
			return fmt.Errorf("accept a connection: %w", err)
		}
		d.counts.connections.Add(1)
		peer, err := admit(raw)
		if err != nil {
			d.log.Warn("connection refused", "err", err)
			raw.Close()
			continue
		}
		if !peer.local() {
			if d.keptOut(peer) {
				continue
			}
			d.waiting.add(peer, d.rules.Load().Startups) // here, in the order of arrival: the oldest is the one to go
		}
		if !d.begin(func() { d.converse(peer) }) {
			d.waiting.remove(peer)
			raw.Close()
		}
	}
}

// transient says whether an error of accept(2) is about that one connection, or will pass.
func transient(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.ENOBUFS, syscall.ENOMEM, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// begin runs fn on a goroutine that shutdown waits for, unless the door is already closing.
func (d *door) begin(fn func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return false
	}
	d.work.Go(fn)
	return true
}

// converse serves one connection until it ends.
func (d *door) converse(c *peerConn) {
	defer d.recovered("connection")
	defer c.Close()
	defer d.waiting.remove(c)
	defer d.judge(c)
	if !d.track(c) {
		return
	}
	defer d.untrack(c)
	defer c.forwards.close()
	d.server.HandleConn(c)
}

func (d *door) track(c *peerConn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return false
	}
	d.conns[c] = struct{}{}
	return true
}

func (d *door) untrack(c *peerConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}

// connected is told of each connection before its handshake, with the context that ends with it.
func (d *door) connected(ctx ssh.Context, raw net.Conn) net.Conn {
	c, ok := raw.(*peerConn)
	if !ok {
		return nil
	}
	ctx.SetValue(peerKey{}, c)
	if !d.begin(func() { d.watch(ctx, c) }) {
		return nil
	}
	return c
}

// config is asked for once per connection, before its handshake.
func (d *door) config(ctx ssh.Context) *gossh.ServerConfig {
	c, _ := ctx.Value(peerKey{}).(*peerConn) // connected has put it there
	gate := &gate{door: d, conn: c}
	cfg := &gossh.ServerConfig{
		Config:                  gossh.Config{KeyExchanges: keyExchanges, Ciphers: ciphers, MACs: macs},
		PublicKeyAuthAlgorithms: keyAlgorithms,
		MaxAuthTries:            d.rules.Load().Tries,
		// gliderlabs/ssh turns NoClientAuth on where it has no handlers of its own, so that the callback must
		// decide: it refuses all but the peers of the unix socket.
		NoClientAuth:         true,
		NoClientAuthCallback: gate.none,
		AuthLogCallback:      gate.log,
	}
	if !c.local() {
		cfg.PublicKeyCallback = gate.publicKey
	}
	return cfg
}

// recovered ends a panic on a goroutine that handles a peer's bytes: one peer must not end the others' sessions.
func (d *door) recovered(what string) {
	if r := recover(); r != nil {
		d.log.Error("panic", "in", what, "value", fmt.Sprint(r), "stack", string(debug.Stack()))
	}
}

// shutdown closes every connection, which ends the context of each request, and waits until ctx ends for the
// goroutines. The listeners are their owner's to close.
func (d *door) shutdown(ctx context.Context) {
	d.mu.Lock()
	d.closing = true
	for c := range d.conns {
		c.Close()
	}
	d.mu.Unlock()
	done := make(chan struct{})
	go func() {
		d.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		d.log.Warn("requests still run at shutdown", "err", ctx.Err())
	}
}
