package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"perdure/server"
)

// serveFlags are those of serve; config shows what they come to.
type serveFlags struct {
	listen []string
	keys   []string
}

// listenNone as the only address leaves the network alone.
const listenNone = "none"

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve [--listen ADDR|none]... [--authorized-keys FILE]...",
		Short: "Run the server in the foreground",
		Long: `Serve runs the server until it is interrupted. It listens for SSH on the network and on a unix socket of the
state folder, and says when it is ready. Sessions live on when it ends, and are found again at its next start.`,
		GroupID: groupHere, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error { return a.serve(c.Context(), f) },
	}
	f.register(c)
	return c
}

func (f *serveFlags) register(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.listen, "listen", nil, "an address to listen on, or none (default :2222)")
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
	listen, keys, err := f.values()
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	level := slog.LevelWarn
	if a.verbose {
		level = slog.LevelDebug
	}
	// A terminal that closes ends the server as an interrupt does: in order.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return server.Run(ctx, server.Options{
		State: state, Listen: listen.Value.([]string), AuthorizedKeys: keys.Value.([]string), Executable: exe, Version: versionString(),
		Stderr: a.stderr, Logger: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level})),
	})
}

// values are the addresses and the key files in force.
func (f *serveFlags) values() (listen, keys value, err error) {
	listen = value{[]string{":2222"}, "default"}
	if len(f.listen) > 0 {
		if err := checkListen(f.listen); err != nil {
			return listen, keys, err
		}
		listen = value{f.listen, "--listen"}
	}
	files, source := slices.Clone(f.keys), "--authorized-keys"
	if len(files) == 0 {
		home, err := os.UserHomeDir()
		if err != nil {
			return listen, value{[]string{}, "HOME is not set"}, nil
		}
		files, source = []string{filepath.Join(home, ".ssh", "authorized_keys")}, "default"
	}
	for i, file := range files {
		if files[i], err = filepath.Abs(file); err != nil {
			return listen, keys, fmt.Errorf("find %s: %w", file, err)
		}
	}
	return listen, value{files, source}, nil
}

func checkListen(addrs []string) error {
	if slices.Contains(addrs, listenNone) {
		if len(addrs) > 1 {
			return usageError("--listen none stands alone")
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
				return usageError("--listen %s: %s; an address is HOST:PORT or :PORT", addr, ae.Err)
			}
			return usageError("--listen %s: %w", addr, err)
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
