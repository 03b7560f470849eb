package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"perdure/server"
)

// serveFlags are those of serve; config shows what they come to.
type serveFlags struct {
	listen []string
	keys   []string
	config string
}

// listenNone as the only address leaves the network alone.
const listenNone = "none"

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve [--listen ADDR|none]... [--authorized-keys FILE]... [--config FILE]",
		Short: "Run the server in the foreground",
		Long: `Serve runs the server until it is interrupted. It listens for SSH on the network and on a unix socket of the
state folder, and says when it is ready. Sessions live on when it ends, and are found again at its next start.

What the flags don't say, the configuration file does ("perdure config" shows it, and where each value came from). On SIGHUP
the server reads it again and drops nobody; where its terminal has closed, SIGHUP ends it. Started by systemd with sockets
(systemd.socket(5)), it listens on those.`,
		GroupID: groupHere, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error { return a.serve(c.Context(), f) },
	}
	f.register(c)
	return c
}

func (f *serveFlags) register(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.listen, "listen", nil, "an address to listen on, or none (default :2222)")
	c.Flags().StringVar(&f.config, "config", "", "the configuration file (or PERDURE_CONFIG; default ~/.config/perdure/config.toml)")
	c.Flags().StringArrayVar(&f.keys, "authorized-keys", nil, "a file of the keys to trust (default ~/.ssh/authorized_keys)")
}

func (a *app) serve(ctx context.Context, f serveFlags) error {
	if err := a.notRemote("serve"); err != nil {
		return err
	}
	state, err := a.stateDir()
	if err != nil {
		return err
	}
	first, _, err := f.settings()
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	listeners, err := inherited()
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	level.Set(first.LogLevel)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	reload := a.hangups(ctx, stop)
	return server.Run(ctx, server.Options{
		State: state, Executable: exe, Version: versionString(), Stderr: a.stderr,
		Logger: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level})), Level: level,
		Reload: reload, Listeners: listeners,
		Load: func() (server.Settings, error) {
			c, _, err := f.settings()
			if a.verbose {
				c.LogLevel = slog.LevelDebug
			}
			return c.Settings, err
		},
	})
}

// hangups tells a request to read the configuration anew from a terminal that has closed, which ends the server as an
// interrupt does: in order.
func (a *app) hangups(ctx context.Context, end func()) <-chan os.Signal {
	raw, reload := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(raw, syscall.SIGHUP)
	var terminals []*os.File
	for _, f := range []*os.File{a.stdin, a.stdout, a.stderr} {
		if term.IsTerminal(int(f.Fd())) {
			terminals = append(terminals, f)
		}
	}
	go func() {
		defer signal.Stop(raw)
		for {
			var sig os.Signal
			select {
			case <-ctx.Done():
				return
			case sig = <-raw:
			}
			for _, f := range terminals {
				if !term.IsTerminal(int(f.Fd())) {
					end()
					return
				}
			}
			select {
			case reload <- sig:
			default: // one is asked for already
			}
		}
	}()
	return reload
}

// inherited are the listeners that systemd opened for this process (sd_listen_fds(3)).
func inherited() ([]net.Listener, error) {
	all, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("take over the sockets of systemd: %w", err)
	}
	for _, l := range all {
		if _, ok := l.(*net.TCPListener); !ok {
			return nil, errors.New("take over the sockets of systemd: only stream sockets of TCP can be listened on; see ListenStream= in systemd.socket(5)")
		}
	}
	return all, nil
}

// checkListen refuses what can't be listened on; where is what said so.
func checkListen(where string, addrs []string) error {
	if slices.Contains(addrs, listenNone) {
		if len(addrs) > 1 {
			return usageError("%s: none stands alone", where)
		}
		return nil
	}
	for _, addr := range addrs {
		_, port, err := net.SplitHostPort(addr)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			var ae *net.AddrError
			if errors.As(err, &ae) {
				return usageError("%s %s: %s; an address is HOST:PORT or :PORT", where, addr, ae.Err)
			}
			return usageError("%s %s: %w", where, addr, err)
		}
	}
	return nil
}

// notRemote refuses --on for what only makes sense here.
func (a *app) notRemote(what string) error {
	if a.on != "" {
		return usageError("%s runs on this machine only: leave --on out", what)
	}
	return nil
}
