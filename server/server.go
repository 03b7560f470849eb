// Package server is the door of perdure and the only owner of its store.
//
// It listens for SSH on the network and on a unix socket of the state folder, and knows what happens
// when somebody attaches, leaves or comes back. Sessions themselves live in hosts, one process each
// (package workspace/host): the server can be killed or upgraded at any time, and adopts them again
// when it starts. It relays bytes and keeps none.
//
// The files: door, auth, channel, peer and exec speak SSH; commands and cmd_*.go are what CONTRACT calls
// the command line; attach.go and halt.go are what a person sees; records.go, verify.go and snapshots.go
// measure; sessions.go starts, adopts and watches hosts.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"perdure/server/store"
	"perdure/snapshot"
	"perdure/workspace"
)

// Options say where a server keeps its state and who may enter.
type Options struct {
	State      string // the state folder, made with mode 0700
	Executable string // the perdure binary, which hosts run from
	Version    string
	Stderr     io.Writer // the ready line
	Logger     *slog.Logger
	Level      *slog.LevelVar // of Logger; nil leaves it alone

	Load      func() (Settings, error) // the settings, read anew at each call
	Reload    <-chan os.Signal         // asks for a new reading; nil never does
	Listeners []net.Listener           // opened by whoever started this process; they stand in for Settings.Listen
}

// Server owns the store and every decision; one runs per state folder.
type Server struct {
	opts     Options
	settings atomic.Pointer[Settings]
	log      *slog.Logger
	store    *store.Store
	snaps    *snapshot.Store
	login    string // the login name of the user who runs the server
	inputKey []byte // of the hashes of what checks read beside the tree

	ctx context.Context // ends when the server shuts down
	wg  sync.WaitGroup  // every goroutine that outlives the request which began it

	mu     sync.Mutex
	spaces map[string]*space

	started  time.Time
	lowSpace *failure // since when the disk is nearly full, nil if it isn't

	feed   feed
	checks queue // the box's check queue: as many are inside as may run

	deliveries deliveries
	drops      *drops // nil where there can be none
}

// Run serves until ctx ends, then snapshots what changed and leaves the hosts running.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	settings, err := o.Load()
	if err == nil {
		err = settings.Check()
	}
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if err := makeState(o.State); err != nil {
		return err
	}
	lock, err := lockState(o.State)
	if err != nil {
		return err
	}
	defer lock.Close()
	s := &Server{opts: o, log: o.Logger, login: loginName(), spaces: map[string]*space{}, started: time.Now()}
	s.ctx = ctx
	if s.opts.Executable, err = keepExecutable(o.Executable, o.State); err != nil {
		return err
	}
	if s.snaps, err = snapshot.Open(filepath.Join(o.State, "snapshots")); err != nil {
		return fmt.Errorf("open the snapshots: %w", err)
	}
	if s.inputKey, err = secretKey(filepath.Join(o.State, "input_key")); err != nil {
		return err
	}
	s.apply(settings, nil)
	if err := s.openStore(ctx); err != nil {
		return err
	}
	defer s.store.Close()
	return s.serve(ctx)
}

// serve adopts what lives, opens the doors and stays until ctx ends.
func (s *Server) serve(ctx context.Context) error {
	if s.drops = s.openDrops(); s.drops != nil {
		s.wg.Go(func() { s.drops.run(ctx) })
	}
	if err := s.adopt(ctx); err != nil {
		return err
	}
	if err := s.loadDeliveries(ctx); err != nil {
		return err
	}
	d, err := newDoor(doorOptions{HostKey: filepath.Join(s.opts.State, "host_key"), AuthorizedKeys: s.conf().AuthorizedKeys, DoorSettings: s.conf().Door, Login: s.login, Logger: s.log, Audit: s.audit}, s)
	if err != nil {
		return fmt.Errorf("open the door: %w", err)
	}
	local, err := listenLocal(filepath.Join(s.opts.State, "server.sock"))
	if err != nil {
		return err
	}
	network := s.opts.Listeners
	if len(network) == 0 {
		network, err = listenNetwork(s.conf().Listen)
	}
	if err != nil {
		local.Close()
		return err
	}
	metrics, err := s.listenMetrics()
	if err != nil {
		closeAll(append(network, local))
		return err
	}
	serveCtx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, len(network)+1)
	var doors sync.WaitGroup
	doors.Go(func() { failed <- d.serveLocal(serveCtx, local) })
	for _, l := range network {
		doors.Go(func() { failed <- d.serveNetwork(serveCtx, l) })
	}
	if metrics != nil {
		s.wg.Go(func() { s.serveMetrics(serveCtx, metrics, d) })
	}
	s.wg.Go(func() { s.watchReload(ctx, d) })
	s.sayReady(network)
	s.wg.Go(func() { s.watchIntervals(ctx) })
	s.wg.Go(func() { s.keep(ctx) })
	s.wg.Go(func() { s.tend(ctx) })
	s.wg.Go(func() { s.comeBack(ctx) })
	s.wg.Go(func() { s.resumePending(ctx) })

	var failure error
	select {
	case <-ctx.Done():
	case failure = <-failed:
	}
	stop()
	s.shutdown(d, append(network, local))
	doors.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return failure
}

// shutdown lets nobody in any more, snapshots what changed while it is still known who is attached, and then closes the
// doors and waits for what is under way.
func (s *Server) shutdown(d *door, listeners []net.Listener) {
	notifySystemd("STOPPING=1")
	closeAll(listeners)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), 30*time.Second)
	defer cancel()
	for _, sp := range s.allSpaces() {
		if sp.live() == nil {
			continue
		}
		if _, _, err := s.captureIfChanged(ctx, sp.name, "shutdown"); err != nil {
			s.log.Error("snapshot at shutdown", "workspace", sp.name, "err", err)
		}
	}
	d.shutdown(ctx)
	s.wg.Wait()
}

// sayReady prints the one line that programs wait for.
func (s *Server) sayReady(network []net.Listener) {
	w := s.opts.Stderr
	if w == nil {
		w = io.Discard
	}
	if len(network) == 0 {
		fmt.Fprintf(w, "perdure: ready on %s\n", filepath.Join(s.opts.State, "server.sock"))
		notifySystemd("READY=1")
		return
	}
	if !anyReadable(s.conf().AuthorizedKeys) {
		fmt.Fprintf(w, "perdure: no key to trust yet: only this machine's own user can enter\nhint: add a public key to %s\n", firstOr(s.conf().AuthorizedKeys, "~/.ssh/authorized_keys"))
	}
	for _, l := range network {
		fmt.Fprintf(w, "perdure: ready on %s\n", l.Addr())
	}
	notifySystemd("READY=1")
}

func makeState(dir string) error {
	if dir == "" {
		return errors.New("no state folder: HOME is not set")
	}
	for _, d := range []string{dir, filepath.Join(dir, "workspaces")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make the state folder: %w", err)
		}
	}
	return os.Chmod(dir, 0o700)
}

// lockState keeps a second server out of the same state folder.
func lockState(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "server.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("a server already runs on %s", dir)
	}
	return f, nil
}

// keepExecutable copies a binary that `go run` is about to delete: hosts start from it for weeks.
func keepExecutable(exe, state string) (string, error) {
	if rel, err := filepath.Rel(os.TempDir(), exe); err != nil || !filepath.IsLocal(rel) || filepath.Base(filepath.Dir(exe)) != "exe" {
		return exe, nil
	}
	data, err := os.ReadFile(exe)
	if err != nil {
		return "", fmt.Errorf("keep the binary: %w", err)
	}
	to := filepath.Join(state, "bin", "perdure")
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", fmt.Errorf("keep the binary: %w", err)
	}
	return to, renameio.WriteFile(to, data, 0o700, renameio.WithTempDir(filepath.Dir(to)))
}

func loginName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}

// listenLocal binds server.sock in place of a dead server's; lockState has made sure that none lives.
func listenLocal(path string) (net.Listener, error) {
	short, err := workspace.SocketPath(path)
	if err != nil {
		return nil, err
	}
	os.Remove(short)
	l, err := net.Listen("unix", short)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(short, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("protect %s: %w", path, err)
	}
	return l, nil
}

func listenNetwork(addrs []string) ([]net.Listener, error) {
	var out []net.Listener
	for _, a := range addrs {
		if a == "none" {
			continue
		}
		l, err := net.Listen("tcp", a)
		if err != nil {
			closeAll(out)
			return nil, fmt.Errorf("listen on %s: %w", a, err)
		}
		out = append(out, l)
	}
	return out, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}
