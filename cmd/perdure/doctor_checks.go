package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"perdure/handoff"
	"perdure/server"
	"perdure/server/store"
	"perdure/workspace"
)

// patient is the machine as doctor sees it.
type patient struct {
	state  string
	listen []string
	keys   []string
	served bool // a server runs on this state folder
	// ask runs a command in that server.
	ask func(ctx context.Context, args []string, stdin []byte) (stdout, stderr []byte, status int, err error)
}

func (p *patient) examine(ctx context.Context) []diagnosis {
	out := []diagnosis{p.server()}
	out = append(out, p.folder(), p.hostKey(), p.trusted())
	out = append(out, p.ports()...)
	out = append(out, p.disk(), p.store(ctx), p.setAside(), p.backup())
	out = append(out, program(ctx, "git", "--version", "install git: snapshots and records are kept by it"), program(ctx, "ssh", "-V", "install the OpenSSH client: connect and --on run it"))
	return append(out, files(), ptys(), cgroup(), p.sessions(), p.halts(ctx))
}

// server looks at the lock that a running server holds.
func (p *patient) server() diagnosis {
	f, err := os.Open(filepath.Join(p.state, "server.lock"))
	if err == nil {
		defer f.Close()
		p.served = errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
	}
	if p.served {
		return fine("server", "runs on %s", p.state)
	}
	return warning("server", "perdure serve", "none runs on %s", p.state)
}

func (p *patient) folder() diagnosis {
	fi, err := os.Stat(p.state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fine("state", "%s is not there yet; serve makes it", p.state)
	case err != nil:
		return failure("state", "make it readable to you", "%v", err)
	case !fi.IsDir():
		return failure("state", "move it away, or name another with --state DIR", "%s is no folder", p.state)
	}
	if _, err := server.SocketPath(p.state); err != nil {
		return failure("state", "name a shorter one with --state DIR", "%v", err)
	}
	if mode := fi.Mode().Perm(); mode&0o077 != 0 {
		f := failure("state", "chmod 700 "+p.state, "%s is open to others: its mode is %04o", p.state, mode)
		f.repair = func() error { return os.Chmod(p.state, 0o700) }
		return f
	}
	return fine("state", "%s", p.state)
}

func (p *patient) hostKey() diagnosis {
	path := filepath.Join(p.state, "host_key")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fine("host key", "not there yet; serve makes it")
	}
	if err != nil {
		return failure("host key", "make it readable to you", "%v", err)
	}
	key, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return failure("host key", "bring it back from a backup; or move it away, and serve makes a new one, of which every client will be warned", "%s: %v", path, err)
	}
	fi, err := os.Stat(path)
	if err == nil && fi.Mode().Perm()&0o077 != 0 {
		f := failure("host key", "chmod 600 "+path, "%s is open to others: its mode is %04o", path, fi.Mode().Perm())
		f.repair = func() error { return os.Chmod(path, 0o600) }
		return f
	}
	return fine("host key", "%s", ssh.FingerprintSHA256(key.PublicKey()))
}

// trusted counts the keys that may enter. What else the door wants of such a file, it says at a login.
func (p *patient) trusted() diagnosis {
	n := 0
	for _, file := range p.keys {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for len(bytes.TrimSpace(data)) > 0 {
			if _, _, _, data, err = ssh.ParseAuthorizedKey(data); err != nil {
				break
			}
			n++
		}
		if fi, err := os.Stat(file); err == nil && fi.Mode().Perm()&0o022 != 0 {
			f := failure("keys", "chmod go-w "+file, "others may write %s, so that it is not used", file)
			f.repair = func() error { return os.Chmod(file, fi.Mode().Perm()&^0o022) }
			return f
		}
	}
	if n == 0 {
		return warning("keys", "add a public key to "+strings.Join(p.keys, " or "), "no key to trust: only this machine's own user can enter")
	}
	return fine("keys", "%d in %s", n, strings.Join(p.keys, " "))
}

// ports tries the addresses, where no server holds them.
func (p *patient) ports() []diagnosis {
	var out []diagnosis
	for _, addr := range p.listen {
		if addr == listenNone || p.served {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			out = append(out, failure("port", "choose another with --listen, or end what holds it", "%v", err))
			continue
		}
		l.Close()
		out = append(out, fine("port", "%s is free", addr))
	}
	return out
}

// Below lowDisk bytes free doctor warns; the server itself refuses to write at less than half of it.
const lowDisk = 64 << 20

func (p *patient) disk() diagnosis {
	dir := p.state
	for !exists(dir) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	free, err := store.Free(dir)
	if err != nil {
		return failure("disk", "", "%v", err)
	}
	if free < lowDisk {
		return failure("disk", "free some space; `perdure usage` says what perdure takes, `perdure prune` gives some back", "%d MiB are free on the disk of %s", free>>20, dir)
	}
	return fine("disk", "%d MiB are free", free>>20)
}

// store reads the store in a process of its own, as serve does before it opens it.
func (p *patient) store(ctx context.Context) diagnosis {
	if p.served {
		return fine("store", "in use; it was read whole when the server started")
	}
	exe, err := os.Executable()
	if err == nil {
		err = store.Probe(ctx, []string{exe, server.ProbeCommand}, filepath.Join(p.state, "store"))
	}
	if errors.Is(err, store.ErrCorrupt) {
		return failure("store", "start the server: it keeps the damaged store aside and rebuilds it from its backup, the ledger, the snapshots and the sessions", "%v", err)
	}
	if err != nil {
		return failure("store", "", "%v", err)
	}
	return fine("store", "sound")
}

func (p *patient) setAside() diagnosis {
	old, _ := filepath.Glob(filepath.Join(p.state, "store.corrupt-*"))
	if len(old) == 0 {
		return fine("damage", "no store was ever set aside")
	}
	slices.Sort(old)
	return warning("damage", "look at the disk; delete them once nothing is missed", "a damaged store was set aside %d times, last as %s", len(old), old[len(old)-1])
}

// A backup older than staleBackup means that none could be made.
const staleBackup = 24 * time.Hour

func (p *patient) backup() diagnosis {
	dir := filepath.Join(p.state, "store")
	last, err := store.LastBackup(dir)
	switch {
	case err != nil:
		return failure("backup", "make it readable to you", "%v", err)
	case last.IsZero() && !exists(dir):
		return fine("backup", "nothing to back up yet")
	case last.IsZero():
		return warning("backup", "start the server: it makes one", "the store has no backup")
	case time.Since(last) > staleBackup:
		return warning("backup", "start the server, or see its log: it makes one every six hours", "the newest is of %s", last.Format(time.RFC3339))
	}
	return fine("backup", "the newest is of %s", last.Format(time.RFC3339))
}

func program(ctx context.Context, name, flag, mend string) diagnosis {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, flag).CombinedOutput()
	if err != nil {
		return failure(name, mend, "%v", err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return fine(name, "%s", line)
}

// filesWanted is what 500 sessions with a few attachments each take.
const filesWanted = 4096

func files() diagnosis {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return warning("open files", "", "the limit can't be read: %v", err)
	}
	if l.Max < filesWanted {
		return warning("open files", fmt.Sprintf("raise the limit (ulimit -Hn) to %d", filesWanted), "at most %d can be open: enough for few sessions only", l.Max)
	}
	return fine("open files", "at most %d", l.Max)
}

// cgroup says how checks are kept together. Without a cgroup nothing of one escapes either: it is found by its parents.
func cgroup() diagnosis {
	if err := handoff.Cgroup(); err != nil {
		return fine("checks", "each below a supervisor of its own; no cgroup besides (%v)", err)
	}
	return fine("checks", "each below a supervisor and in a cgroup of its own")
}

func ptys() diagnosis {
	read := func(name string) (int, error) {
		data, err := os.ReadFile("/proc/sys/kernel/pty/" + name)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(string(data)))
	}
	most, err := read("max")
	used, err2 := read("nr")
	if errors.Join(err, err2) != nil {
		return warning("ptys", "", "the limit can't be read: %v", errors.Join(err, err2))
	}
	if most-used < 16 {
		return failure("ptys", "raise kernel.pty.max, or end programs that hold ptys", "%d of %d are in use", used, most)
	}
	return fine("ptys", "%d of %d are in use", used, most)
}

// sessions looks for hosts that run and don't answer: the server shows their sessions as lost.
func (p *patient) sessions() diagnosis {
	all, errs := workspace.Scan(filepath.Join(p.state, "workspaces"), 2*time.Second)
	live, stale := 0, []string{}
	for _, s := range all {
		switch {
		case s.State == workspace.Live:
			live++
		case s.State == workspace.Lost && s.HostPid > 0 && p.isHost(s.HostPid, s.Dir):
			stale = append(stale, fmt.Sprintf("%s (host %d)", s.Workspace, s.HostPid))
		}
	}
	if len(errs) > 0 {
		return warning("sessions", "move the folder away if its journal isn't missed", "%d live; %v", live, errors.Join(errs...))
	}
	if len(stale) > 0 {
		return failure("sessions", "end these hosts (kill PID): what ran in them can't be reached", "%d live; running, but silent: %s", live, strings.Join(stale, ", "))
	}
	return fine("sessions", "%d live", live)
}

// isHost tells whether a process is the host of this session folder, and no other that was given its number since.
func (p *patient) isHost(pid int, dir string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	words := strings.Split(string(line), "\x00")
	return err == nil && len(words) > 2 && words[1] == "host" && words[2] == dir
}
