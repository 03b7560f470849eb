package server

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// Attack 1: an attempt as alice, then alice's key as bob. At the callbacks, since no client we have changes its name.
func TestFailingAsAliceIsNotEnteringAsBob(t *testing.T) {
	d := openDoor(t, whoCore, nil)
	alice := newTestKey(t)
	d.authorize(alice.line(""))
	m := func(user string) gossh.ConnMetadata { return metadata{user: user} }
	g := &gate{door: d.door, conn: newPeer(nil, "x", nil)}
	if _, err := g.none(m("alice")); err == nil {
		t.Fatal("entered without a key")
	}
	if p, err := g.publicKey(m("bob"), alice.PublicKey()); !errors.Is(err, errDenied) || p != nil {
		t.Error("alice's key opened to bob:", err)
	}
	if p, err := g.publicKey(m("alice"), alice.PublicKey()); err != nil || p == nil {
		t.Error("alice was kept out:", err)
	}
}

// metadata is a connection as the library shows it to a callback.
type metadata struct {
	gossh.ConnMetadata
	user string
}

func (m metadata) User() string         { return m.user }
func (m metadata) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// unowned offers a public key, and can't sign with it.
type unowned struct{ gossh.Signer }

func (unowned) Sign(io.Reader, []byte) (*gossh.Signature, error) {
	return nil, errors.New("the private half is elsewhere")
}

// forger offers another's public key and signs with its own.
type forger struct {
	public gossh.PublicKey
	own    gossh.Signer
}

func (f forger) PublicKey() gossh.PublicKey { return f.public }
func (f forger) Sign(r io.Reader, data []byte) (*gossh.Signature, error) {
	return f.own.Sign(r, data) // of another key: worthless
}

// Attack 2: offering a key leaves nothing behind.
func TestOfferedKeyGivesNoRights(t *testing.T) {
	d := openDoor(t, whoCore, nil)
	admin, own := newTestKey(t), newTestKey(t)
	d.authorize(admin.line(""), own.line(`restrict,command="mine"`))
	// ssh offers a key of which it has the public half only, is told that it would do, can't sign, and goes on.
	offered := filepath.Join(t.TempDir(), "admin.pub")
	check(t, os.WriteFile(offered, []byte(admin.line("")), 0o600))
	cmd := d.ssh("w", own, "asked")
	cmd.Args = append(cmd.Args[:1:1], append([]string{"-v", "-i", offered}, cmd.Args[1:]...)...)
	var talk strings.Builder
	cmd.Stderr = &talk
	raw, err := cmd.Output()
	if err != nil || !strings.Contains(talk.String(), "Server accepts key: "+offered) {
		t.Fatal(err, talk.String())
	}
	out := string(raw)
	want := "w|" + gossh.FingerprintSHA256(own.PublicKey())
	if !strings.HasPrefix(out, want) || !strings.HasSuffix(out, "|mine|asked") {
		t.Errorf("got %q, want the rights of one's own key, %q", out, want)
	}
	if _, err := d.dial("w", forger{admin.PublicKey(), own}); err == nil {
		t.Error("a forged signature opened")
	}
	if _, err := d.dial("w", unowned{admin}); err == nil {
		t.Error("no signature opened")
	}
}

// Attack 3: without credentials nobody enters, whatever the configuration.
func TestNoCredentialsNoEntry(t *testing.T) {
	stranger := newTestKey(t)
	for name, keys := range map[string]func(*doorOptions){
		"no file": nil,
		"no list": func(o *doorOptions) { o.AuthorizedKeys = nil },
	} {
		t.Run(name, func(t *testing.T) {
			d := openDoor(t, whoCore, keys)
			for what, auth := range map[string][]gossh.AuthMethod{
				"none":     nil,
				"password": {gossh.Password("")},
				"keyboard": {gossh.KeyboardInteractive(func(string, string, []string, []bool) ([]string, error) { return nil, nil })},
				"key":      {gossh.PublicKeys(stranger)},
			} {
				if c, err := gossh.Dial("tcp", d.addr, d.config("perdure", auth...)); err == nil {
					c.Close()
					t.Error("entered by", what)
				}
			}
		})
	}
}

func TestWithoutHostKeyThereIsNoDoor(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "no", "host_key"), filepath.Join("/proc", "host_key")} {
		if _, err := newDoor(doorOptions{HostKey: path}, whoCore); err == nil {
			t.Error("opened with", path)
		}
	}
	bad := filepath.Join(dir, "bad")
	check(t, os.WriteFile(bad, []byte("not a key"), 0o600))
	if _, err := newDoor(doorOptions{HostKey: bad}, whoCore); err == nil {
		t.Error("opened with a broken key")
	}
	if data, _ := os.ReadFile(bad); string(data) != "not a key" {
		t.Error("the broken key was replaced")
	}
}

func TestHostKeyIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host_key")
	prints := make([]string, 8)
	var wg sync.WaitGroup
	for i := range prints {
		wg.Go(func() {
			s, err := loadHostKey(path)
			if err != nil {
				t.Error(err)
				return
			}
			prints[i] = gossh.FingerprintSHA256(s.PublicKey())
		})
	}
	wg.Wait()
	for _, p := range prints {
		if p != prints[0] {
			t.Fatal("two keys:", prints)
		}
	}
	fi, err := os.Stat(path)
	check(t, err)
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", fi.Mode().Perm())
	}
	check(t, os.Chmod(path, 0o644))
	if _, err := loadHostKey(path); err == nil {
		t.Error("an open key was used")
	}
}

// Attack 9: what a line says holds, or the line doesn't count.
func TestAuthorizedKeyOptions(t *testing.T) {
	key := newTestKey(t)
	from := netip.MustParseAddr("10.1.2.3")
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for options, want := range map[string]string{
		"":                                "",
		"restrict":                        "",
		"no-X11-forwarding,no-pty":        "",
		`from="10.1.0.0/16"`:              "",
		`from="10.1.2.?,192.168.*"`:       "",
		`from="10.*,!10.1.2.3"`:           "not for use from",
		`from="10.2.0.0/16"`:              "not for use from",
		`from="10.0.0.0/99"`:              "option from",
		`from=""`:                         "empty",
		`expiry-time="20261202Z"`:         "",
		`expiry-time="202612011201Z"`:     "",
		`expiry-time="20261201120000Z"`:   "expired",
		`expiry-time="2020"`:              "no time",
		`permitopen="localhost:80"`:       "",
		`permitopen="80"`:                 "not host:port",
		`permitopen="localhost:0"`:        "no port",
		`permitopen="localhost:99999"`:    "no port",
		`permitlisten="80"`:               "",
		`permitlisten="a:b:80"`:           "not host:port",
		"verify-required":                 "not supported",
		"future-option":                   "not supported",
		`future="x"`:                      "not supported",
		`restrict,environment="A=b"`:      "not supported",
		`command="a \"b\" c"`:             "",
		`command="a",command="b"`:         "repeated",
		`restrict,pty`:                    "",
		`expiry-time="20200101",restrict`: "expired",
	} {
		file := filepath.Join(t.TempDir(), "keys")
		check(t, os.WriteFile(file, []byte("# note\n\n"+newTestKey(t).line("")+key.line(options)), 0o600))
		g, err := keyFiles{file}.admit(key.PublicKey(), "w", from, now)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", options, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", options, err, want)
		}
		if strings.HasPrefix(options, `command="a \`) && g.command != `a "b" c` {
			t.Errorf("command %q", g.command)
		}
		if noPty := options == "restrict" || strings.Contains(options, "no-pty"); err == nil && g.noPty != noPty {
			t.Errorf("%s: noPty %v", options, g.noPty)
		}
	}
}

// A key that can be factored proves nothing.
func TestShortRSAKeysAreRefused(t *testing.T) {
	for bits, want := range map[int]string{1024: "1024 bits", 2048: ""} {
		t.Setenv("GODEBUG", "rsa1024min=0")
		private, err := rsa.GenerateKey(rand.Reader, bits)
		check(t, err)
		signer, err := gossh.NewSignerFromKey(private)
		check(t, err)
		file := filepath.Join(t.TempDir(), "keys")
		check(t, os.WriteFile(file, gossh.MarshalAuthorizedKey(signer.PublicKey()), 0o600))
		_, err = keyFiles{file}.admit(signer.PublicKey(), "w", netip.MustParseAddr("10.1.2.3"), time.Now())
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bits: %v", bits, err)
		}
	}
}

func TestLaterLineMayAdmit(t *testing.T) {
	key := newTestKey(t)
	file := filepath.Join(t.TempDir(), "keys")
	check(t, os.WriteFile(file, []byte(key.line("unknown")+key.line("no-pty")), 0o600))
	g, err := keyFiles{"/nonexistent", file}.admit(key.PublicKey(), "w", netip.Addr{}, time.Now())
	if err != nil || !g.noPty {
		t.Error(g, err)
	}
}

func TestKeyFileThatOthersCanWriteIsRefused(t *testing.T) {
	key := newTestKey(t)
	admit := func(path string) error {
		_, err := keyFiles{path}.admit(key.PublicKey(), "w", netip.Addr{}, time.Now())
		return err
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "keys")
	check(t, os.WriteFile(path, []byte(key.line("")), 0o600))
	check(t, admit(path))
	link := filepath.Join(dir, "link")
	check(t, os.Symlink(path, link))
	wants(t, admit(link), "symbolic link")
	check(t, os.Chmod(path, 0o620))
	wants(t, admit(path), "writable by others")
	check(t, os.Chmod(path, 0o600))
	check(t, os.Chmod(dir, 0o777))
	wants(t, admit(path), "writable by others")
	check(t, os.Chmod(dir, 0o700))
	if os.Getuid() == 0 {
		check(t, os.Chown(path, 65534, -1))
		wants(t, admit(path), "belongs to uid 65534")
	}
	fifo := filepath.Join(dir, "fifo")
	check(t, unix.Mkfifo(fifo, 0o600))
	wants(t, admit(fifo), "not a regular file")
	big := filepath.Join(dir, "big")
	check(t, os.WriteFile(big, make([]byte, maxKeyFile+1), 0o600))
	wants(t, admit(big), "larger")
}

func wants(t *testing.T, err error, text string) {
	t.Helper()
	if !errors.Is(err, errDenied) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want %q", err, text)
	}
}

func TestKeysAreReadAtEachAttempt(t *testing.T) {
	d := openDoor(t, whoCore, nil)
	key := newTestKey(t)
	if _, err := d.dial("w", key); err == nil {
		t.Fatal("entered before the key was there")
	}
	d.authorize(key.line(""))
	d.enter("w", key)
	d.authorize("")
	if _, err := d.dial("w", key); err == nil {
		t.Error("entered after the key was gone")
	}
}

// Attack 17: the unix socket is for our own uid, whatever the modes of its folder.
func TestOtherUserIsRefusedOnTheSocket(t *testing.T) {
	d := openDoor(t, whoCore, nil)
	conn, err := net.Dial("unix", d.socket)
	check(t, err)
	sc, chans, reqs, err := gossh.NewClientConn(conn, d.socket, d.config("w"))
	check(t, err)
	c := gossh.NewClient(sc, chans, reqs)
	defer c.Close()
	out, err := run(t, c, "x")
	check(t, err)
	if want := fmt.Sprintf("w|uid %d pid %d|x|", os.Getuid(), os.Getpid()); out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	if os.Getuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	openUp(t, d.socket)
	if n, err := readAsNobody(d.socket); n != 0 {
		t.Errorf("another uid was served: %d bytes, %v", n, err)
	}
	if log := d.log.String(); !strings.Contains(log, "connection refused") || !strings.Contains(log, "uid 65534") {
		t.Error("not logged:", log)
	}
}

// openUp lets every user reach a socket in a test's folder.
func openUp(t *testing.T, socket string) {
	t.Helper()
	check(t, os.Chmod(socket, 0o777))
	for dir := filepath.Dir(socket); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		check(t, os.Chmod(dir, 0o755))
	}
}

// readAsNobody connects with the credentials of another uid, which Linux keeps per thread, and reads to the end.
func readAsNobody(socket string) (n int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); e != 0 {
			err = e
			return
		}
		var fd int
		if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		defer unix.Close(fd)
		if err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
			n = -1 // the test wants a connection that is closed, not none
			return
		}
		n, err = unix.Read(fd, make([]byte, 64))
	}()
	<-done
	return n, err
}
