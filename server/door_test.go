package server

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	gossh "golang.org/x/crypto/ssh"
)

// coreFunc is a core made of one function.
type coreFunc func(context.Context, *Request) Exit

func (f coreFunc) handle(ctx context.Context, r *Request) Exit { return f(ctx, r) }

// syncBuffer is a log that many goroutines write.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// testKey is a key pair on disk, as ssh wants it.
type testKey struct {
	gossh.Signer
	file string
}

func newTestKey(t *testing.T) testKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	signer, err := gossh.NewSignerFromKey(private)
	check(t, err)
	block, err := gossh.MarshalPrivateKey(private, "")
	check(t, err)
	file := filepath.Join(t.TempDir(), "id")
	check(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	return testKey{signer, file}
}

// line is the key as an authorized_keys line.
func (k testKey) line(options string) string {
	l := string(gossh.MarshalAuthorizedKey(k.PublicKey()))
	if options != "" {
		l = options + " " + l
	}
	return l
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// testDoor is a door on a real network listener and a real unix socket.
type testDoor struct {
	*door
	t       *testing.T
	addr    string
	socket  string
	keyFile string
	log     *syncBuffer
	work    string // where exec runs
}

func openDoor(t *testing.T, c core, change func(*doorOptions)) *testDoor {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	dir := t.TempDir()
	td := &testDoor{t: t, keyFile: filepath.Join(dir, "authorized_keys"), socket: filepath.Join(dir, "s"), log: &syncBuffer{}, work: t.TempDir()}
	if c == nil {
		c = coreFunc(func(ctx context.Context, r *Request) Exit {
			env := []string{"HOME=" + td.work, "LC_ALL=C"}
			return runExec(ctx, r, td.work, os.Getenv("PATH"), env, r.Command)
		})
	}
	o := doorOptions{HostKey: filepath.Join(dir, "host_key"), AuthorizedKeys: []string{td.keyFile}, Logger: slog.New(slog.NewTextHandler(td.log, nil))}
	if change != nil {
		change(&o)
	}
	d, err := newDoor(o, c)
	check(t, err)
	td.door = d
	network, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	local, err := net.Listen("unix", td.socket)
	check(t, err)
	td.addr = network.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { must(t, d.serveNetwork(ctx, network)) })
	serving.Go(func() { must(t, d.serveLocal(ctx, local)) })
	t.Cleanup(func() {
		cancel()
		serving.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		d.shutdown(ctx)
		if ctx.Err() != nil {
			t.Error("shutdown did not end:", td.log)
		}
		goleak.VerifyNone(t, ignore)
		if strings.Contains(td.log.String(), "panic") {
			t.Error(td.log)
		}
	})
	return td
}

func must(t *testing.T, err error) {
	if err != nil {
		t.Error(err)
	}
}

// authorize writes the whole authorized_keys file.
func (d *testDoor) authorize(lines ...string) {
	d.t.Helper()
	check(d.t, os.WriteFile(d.keyFile, []byte(strings.Join(lines, "")), 0o600))
}

func (d *testDoor) config(user string, auth ...gossh.AuthMethod) *gossh.ClientConfig {
	return &gossh.ClientConfig{User: user, Auth: auth, HostKeyCallback: gossh.InsecureIgnoreHostKey(), Timeout: 10 * time.Second}
}

func (d *testDoor) dial(user string, keys ...gossh.Signer) (*gossh.Client, error) {
	return gossh.Dial("tcp", d.addr, d.config(user, gossh.PublicKeys(keys...)))
}

func (d *testDoor) enter(user string, keys ...gossh.Signer) *gossh.Client {
	d.t.Helper()
	c, err := d.dial(user, keys...)
	check(d.t, err)
	d.t.Cleanup(func() { c.Close() })
	return c
}

// run is one exec by the library's client.
func run(t *testing.T, c *gossh.Client, command string) (string, error) {
	t.Helper()
	s, err := c.NewSession()
	check(t, err)
	defer s.Close()
	out, err := s.CombinedOutput(command)
	return string(out), err
}

// whoCore answers with who was let in and what they asked.
var whoCore = coreFunc(func(_ context.Context, r *Request) Exit {
	_, _ = r.Out.Write([]byte(r.User + "|" + r.Peer + "|" + r.Command + "|" + r.Env["SSH_ORIGINAL_COMMAND"]))
	return Exit{}
})
