package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The other programs that speak SSH, each driven for real against the built server. A key of type ssh-rsa is refused to
// clients that only sign with SHA-1 (libssh2 before 1.11): they need an ed25519 one.
var interops = []interop{
	{"OpenSSH: `scp -O`", "scp", `scp -O -q {opts} -P {port} big app@127.0.0.1:one && scp -O -q {opts} -P {port} app@127.0.0.1:one back`},
	{"OpenSSH: `scp -s`", "scp", `scp -s -q {opts} -P {port} big app@127.0.0.1:one && scp -s -q {opts} -P {port} app@127.0.0.1:one back`},
	{"OpenSSH: `sftp`, with modes, links and renames", "sftp", `printf 'put big one\nchmod 640 one\nrename one two\nsymlink two link\nget link back\n' | sftp -q -b - {opts} -P {port} app@127.0.0.1`},
	{"OpenSSH: four commands at once over a control master", "ssh", `ssh -fNM -S m.sock {opts} -p {port} app@127.0.0.1 && for i in 1 2 3 4; do ssh -S m.sock app@127.0.0.1 "cat > p$i" <big & done; wait; ssh -S m.sock app@127.0.0.1 'cmp p1 p4 && cat p3' >back; s=$?; ssh -S m.sock -O exit x 2>/dev/null; exit $s`},
	{"OpenSSH: a command through a jump host", "ssh", `ssh {opts} -o ProxyCommand='ssh {opts} -p {sshd} -W %h:%p 127.0.0.1' -p {port} app@127.0.0.1 cat <big >back`},
	{"git: clone and push of `ssh://NAME@box:2222/./`", "git", `export GIT_SSH_COMMAND='ssh {opts}'; git clone -q ssh://app@127.0.0.1:{port}/./ c && cp big c/big && cd c && git add big && git -c user.name=a -c user.email=a@b commit -qm x && git push -q origin HEAD:refs/heads/pushed && cp big ../back`},
	{"rsync: `rsync -a`", "rsync", `rsync -a -e 'ssh {opts} -p {port}' big app@127.0.0.1:one && rsync -a -e 'ssh {opts} -p {port}' app@127.0.0.1:one back`},
	{"Dropbear: `dbclient`, a command", "dbclient", `dropbearconvert openssh dropbear key key.db 2>/dev/null && dbclient -y -i key.db -p {port} app@127.0.0.1 cat <big >back 2>/dev/null`},
	{"PuTTY: `plink`, a command", "plink", `puttygen key -O private -o key.ppk && plink -batch -hostkey {fp} -P {port} -i key.ppk app@127.0.0.1 cat <big >back`},
	{"PuTTY: `psftp`", "psftp", `puttygen key -O private -o key.ppk && printf 'put big one\nget one back\n' >b && psftp -batch -hostkey {fp} -P {port} -i key.ppk -b b app@127.0.0.1`},
	{"PuTTY: `pscp`", "pscp", `puttygen key -O private -o key.ppk && pscp -q -batch -hostkey {fp} -P {port} -i key.ppk big app@127.0.0.1:one && pscp -q -batch -hostkey {fp} -P {port} -i key.ppk app@127.0.0.1:one back`},
	{"Paramiko: sftp; a command with half-close and status", "paramiko", `/usr/bin/python3 -W ignore with-paramiko.py {port}`},
	{"AsyncSSH: sftp; a command with half-close and status", "asyncssh", `/usr/bin/python3 -W ignore with-asyncssh.py {port}`},
	{"curl (libssh2): sftp", "curl", `curl -sS -k --key key --pubkey key.pub -u app: -T big "sftp://127.0.0.1:{port}{work}/one" && curl -sS -k --key key --pubkey key.pub -u app: "sftp://127.0.0.1:{port}{work}/one" -o back`},
	{"curl (libssh2): scp", "curl", `curl -sS -k --key key --pubkey key.pub -u app: -T big "scp://127.0.0.1:{port}{work}/one" && curl -sS -k --key key --pubkey key.pub -u app: "scp://127.0.0.1:{port}{work}/one" -o back`},
	{"lftp: sftp over `ssh`", "lftp", `lftp -c "set sftp:connect-program 'ssh -a -x {opts}'; open -u app, sftp://127.0.0.1:{port}; put big -o one; get one -o back"`},
	{"sshfs: a mounted folder", "sshfs", `mkdir m && sshfs {opts} -p {port} app@127.0.0.1: m && cp big m/one && cp m/one back; s=$?; umount m; exit $s`},
	{"mosh: starts `mosh-server`; its own traffic is UDP", "mosh-server", `ssh {opts} -p {port} app@127.0.0.1 'LC_ALL=C.UTF-8 mosh-server new -i 127.0.0.1 -- true' 2>err | grep -q 'MOSH CONNECT [0-9]* .' && cp big back; s=$?; kill $(sed -n 's/.*detached, pid = \([0-9]*\).*/\1/p' err); exit $s`},
}

// interop is one client: it takes the file big into the workspace and back into the file back.
type interop struct{ name, needs, script string }

// missing says what isn't here that the client needs.
func (i interop) missing() bool {
	switch i.needs {
	case "paramiko", "asyncssh":
		return exec.Command("/usr/bin/python3", "-W", "ignore", "-c", "import "+i.needs).Run() != nil
	case "sshfs":
		if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
			return true // a machine that mounts nothing
		} else {
			f.Close()
		}
	}
	_, err := exec.LookPath(i.needs)
	return err != nil
}

const paramikoScript = `
import paramiko, sys
c = paramiko.SSHClient(); c.set_missing_host_key_policy(paramiko.AutoAddPolicy())
c.connect('127.0.0.1', int(sys.argv[1]), 'app', key_filename='key', look_for_keys=False, allow_agent=False)
i, o, e = c.exec_command('cat; exit 7')
i.write('hello'); i.channel.shutdown_write()
assert o.read() == b'hello' and o.channel.recv_exit_status() == 7
s = c.open_sftp(); s.put('big', 'one'); s.get('one', 'back'); s.remove('one')
c.close()
`

const asyncsshScript = `
import asyncio, asyncssh, sys
async def main():
    async with asyncssh.connect('127.0.0.1', int(sys.argv[1]), username='app', client_keys=['key'], known_hosts=None) as c:
        r = await c.run('cat; exit 3', input='abc')
        assert r.stdout == 'abc' and r.exit_status == 3
        async with c.start_sftp_client() as s:
            await s.put('big', 'one'); await s.get('one', 'back')
asyncio.run(main())
`

func TestEveryClientThatSpeaksSSHWorks(t *testing.T) {
	b := newBox(t)
	b.must(b.app, "git", "config", "receive.denyCurrentBranch", "ignore")
	b.want(0, "new", "app", "--", "cat")
	sshd := b.sshd()
	big := make([]byte, 3<<20+17)
	for i := range big {
		big[i] = byte(i * i >> 3)
	}
	fingerprint := strings.Fields(b.must("", "ssh-keygen", "-lf", b.dir+"/state/host_key"))[1]
	for _, c := range interops {
		t.Run(c.name, func(t *testing.T) {
			if c.missing() {
				t.Skip(c.needs + " is not here")
			}
			dir := t.TempDir()
			for name, data := range map[string][]byte{"big": big, "with-paramiko.py": []byte(paramikoScript), "with-asyncssh.py": []byte(asyncsshScript)} {
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b.must("", "cp", b.dir+"/key", b.dir+"/key.pub", dir)
			for _, left := range []string{"one", "two", "link"} {
				os.Remove(filepath.Join(b.app, left))
			}
			opts := fmt.Sprintf("-F none -o IdentityFile=%s/key -o IdentitiesOnly=yes -o LogLevel=ERROR -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null", dir)
			script := strings.NewReplacer("{opts}", opts, "{port}", b.port, "{sshd}", sshd, "{fp}", fingerprint, "{work}", b.app).Replace(c.script)
			cmd := exec.Command("sh", "-c", script)
			cmd.Dir, cmd.Env = dir, append(slices.Clone(b.env), "HOME="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if back, err := os.ReadFile(filepath.Join(dir, "back")); err != nil || string(back) != string(big) {
				t.Errorf("%d bytes came back of %d: %v", len(back), len(big), err)
			}
		})
	}
}

// table is the README's appendix, made of what the test drives.
func table() string {
	var b strings.Builder
	b.WriteString("| client | what goes 3 MiB there and back |\n|---|---|\n")
	for _, c := range interops {
		client, how, _ := strings.Cut(c.name, ": ")
		fmt.Fprintf(&b, "| %s | %s |\n", client, how)
	}
	return b.String()
}

func TestTheReadmeNamesTheClientsThatWork(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), table()) {
		t.Errorf("the appendix of the README should be\n%s", table())
	}
}

// What ssh-audit complains of, but for what it doesn't know or what is there for a reason, is nothing.
func TestSSHAuditComplainsOfNothingThatHolds(t *testing.T) {
	if _, err := exec.LookPath("ssh-audit"); err != nil {
		t.Skip("ssh-audit is not here")
	}
	b := newBox(t)
	named := map[string]string{
		"mlkem768x25519-sha256":        "newer than the tool: the exchange that resists quantum computers",
		"kex-strict-s-v00@openssh.com": "newer than the tool: the counter to the Terrapin attack, no algorithm",
		"hmac-sha2-256":                "libssh2 before 1.11 has no other; last in the list",
		"hmac-sha2-512":                "the same",
	}
	out, _ := exec.Command("ssh-audit", "-n", "-b", "-p", b.port, "127.0.0.1").CombinedOutput() // its status counts warnings
	if !strings.Contains(string(out), "(kex) curve25519-sha256") {
		t.Fatalf("it audited nothing:\n%s", out)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.Contains(line, "[warn]") && !strings.Contains(line, "[fail]") {
			continue
		}
		if named[f[1]] == "" {
			t.Errorf("a complaint: %s", line)
		}
	}
}
