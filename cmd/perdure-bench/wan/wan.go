// Package wan makes a slow, lossy or cut network between two namespaces of the machine, for tests and measurements. It
// carries packets between two TUN devices by itself, so that nothing is needed of the kernel but namespaces and TUN
// (network_namespaces(7)), and TCP and UDP fare alike.
package wan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotAllowed says that this process can't make networks.
var ErrNotAllowed = errors.New("no right or no means to make network namespaces and TUN devices")

// The two ends' namespaces are named by the caller; their addresses are these.
const (
	NearAddress = "10.77.0.1"
	FarAddress  = "10.77.0.2"
	device      = "wan0"
	// queue bounds the packets under way in one direction; more are dropped, as by a router.
	queue = 4096
)

// Shape is how a network behaves in each direction.
type Shape struct {
	Delay time.Duration // one way
	Loss  float64       // 0 to 1
	Rate  int           // bytes a second, 0 for no limit
	Cut   bool          // everything is dropped, silently
}

// Network is two namespaces with a link between them.
type Network struct {
	Near, Far string // the namespaces

	mu     sync.Mutex
	shape  Shape
	rnd    *rand.Rand
	files  []*os.File
	pumps  sync.WaitGroup
	closed chan struct{}
}

// New makes a network; Close removes it.
func New(name string) (*Network, error) {
	n := &Network{Near: name + "n", Far: name + "f", rnd: rand.New(rand.NewPCG(1, 2)), closed: make(chan struct{})}
	if out, err := exec.Command("ip", "netns", "add", n.Near).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %v: %s", ErrNotAllowed, err, strings.TrimSpace(string(out)))
	}
	err := run("ip", "netns", "add", n.Far)
	for i, ns := range []string{n.Near, n.Far} {
		if err != nil {
			break
		}
		var f *os.File
		if f, err = openTun(ns); err != nil {
			break
		}
		n.files = append(n.files, f)
		address := []string{NearAddress, FarAddress}[i]
		err = errors.Join(run("ip", "-n", ns, "addr", "add", address+"/24", "dev", device), run("ip", "-n", ns, "link", "set", device, "up"), run("ip", "-n", ns, "link", "set", "lo", "up"))
	}
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("%w: %w", ErrNotAllowed, err)
	}
	n.pumps.Go(func() { n.carry(n.files[0], n.files[1]) })
	n.pumps.Go(func() { n.carry(n.files[1], n.files[0]) })
	return n, nil
}

func run(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// openTun makes the device inside a namespace: its file works from anywhere afterwards.
func openTun(ns string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, and with it its namespace
		f, err := openTunHere("/var/run/netns/" + ns)
		done <- result{f, err}
	}()
	r := <-done
	return r.f, r.err
}

func openTunHere(path string) (*os.File, error) {
	ns, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter the namespace: %w", err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq(device)
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make the device: %w", err)
	}
	return os.NewFile(uintptr(fd), device), nil
}

// Set changes how the network behaves from now on.
func (n *Network) Set(s Shape) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shape = s
}

// Move gives the near end another address; what it had is gone.
func (n *Network) Move(to string) error {
	return errors.Join(run("ip", "-n", n.Near, "addr", "flush", "dev", device), run("ip", "-n", n.Near, "addr", "add", to+"/24", "dev", device))
}

// Command is argv run in a namespace.
func Command(ns string, argv ...string) []string {
	return append([]string{"ip", "netns", "exec", ns}, argv...)
}

type packet struct {
	data []byte
	at   time.Time
}

// carry takes packets from one end to the other, in order.
func (n *Network) carry(from, to *os.File) {
	packets := make(chan packet, queue)
	n.pumps.Go(func() {
		for p := range packets {
			if !n.until(p.at) {
				continue
			}
			_, _ = to.Write(p.data) // a device that is down takes none
		}
	})
	defer close(packets)
	buf := make([]byte, 64<<10)
	var free time.Time // when the link has sent what it has
	for {
		size, err := from.Read(buf)
		if err != nil {
			return
		}
		n.mu.Lock()
		s := n.shape
		lost := s.Cut || s.Loss > 0 && n.rnd.Float64() < s.Loss
		n.mu.Unlock()
		if lost {
			continue
		}
		at := time.Now()
		if s.Rate > 0 {
			if free.Before(at) {
				free = at
			}
			free = free.Add(time.Duration(size) * time.Second / time.Duration(s.Rate))
			at = free
		}
		select {
		case packets <- packet{append([]byte(nil), buf[:size]...), at.Add(s.Delay)}:
		default: // the queue is full
		}
	}
}

// until waits for a time, or returns false where the network is gone.
func (n *Network) until(at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-n.closed:
		return false
	}
}

// Close removes the network.
func (n *Network) Close() {
	close(n.closed)
	for _, f := range n.files {
		f.Close()
	}
	n.pumps.Wait()
	for _, ns := range []string{n.Near, n.Far} {
		_ = run("ip", "netns", "del", ns) // it may never have been made
	}
}
