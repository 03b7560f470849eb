package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/creack/pty"
)

// raw is a plain ssh client in a terminal, whose output is read as it comes.
type raw struct {
	name string
	cmd  *exec.Cmd
	tty  *os.File
	seen []byte // the end of it
}

// plainSSH attaches by ssh to a workspace, to a pty of sshd's, and to tmux in one, each with the same command.
func plainSSH(p *peers, line string) (list []*raw, err error) {
	if out, err := p.far(p.bin, "new", "bench", "--dir", p.work(), "--", "sh", "-c", line).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make the workspace: %w: %s", err, out)
	}
	ssh := func(port string, words ...string) []string { return append(strings.Fields(p.ssh(port)), words...) }
	argv := map[string][]string{
		"perdure":   ssh(p.port["perdure"], "-tt", "bench@"+p.addr),
		"sshd":      ssh(sshPort, "-tt", "root@"+p.addr, line),
		"sshd+tmux": ssh(sshPort, "-tt", "root@"+p.addr, "tmux -u -f /dev/null -S "+p.dir+"/tmux new-session '"+strings.ReplaceAll(line, "'", `'\''`)+"'"),
	}
	for _, name := range []string{"perdure", "sshd", "sshd+tmux"} {
		if name == "sshd+tmux" {
			if _, err := exec.LookPath("tmux"); err != nil {
				fmt.Println("  tmux is not installed: not measured")
				continue
			}
		}
		r := &raw{name: name, cmd: p.near(argv[name]...)}
		if r.tty, err = pty.StartWithSize(r.cmd, &pty.Winsize{Cols: benchCols, Rows: benchRows}); err != nil {
			return list, err
		}
		list = append(list, r)
		if _, err := r.until("ready>", time.Minute); err != nil {
			return list, err
		}
	}
	return list, nil
}

// until reads until the text comes, and says how long that took.
func (r *raw) until(text string, long time.Duration) (time.Duration, error) {
	began := time.Now()
	late := time.AfterFunc(long, func() { _ = r.cmd.Process.Kill() })
	defer late.Stop()
	buf := make([]byte, 64<<10)
	for {
		if i := bytes.Index(r.seen, []byte(text)); i >= 0 {
			r.seen = r.seen[i+len(text):]
			return time.Since(began), nil
		}
		if keep := len(text) + 256; len(r.seen) > keep {
			r.seen = append([]byte(nil), r.seen[len(r.seen)-keep:]...)
		}
		n, err := r.tty.Read(buf)
		if err != nil {
			return 0, fmt.Errorf("%s: %q never came: %w", r.name, text, err)
		}
		r.seen = append(r.seen, buf[:n]...)
	}
}

func closeAll(list []*raw) {
	for _, r := range list {
		_ = r.cmd.Process.Kill()
		r.tty.Close()
		_ = r.cmd.Wait()
	}
}

// runBulk measures how long much output takes to a terminal that reads as fast as it comes.
func runBulk(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("bulk", flag.ContinueOnError)
	size := set.Int("size", 32, "MiB of output")
	runs := set.Int("runs", 5, "how often, taking turns")
	if err := set.Parse(args); err != nil {
		return err
	}
	p, err := newPeers(ctx, "")
	if err != nil {
		return err
	}
	defer p.close()
	path := filepath.Join(p.dir, "bulk")
	if err := os.WriteFile(path, streams(*size << 20)[0].data, 0o600); err != nil {
		return err
	}
	list, err := plainSSH(p, "stty -echo; echo 'ready>'; while read x; do cat "+path+"; echo bulk-$x-end; done")
	defer func() { closeAll(list) }()
	if err != nil {
		return err
	}
	fmt.Printf("perdure-bench bulk -size %d -runs %d: plain ssh over the loopback, %dx%d\n", *size, *runs, benchCols, benchRows)
	times := map[string][]time.Duration{}
	for i := range *runs {
		for _, r := range list {
			if _, err := fmt.Fprintf(r.tty, "%d\n", i); err != nil {
				return err
			}
			took, err := r.until(fmt.Sprintf("bulk-%d-end", i), 5*time.Minute)
			if err != nil {
				return err
			}
			times[r.name] = append(times[r.name], took)
		}
	}
	for _, r := range list {
		quantiles(r.name, times[r.name], besides(times, r.name, 0.5))
	}
	return nil
}

// besides is a quantile as a ratio to sshd's.
func besides(times map[string][]time.Duration, name string, q float64) string {
	at := func(name string) float64 {
		d := slices.Sorted(slices.Values(times[name]))
		return float64(d[int(q*float64(len(d)-1))])
	}
	return fmt.Sprintf("%.2f of sshd's", at(name)/at("sshd"))
}

// runEcho measures how soon a key comes back from a program that prints what it reads.
func runEcho(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("echo", flag.ContinueOnError)
	keys := set.Int("keys", 500, "keys typed at each, taking turns in tens")
	if err := set.Parse(args); err != nil {
		return err
	}
	p, err := newPeers(ctx, "")
	if err != nil {
		return err
	}
	defer p.close()
	list, err := plainSSH(p, "stty raw -echo; printf 'ready>'; exec cat")
	defer func() { closeAll(list) }()
	if err != nil {
		return err
	}
	fmt.Printf("perdure-bench echo -keys %d: plain ssh over the loopback\n", *keys)
	times := map[string][]time.Duration{}
	for i := 0; i < *keys; i += 10 {
		for _, r := range list {
			for k := range 10 {
				key := string(rune('a' + (i/10+k)%26))
				time.Sleep(5 * time.Millisecond) // as fast as nobody types, and slow enough to be one key
				r.seen = nil
				if _, err := io.WriteString(r.tty, key); err != nil {
					return err
				}
				took, err := r.until(key, time.Minute)
				if err != nil {
					return err
				}
				times[r.name] = append(times[r.name], took)
			}
		}
	}
	for _, r := range list {
		d := slices.Sorted(slices.Values(times[r.name]))
		fmt.Printf("  %-10s p50 %-9v p99 %-9v n=%d  p50 %s, p99 %s\n", r.name, d[len(d)/2].Round(time.Microsecond), d[len(d)*99/100].Round(time.Microsecond), len(d), besides(times, r.name, 0.5), besides(times, r.name, 0.99))
	}
	return nil
}
