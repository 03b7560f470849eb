package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sshd runs the machine's ordinary SSH server as this user, with a shell that is noisy and has perdure on its PATH, and
// returns its port.
func (b *box) sshd() string {
	b.t.Helper()
	path, err := exec.LookPath("sshd")
	if err != nil {
		path = "/usr/sbin/sshd"
		if _, err := os.Stat(path); err != nil {
			b.t.Skip("no sshd")
		}
	}
	if os.Getuid() == 0 {
		_ = os.MkdirAll("/run/sshd", 0o755) // sshd as root wants it, and says so if it is missing
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	dir := filepath.Join(b.dir, "sshd")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	b.must("", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir+"/host")
	var env strings.Builder
	for _, kv := range b.env {
		fmt.Fprintf(&env, "export '%s'; ", kv)
	}
	b.write(dir+"/rc", env.String()+fmt.Sprintf("PATH=%s:$PATH; echo 'Welcome to the box PRDR'; eval \"$SSH_ORIGINAL_COMMAND\"\n", b.dir))
	b.write(dir+"/config", fmt.Sprintf("Port %s\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/home/.ssh/authorized_keys\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nForceCommand sh %s/rc\n", port, dir, b.dir, dir))
	cmd := exec.Command(path, "-D", "-e", "-f", dir+"/config")
	log, err := os.Create(dir + "/log")
	if err != nil {
		b.t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	log.Close()
	b.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	deadline := time.Now().Add(time.Minute)
	for {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
			return port
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("sshd doesn't answer: %v", err)
		}
	}
}

// Port 22 is enough: through the machine's ordinary sshd, with a login shell that prints something first, through a
// jump host, across a cut and a restart of perdure's own server.
func TestConnectThroughAnOrdinarySSHServer(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--", "sh", "-c", "echo ready; read a; echo got $a; read b; echo got $b; exit 9")
	port := b.sshd()
	c := newCutter(t, "127.0.0.1:"+port, func() int64 { return -1 })
	ssh := "ssh -F /dev/null -i " + b.dir + "/key -o IdentitiesOnly=yes -o LogLevel=ERROR -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
	cmd := exec.Command(b.bin, "connect", "127.0.0.1:"+c.port(), "app")
	cmd.Env = append(b.env, fmt.Sprintf("PERDURE_SSH=%s -o 'ProxyCommand=%s -W %%h:%%p -p %s 127.0.0.1'", ssh, ssh, port))
	out := &watched{want: "ready", seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	<-out.seen
	c.cutAll()
	fmt.Fprintln(in, "one")
	b.kill()
	b.serve("127.0.0.1:" + b.port)
	fmt.Fprintln(in, "two")
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("status %d", cmd.ProcessState.ExitCode())
	}
	if got := out.all.String(); got != b.want(0, "log", "app", "--raw") || !strings.Contains(got, "got one\r\ntwo\r\ngot two") && !strings.Contains(got, "got two") {
		t.Errorf("shown: %q", got)
	}
}
