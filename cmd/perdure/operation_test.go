package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// heard is what a server printed, line by line.
type heard struct {
	t     *testing.T
	lines chan string
}

// expect waits for a line and returns its last submatch.
func (h heard) expect(pattern string) string {
	h.t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(time.Minute)
	for {
		select {
		case line, ok := <-h.lines:
			if !ok {
				h.t.Fatalf("the server ended without %q", pattern)
			}
			if m := re.FindStringSubmatch(line); m != nil {
				return m[len(m)-1]
			}
		case <-deadline:
			h.t.Fatalf("no %q", pattern)
		}
	}
}

// serveBy replaces the box's server by one that argv starts.
func (b *box) serveBy(extra []*os.File, argv ...string) heard {
	b.t.Helper()
	b.kill()
	b.server = exec.Command(argv[0], argv[1:]...)
	b.server.Env, b.server.ExtraFiles = b.env, extra
	out, err := b.server.StderrPipe()
	mustDo(b.t, err)
	mustDo(b.t, b.server.Start())
	h := heard{b.t, make(chan string, 4096)}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.lines <- lines.Text()
		}
		close(h.lines)
	}()
	return h
}

// SIGHUP reads the configuration anew: what changed holds at once, what is wrong changes nothing, and a connection that
// was there stays.
func TestAConfigurationIsReadAgainWithoutDroppingAnyone(t *testing.T) {
	b := newBox(t)
	config := b.dir + "/config.toml"
	b.write(config, "listen = [\"127.0.0.1:0\"]\n")
	said := b.serveBy(nil, b.bin, "serve", "--config", config)
	b.port = said.expect(`ready on 127.0.0.1:(\d+)`)
	b.want(0, "new", "app", "--check", "true")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	follow := b.ssh(ctx, "perdure@127.0.0.1", "events", "--follow", "--json")
	out, err := follow.StdoutPipe()
	mustDo(t, err)
	mustDo(t, follow.Start())
	events := bufio.NewScanner(out)
	event := func(kind string) {
		t.Helper()
		for events.Scan() {
			var e struct{ Kind string }
			if json.Unmarshal(events.Bytes(), &e) == nil && e.Kind == kind {
				return
			}
		}
		t.Fatalf("the connection ended without the event %s", kind)
	}
	event("created")
	hup := func() { mustDo(t, b.server.Process.Signal(syscall.SIGHUP)) }

	b.write(config, "listen = [\"127.0.0.1:0\"]\nauthorized_keys = []\n[keep]\njournals = \"9d\"\n")
	hup()
	event("reloaded")
	if _, err := b.ssh(ctx, "perdure@127.0.0.1", "ls").Output(); err == nil {
		t.Error("a key entered that the new configuration doesn't trust")
	}
	if help := b.want(0, "prune", "--help"); !strings.Contains(help, "ended sessions: 9d") {
		t.Errorf("the new time of keeping is not in force: %s", help)
	}

	b.write(config, "authorized_kyes = []\n")
	hup()
	said.expect(`the one before stays in force.*unknown name authorized_kyes`)

	b.write(config, "listen = [\"127.0.0.1:1\"]\n")
	hup()
	said.expect(`name=listen.*next start`)
	event("reloaded") // by the connection that was there all along
	if out, err := b.ssh(ctx, "perdure@127.0.0.1", "ls").Output(); err != nil || !strings.Contains(string(out), "app") {
		t.Errorf("the key is not trusted again: %v, %s", err, out)
	}
	cancel()
	_ = follow.Wait()
}

// The metrics say what is so, by the loopback's own names only, and change nothing.
func TestMetricsAreTheLoopbacks(t *testing.T) {
	b := newBox(t)
	config := b.dir + "/config.toml"
	b.write(config, "listen = [\"127.0.0.1:0\"]\nmetrics = \"127.0.0.1:0\"\n")
	said := b.serveBy(nil, b.bin, "serve", "--config", config)
	url := said.expect(`metrics on (http://127.0.0.1:\d+/metrics)`)
	said.expect("ready on")
	b.want(0, "new", "app")
	b.want(0, "start", "app")
	get := func(method, host string) (int, string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		mustDo(t, err)
		q.Host = host
		a, err := http.DefaultClient.Do(q)
		mustDo(t, err)
		defer a.Body.Close()
		body, err := io.ReadAll(a.Body)
		mustDo(t, err)
		return a.StatusCode, string(body)
	}
	status, body := get("GET", "")
	for _, want := range []string{`perdure_sessions{state="live"} 1`, `perdure_checks{state="running"} 0`, "perdure_low_space 0", `perdure_connections_total{outcome="kept_out"} 0`} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("status %d, without %q: %s", status, want, body)
		}
	}
	if status, _ := get("GET", "evil.example"); status != 403 {
		t.Errorf("a page of another name was answered %d", status)
	}
	if status, _ := get("POST", ""); status != 405 {
		t.Errorf("POST was answered %d", status)
	}
}

// A server that is given its sockets by systemd listens on those, and tells when it is ready, reloads and stops.
func TestSocketsAndStatesOfSystemd(t *testing.T) {
	b := newBox(t)
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	mustDo(t, err)
	defer l.Close()
	file, err := l.File()
	mustDo(t, err)
	defer file.Close()
	path := filepath.Join(b.dir, "notify")
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	mustDo(t, err)
	defer notify.Close()
	state := func(want string) {
		t.Helper()
		buf := make([]byte, 4096)
		mustDo(t, notify.SetReadDeadline(time.Now().Add(time.Minute)))
		n, err := notify.Read(buf)
		if got := string(buf[:n]); err != nil || !strings.HasPrefix(got, want) {
			t.Fatalf("systemd was told %q, want %q: %v", got, want, err)
		}
	}
	b.env = append(b.env, "NOTIFY_SOCKET="+path)
	said := b.serveBy([]*os.File{file}, "/bin/sh", "-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" serve`, b.bin)
	_, port, err := net.SplitHostPort(l.Addr().String())
	mustDo(t, err)
	if b.port = said.expect(`ready on 127.0.0.1:(\d+)`); b.port != port {
		t.Fatalf("it listens on %s, not on the socket it was given, %s", b.port, port)
	}
	state("READY=1")
	if out, err := b.ssh(t.Context(), "perdure@127.0.0.1", "version").CombinedOutput(); err != nil {
		t.Errorf("nobody enters by the given socket: %v, %s", err, out)
	}
	mustDo(t, b.server.Process.Signal(syscall.SIGHUP))
	state("RELOADING=1\nMONOTONIC_USEC=")
	state("READY=1")
	mustDo(t, b.server.Process.Signal(syscall.SIGTERM))
	state("STOPPING=1")
	mustDo(t, b.server.Wait())
	b.env = b.env[:len(b.env)-1]
	b.serve("127.0.0.1:0")
}

// With OpenSSH's own ssh-keygen and ssh: a certificate for this account enters by its authority's line alone, one for
// another account doesn't, and one without permit-pty gets no terminal.
func TestCertificatesOfOpenSSHEnter(t *testing.T) {
	b := newBox(t)
	b.must(b.dir, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "ca")
	ca, err := os.ReadFile(b.dir + "/ca.pub")
	mustDo(t, err)
	b.write(b.dir+"/home/.ssh/authorized_keys", "cert-authority "+string(ca))
	account := strings.TrimSpace(b.must(b.dir, "id", "-un"))
	enter := func(args ...string) error {
		t.Helper()
		b.must(b.dir, "ssh-keygen", append([]string{"-q", "-s", "ca", "-I", "test", "-V", "+1h"}, append(args, "key.pub")...)...)
		_, err := b.ssh(t.Context(), "perdure@127.0.0.1", "ls").Output()
		return err
	}
	if err := enter("-n", account); err != nil {
		t.Error("the certificate was refused:", err)
	}
	if enter("-n", "nobody-else") == nil {
		t.Error("a certificate for another account entered")
	}
	if enter("-n", account, "-O", "force-command=perdure nosuch") == nil {
		t.Error("the forced command was not what ran")
	}
	b.want(0, "new", "app", "--", "/bin/sh")
	if err := enter("-n", account, "-O", "no-pty"); err != nil {
		t.Error("a certificate without a terminal can't run commands:", err)
	}
	if out, _ := b.ssh(t.Context(), "-tt", "app@127.0.0.1").CombinedOutput(); !strings.Contains(string(out), "PTY allocation request failed") {
		t.Errorf("a terminal was given all the same: %s", out)
	}
}
