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
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"perdure/server/store"
	"perdure/snapshot"
	"perdure/workspace"
)

// Options say where a server keeps its state and who may enter.
type Options struct {
	State          string   // the state folder, made with mode 0700
	Listen         []string // TCP addresses; "none" alone disables the network
	AuthorizedKeys []string // files in authorized_keys form, read anew at each login
	Executable     string   // the perdure binary, which hosts run from
	Version        string
	Stderr         io.Writer // the ready line
	Logger         *slog.Logger
}

// Server owns the store and every decision; one runs per state folder.
type Server struct {
	opts  Options
	log   *slog.Logger
	store *store.Store
	snaps *snapshot.Store
	login string // the login name of the user who runs the server

	ctx context.Context // ends when the server shuts down
	wg  sync.WaitGroup  // every goroutine that outlives the request which began it

	mu     sync.Mutex
	spaces map[string]*space

	started  time.Time
	lowSpace *failure // since when the disk is nearly full, nil if it isn't

	feed   feed
	checks chan struct{} // the box's check queue: one token for each check that may run

	deliveries deliveries
}

// maxChecks is how many checks may run on the box at one time.
const maxChecks = 2

// Run serves until ctx ends, then snapshots what changed and leaves the hosts running.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if err := makeState(o.State); err != nil {
		return err
	}
	lock, err := lockState(o.State)
	if err != nil {
		return err
	}
	defer lock.Close()
	s := &Server{opts: o, log: o.Logger, login: loginName(), spaces: map[string]*space{}, started: time.Now(), checks: make(chan struct{}, maxChecks)}
	s.ctx = ctx
	if s.opts.Executable, err = keepExecutable(o.Executable, o.State); err != nil {
		return err
	}
	if s.snaps, err = snapshot.Open(filepath.Join(o.State, "snapshots")); err != nil {
		return fmt.Errorf("open the snapshots: %w", err)
	}
	if err := s.openStore(ctx); err != nil {
		return err
	}
	defer s.store.Close()
	return s.serve(ctx)
}

// serve adopts what lives, opens the doors and stays until ctx ends.
func (s *Server) serve(ctx context.Context) error {
	if err := s.adopt(ctx); err != nil {
		return err
	}
	if err := s.loadDeliveries(ctx); err != nil {
		return err
	}
	d, err := newDoor(doorOptions{HostKey: filepath.Join(s.opts.State, "host_key"), AuthorizedKeys: s.opts.AuthorizedKeys, Login: s.login, Logger: s.log}, s)
	if err != nil {
		return fmt.Errorf("open the door: %w", err)
	}
	local, err := listenLocal(filepath.Join(s.opts.State, "server.sock"))
	if err != nil {
		return err
	}
	network, err := listenNetwork(s.opts.Listen)
	if err != nil {
		local.Close()
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
	s.shutdown(d, append(network, local))
	doors.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return failure
}

// shutdown closes the doors, waits for what is under way and leaves a last snapshot of what changed.
func (s *Server) shutdown(d *door, listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), 30*time.Second)
	defer cancel()
	d.shutdown(ctx)
	s.wg.Wait()
	for _, sp := range s.allSpaces() {
		if sp.live() == nil {
			continue
		}
		if _, _, err := s.captureIfChanged(ctx, sp.name, "shutdown"); err != nil {
			s.log.Error("snapshot at shutdown", "workspace", sp.name, "err", err)
		}
	}
}

// sayReady prints the one line that programs wait for.
func (s *Server) sayReady(network []net.Listener) {
	w := s.opts.Stderr
	if w == nil {
		w = io.Discard
	}
	if len(network) == 0 {
		fmt.Fprintf(w, "perdure: ready on %s\n", filepath.Join(s.opts.State, "server.sock"))
		notifySystemd()
		return
	}
	if !anyReadable(s.opts.AuthorizedKeys) {
		fmt.Fprintf(w, "perdure: no key to trust yet: only this machine's own user can enter\nhint: add a public key to %s\n", firstOr(s.opts.AuthorizedKeys, "~/.ssh/authorized_keys"))
	}
	for _, l := range network {
		fmt.Fprintf(w, "perdure: ready on %s\n", l.Addr())
	}
	notifySystemd()
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
			for _, o := range out {
				o.Close()
			}
			return nil, fmt.Errorf("listen on %s: %w", a, err)
		}
		out = append(out, l)
	}
	return out, nil
}
