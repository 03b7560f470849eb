package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// runTransfer measures files and forwarded ports, both ways, beside OpenSSH's sshd, and compares what arrived.
func runTransfer(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("transfer", flag.ContinueOnError)
	size := set.Int("size", 100, "MiB each way")
	runs := set.Int("runs", 3, "how often, taking turns")
	if err := set.Parse(args); err != nil {
		return err
	}
	p, err := newPeers(ctx, "")
	if err != nil {
		return err
	}
	defer p.close()
	if out, err := p.far(p.bin, "new", "bench", "--dir", p.work(), "--", "cat").CombinedOutput(); err != nil {
		return fmt.Errorf("make the workspace: %w: %s", err, out)
	}
	t := &transfer{p: p, file: filepath.Join(p.dir, "sent"), size: *size << 20}
	if t.sum, err = makeFile(t.file, t.size); err != nil {
		return err
	}
	fmt.Printf("perdure-bench transfer -size %d -runs %d: over the loopback, MB/s, perdure beside OpenSSH's sshd\n\n%-12s %10s %10s %8s\n", *size, *runs, "", "perdure", "sshd", "ratio")
	for _, way := range []string{"scp up", "scp down", "sftp up", "sftp down", "-L up", "-L down"} {
		rate := map[string][]float64{}
		for range *runs {
			for _, peer := range []string{"perdure", "sshd"} {
				took, err := t.once(ctx, peer, way)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", peer, way, err)
				}
				rate[peer] = append(rate[peer], float64(t.size)/1e6/took.Seconds())
			}
		}
		ours, theirs := medianRate(rate["perdure"]), medianRate(rate["sshd"])
		fmt.Printf("%-12s %10.0f %10.0f %8.2f\n", way, ours, theirs, ours/theirs)
	}
	return nil
}

func medianRate(f []float64) float64 {
	slices.Sort(f)
	return f[len(f)/2]
}

// transfer is one file that goes both ways.
type transfer struct {
	p    *peers
	file string
	size int
	sum  [sha256.Size]byte
}

// makeFile writes bytes that nothing compresses.
func makeFile(path string, size int) (sum [sha256.Size]byte, err error) {
	data := make([]byte, size)
	if _, err := rand.Read(data); err != nil {
		return sum, err
	}
	return sha256.Sum256(data), os.WriteFile(path, data, 0o600)
}

// at is the peer's address as its commands take it, and the port.
func (t *transfer) at(peer string) (user, port string) {
	if peer == "perdure" {
		return "bench@" + t.p.addr, t.p.port["perdure"]
	}
	return "root@" + t.p.addr, sshPort
}

// once carries the file one way, and says how long it took.
func (t *transfer) once(ctx context.Context, peer, way string) (time.Duration, error) {
	user, port := t.at(peer)
	how, direction, _ := strings.Cut(way, " ")
	if how == "-L" {
		return t.forwarded(ctx, user, port, direction)
	}
	far, back := filepath.Join(t.p.work(), "far"), filepath.Join(t.p.dir, "back")
	options := strings.Fields(t.p.ssh(""))[1:]
	arrived := far
	var cmd *exec.Cmd
	switch how + direction {
	case "scpup":
		cmd = t.p.near(slices.Concat([]string{"scp", "-q", "-O", "-P", port}, options, []string{t.file, user + ":" + far})...)
	case "scpdown":
		arrived = back
		cmd = t.p.near(slices.Concat([]string{"scp", "-q", "-O", "-P", port}, options, []string{user + ":" + far, back})...)
	case "sftpup":
		cmd = t.p.near(slices.Concat([]string{"sftp", "-q", "-b", "-", "-P", port}, options, []string{user})...)
		cmd.Stdin = strings.NewReader("put " + t.file + " " + far + "\n")
	case "sftpdown":
		arrived = back
		cmd = t.p.near(slices.Concat([]string{"sftp", "-q", "-b", "-", "-P", port}, options, []string{user})...)
		cmd.Stdin = strings.NewReader("get " + far + " " + back + "\n")
	}
	os.Remove(arrived) // there may be none
	if direction == "down" {
		if err := os.Link(t.file, far); err != nil && !errors.Is(err, os.ErrExist) {
			return 0, err
		}
	}
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	data, err := os.ReadFile(arrived)
	if err != nil {
		return 0, err
	}
	os.Remove(far)
	if sha256.Sum256(data) != t.sum {
		return 0, fmt.Errorf("what arrived is not what was sent: %d bytes of %d", len(data), t.size)
	}
	return took, nil
}

// forwarded carries the file through a forwarded port, to or from a program beside the server, with half-close.
func (t *transfer) forwarded(ctx context.Context, user, port, direction string) (time.Duration, error) {
	data, err := os.ReadFile(t.file)
	if err != nil {
		return 0, err
	}
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer far.Close()
	socket := filepath.Join(t.p.dir, "forward.sock")
	os.Remove(socket)
	cmd := t.p.near(append(strings.Fields(t.p.ssh(port)), "-o", "ExitOnForwardFailure=yes", "-N", "-L", socket+":"+far.Addr().String(), user)...)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	near, err := dialSoon(ctx, socket)
	if err != nil {
		return 0, err
	}
	defer near.Close()
	there, err := far.Accept()
	if err != nil {
		return 0, err
	}
	defer there.Close()
	var from, to = near, there
	if direction == "down" {
		from, to = there, near
	}
	began := time.Now()
	sent := make(chan error, 1)
	go func() {
		_, err := from.Write(data)
		if half, ok := from.(interface{ CloseWrite() error }); ok && err == nil {
			err = half.CloseWrite()
		}
		sent <- err
	}()
	hash := sha256.New()
	if _, err := io.Copy(hash, to); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if err := <-sent; err != nil {
		return 0, err
	}
	if [sha256.Size]byte(hash.Sum(nil)) != t.sum {
		return 0, errors.New("what arrived is not what was sent")
	}
	return took, nil
}

// dialSoon dials a socket that ssh is about to make.
func dialSoon(ctx context.Context, path string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}
