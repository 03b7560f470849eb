package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"perdure/workspace/screen"
)

// streams are what terminals mostly see, of about so many bytes each.
func streams(size int) []stream {
	return []stream{
		{"plain text", generate(size, func(b *bytes.Buffer, i int) {
			fmt.Fprintf(b, "2026-01-02T03:%02d:%02dZ info request %d served path=/api/v1/items/%d status=200 bytes=%d in 1.3ms\r\n", i/60%60, i%60, i, i*7%1000, i*31%9999)
		})},
		{"coloured build", generate(size, func(b *bytes.Buffer, i int) {
			fmt.Fprintf(b, "\x1b[0;32m   Compiling\x1b[0m package-%d v1.%d.0 (\x1b[36m/src/package\x1b[0m)\r\n\x1b[1;33mwarning\x1b[0m: \x1b[1munused variable\x1b[0m: `x%d`\r\n", i, i%9, i)
		})},
		{"repaint", generate(size, func(b *bytes.Buffer, i int) {
			b.WriteString("\x1b[?2026h\x1b[H")
			for y := range rows {
				fmt.Fprintf(b, "\x1b[%d;1H\x1b[38;5;%dm%-40d\x1b[0m \x1b[7m%-20d\x1b[27m %s\x1b[K", y+1, (i+y)%256, i*y, y, "│ ▏▎▍ the line of a full screen")
			}
			b.WriteString("\x1b[?2026l")
		})},
	}
}

type stream struct {
	name string
	data []byte
}

func generate(size int, line func(b *bytes.Buffer, i int)) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		line(&b, i)
	}
	return b.Bytes()
}

// chunk is how much a host reads at once.
const chunk = 32 << 10

// runScreen measures parsing and memory beside tmux. An argument is the size of each stream in MiB (16).
func runScreen(_ context.Context, args []string) error {
	size := 16
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 {
			return fmt.Errorf("%q is no size in MiB", args[0])
		}
		size = n
	}
	p, err := newPeer()
	if err != nil {
		return err
	}
	defer p.close()
	version, _ := p.tmux("-V")
	fmt.Printf("perdure-bench screen %d   (%d cpus, %dx%d, %s in a detached session)\n\n%-16s %12s %12s %8s\n", size, runtime.NumCPU(), cols, rows, version, "stream", "perdure", "tmux", "ratio")
	for _, s := range streams(size << 20) {
		if err := compareSpeed(p, s); err != nil {
			return err
		}
	}
	return compareMemory()
}

func compareSpeed(p *peer, s stream) error {
	path := filepath.Join(p.dir, "stream")
	if err := os.WriteFile(path, s.data, 0o600); err != nil {
		return err
	}
	var ours, theirs time.Duration
	for range 3 { // the best of three: the machine does other things
		start := time.Now()
		takeIn(screen.New(cols, rows, screen.Options{History: 10000}), s.data)
		if d := time.Since(start); ours == 0 || d < ours {
			ours = d
		}
		d, err := p.take(path)
		if err != nil {
			return err
		}
		if theirs == 0 || d < theirs {
			theirs = d
		}
	}
	rate := func(d time.Duration) float64 { return float64(len(s.data)) / d.Seconds() / 1e6 }
	fmt.Printf("%-16s %7.0f MB/s %7.0f MB/s %7.1fx\n", s.name, rate(ours), rate(theirs), theirs.Seconds()/ours.Seconds())
	return nil
}

func takeIn(s *screen.Screen, data []byte) {
	for len(data) > 0 {
		n := min(chunk, len(data))
		_, _ = s.Write(data[:n])
		data = data[n:]
	}
}

// typicalLines are 10,000 lines as agents and builds print them.
func typicalLines() []byte {
	var b bytes.Buffer
	for i := range 10000 {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&b, "\x1b[32mok\x1b[0m   example.com/service/internal/package%d\t%d.%03ds\r\n", i%97, i%9, i%1000)
		case 1:
			fmt.Fprintf(&b, "=== RUN   TestThing/case_%d_of_many\r\n", i)
		case 2:
			fmt.Fprintf(&b, "    \x1b[1;31merror\x1b[0m: cannot find value `name_%d` in this scope, did you mean `name_%d`?\r\n", i, i+1)
		case 3:
			fmt.Fprintf(&b, "\x1b[2m%04d\x1b[0m \x1b[36mfunc\x1b[0m handle%d(w http.ResponseWriter, r *http.Request) {\r\n", i, i*13%10007)
		default:
			b.WriteString("\r\n")
		}
	}
	return b.Bytes()
}

// compareMemory uses a tmux of its own: one that has had other sessions keeps memory to use again.
func compareMemory() error {
	p, err := newPeer()
	if err != nil {
		return err
	}
	defer p.close()
	path := filepath.Join(p.dir, "lines")
	if err := os.WriteFile(path, typicalLines(), 0o600); err != nil {
		return err
	}
	theirs, err := p.weigh(path)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := exec.Command(self, ".screen-memory", path).Output()
	if err != nil {
		return fmt.Errorf("measure memory: %w", err)
	}
	ours, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return err
	}
	fmt.Printf("\n%-16s %8d KiB %8d KiB %7.2fx   (anonymous memory that they add)\n", "10,000 lines", ours, theirs, float64(ours)/float64(theirs))
	return nil
}

// runScreenMemory prints by how many KiB a file weighs on a process with a screen, as in a host.
func runScreenMemory(args []string) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	debug.SetGCPercent(40) // as a host does
	s := screen.New(cols, rows, screen.Options{History: 10000})
	takeIn(s, data[:1<<10]) // what the first line alone costs is the program's, not the history's
	before, err := atRest()
	if err != nil {
		return err
	}
	takeIn(s, data)
	after, err := atRest()
	fmt.Println(after - before)
	runtime.KeepAlive(s)
	runtime.KeepAlive(data)
	return err
}

// atRest is this process's anonymous memory once it has nothing to do.
func atRest() (int, error) {
	debug.FreeOSMemory()
	return anonymous(os.Getpid())
}
