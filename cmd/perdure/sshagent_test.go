package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// agent runs an SSH agent that holds a key of its own, named so, and returns its socket.
func (b *box) agent(name string) string {
	b.t.Helper()
	key, socket := filepath.Join(b.dir, name), filepath.Join(b.dir, name+".sock")
	b.must("", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key)
	cmd := exec.Command("ssh-agent", "-D", "-a", socket)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil { // it tells its socket once it is there
		b.t.Fatal(err)
	}
	add := exec.Command("ssh-add", "-q", key)
	add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	if out, err := add.CombinedOutput(); err != nil {
		b.t.Fatalf("ssh-add: %v\n%s", err, out)
	}
	return socket
}

// with is an ssh client whose agent is this one.
func (b *box) with(socket string, args ...string) *exec.Cmd {
	cmd := b.ssh(context.Background(), append([]string{"-A"}, args...)...)
	cmd.Env = append(cmd.Env, "SSH_AUTH_SOCK="+socket)
	return cmd
}

// The path of a session's SSH agent never changes: behind it is the agent of whoever attached last and is still
// there, and nothing at all once nobody is.
func TestTheAgentFollowsTheNewestAttachment(t *testing.T) {
	b := newBox(t)
	first, second, local := b.agent("first-agent"), b.agent("second-agent"), b.agent("local-agent")
	b.want(0, "new", "app", "--", "sh", "-c", `echo ready; while read x; do ssh-add -l; echo "$x: $?"; done`)

	one := b.inTerminal(b.with(first, "-t", "app@127.0.0.1"))
	defer one.kill()
	one.expect("ready")
	one.send("a\r")
	one.expect(`first-agent[^\n]*\r\n(?s:.*)a: 0`)

	two := b.inTerminal(b.with(second, "-t", "app@127.0.0.1"))
	two.expect("a: 0")
	two.send("b\r")
	two.expect(`second-agent[^\n]*\r\n(?s:.*)b: 0`)
	two.kill()
	b.event("detached", 1)
	one.send("c\r")
	one.expect(`first-agent[^\n]*\r\n(?s:.*)c: 0`)

	// On the box it is the one of whoever attaches.
	here := exec.Command(b.bin, "attach", "app")
	here.Env = append(b.env, "SSH_AUTH_SOCK="+local, "TERM=xterm")
	three := b.inTerminal(here)
	three.expect("c: 0")
	three.send("d\r")
	three.expect(`local-agent[^\n]*\r\n(?s:.*)d: 0`)
	three.kill()
	b.event("detached", 2)

	// A command lends its own for as long as it runs.
	out, err := b.with(second, "app@127.0.0.1", "ssh-add -l").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "second-agent") {
		t.Errorf("a command's agent: %v\n%s", err, out)
	}

	one.kill()
	b.event("detached", 3)
	plain := b.attach()
	defer plain.kill()
	plain.expect("c: 0")
	plain.send("e\r")
	plain.expect(`e: 2`) // ssh-add(1): the agent can't be reached
	if _, err := os.Lstat(b.dir + "/state/workspaces/app/agent.sock"); !os.IsNotExist(err) {
		t.Errorf("a socket is there, and no agent: %v", err)
	}
	if out, err := b.ssh(context.Background(), "app@127.0.0.1", "echo ${SSH_AUTH_SOCK-none}").Output(); err != nil || strings.TrimSpace(string(out)) != "none" {
		t.Errorf("without an agent a command has %q, %v", out, err)
	}
}

// A key that may not lend its agent doesn't, nor does one that only watches.
func TestAKeyMayBeKeptFromLendingItsAgent(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--", "cat")
	agent := b.agent("some-agent")
	key, err := os.ReadFile(b.dir + "/key.pub")
	if err != nil {
		t.Fatal(err)
	}
	for options, lends := range map[string]bool{"": true, "no-agent-forwarding ": false, "restrict ": false, "restrict,agent-forwarding ": true} {
		b.write(b.dir+"/home/.ssh/authorized_keys", options+string(key))
		out, _ := b.with(agent, "app@127.0.0.1", "ssh-add -l").CombinedOutput() // its status says the same
		if got := strings.Contains(string(out), "some-agent"); got != lends {
			t.Errorf("%q: lends %v\n%s", options, got, out)
		}
	}
}

// `perdure connect` lends the agent where the person's ssh forwards it, also across a redial.
func TestConnectLendsTheAgent(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--", "sh", "-c", `echo ready; while read x; do ssh-add -l; echo "$x: $?"; done`)
	agent := b.agent("travelling-agent")
	c := newCutter(t, "127.0.0.1:"+b.port, func() int64 { return -1 })
	cmd := b.connect(c.port(), "app")
	cmd.Env = append(b.connectEnv(), "SSH_AUTH_SOCK="+agent)
	for i, kv := range cmd.Env {
		cmd.Env[i] = strings.Replace(kv, "PERDURE_SSH=ssh", "PERDURE_SSH=ssh -A", 1)
	}
	x := b.inTerminal(cmd)
	defer x.kill()
	x.expect("ready")
	x.send("a\r")
	x.expect(`travelling-agent[^\n]*\r\n(?s:.*)a: 0`)
	c.cutAll()
	b.event("resumed", 1)
	x.send("b\r")
	x.expect(`travelling-agent[^\n]*\r\n(?s:.*)b: 0`)
}
