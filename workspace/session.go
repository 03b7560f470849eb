package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perdure/workspace/wire"
)

// SessionState only moves forward: from Live to Ended or Lost.
type SessionState string

// The states of a session.
const (
	Live  SessionState = "live"
	Ended SessionState = "ended" // its host wrote how
	Lost  SessionState = "lost"  // its host is gone without a word
)

// Exit is how a session ended.
type Exit struct {
	Code   int       `json:"code"`
	Signal string    `json:"signal,omitempty"`
	At     time.Time `json:"at"`
	Offset uint64    `json:"offset"` // the journal's end, in bytes
	// Terminated: not the session ended, its host was told to end, as when the box goes down.
	Terminated bool `json:"terminated,omitempty"`
}

// Session is one run of a workspace's command in a pty.
type Session struct {
	ID, Workspace string
	Dir           string // the session folder
	WorkDir       string // where its program was started
	Pid, HostPid  int
	Started       time.Time
	Ended         *time.Time
	State         SessionState
	Exit          *Exit
	Argv          []string
	Repair        bool
	Boot          string // the boot id it started under
	Cols, Rows    uint16
	socket        string
}

// Size is the pty's size at the start.
func (s *Session) Size() (cols, rows int) { return int(s.Cols), int(s.Rows) }

// Status is what a host says of its session.
type Status struct {
	ID         string    `json:"id"`
	Pid        int       `json:"pid"`
	HostPid    int       `json:"host_pid"`
	Cols       uint16    `json:"cols"`
	Rows       uint16    `json:"rows"`
	Attached   int       `json:"attached"`
	Typists    int       `json:"typists"`
	Start      uint64    `json:"start"`
	End        uint64    `json:"end"`
	LastOutput time.Time `json:"last_output"`
	Title      string    `json:"title"`
	Alternate  bool      `json:"alternate"`
	Bell       bool      `json:"bell"`
	Version    int       `json:"version"`
	// What an older host doesn't tell is left at zero.
	Notice     *Notice   `json:"notice"`     // what the program last called for a person with, until answered
	Mark       string    `json:"mark"`       // OSC 133: prompt, command, or "" where the shell marks nothing
	Progress   bool      `json:"progress"`   // OSC 9;4: a progress bar is shown
	Printing   bool      `json:"printing"`   // it printed within the last three seconds, and may still do so
	LastInput  time.Time `json:"last_input"` // when a person last typed; zero if never
	Foreground int       `json:"foreground"` // the terminal's foreground process group, 0 if unknown
	Line       string    `json:"line"`       // the row that the cursor is in
}

// Notice is a bell or a notification (OSC 9, OSC 777) that nobody has answered yet.
type Notice struct {
	Kind string    `json:"kind"` // bell or osc
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// bootstrap is session.json, which whoever starts a host writes before; workspace/host/FORMAT.md describes it.
type bootstrap struct {
	ID           string    `json:"id"`
	Workspace    string    `json:"workspace"`
	Dir          string    `json:"dir"`
	Argv         []string  `json:"argv"`
	Env          []string  `json:"env"`
	Cols         uint16    `json:"cols"`
	Rows         uint16    `json:"rows"`
	Term         string    `json:"term"`
	Repair       bool      `json:"repair"`
	Started      time.Time `json:"started"`
	Boot         string    `json:"boot"`
	Socket       string    `json:"socket"`
	JournalBytes int64     `json:"journal_bytes"`
}

// running is host.json, which the host writes once the child runs.
type running struct {
	HostPid int `json:"host_pid"`
	Pid     int `json:"pid"`
}

// probeTimeout is what a host has to answer in.
const probeTimeout = 2 * time.Second

// Load reads a session folder and asks its host whether it lives.
func Load(dir string) (*Session, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	return load(ctx, dir)
}

func load(ctx context.Context, dir string) (*Session, error) {
	var b bootstrap
	if err := readJSON(filepath.Join(dir, "session.json"), &b); err != nil {
		return nil, fmt.Errorf("session folder %s: %w", dir, err)
	}
	s := &Session{ID: b.ID, Workspace: b.Workspace, Dir: dir, WorkDir: b.Dir, Started: b.Started, Argv: b.Argv, Repair: b.Repair, Boot: b.Boot, Cols: b.Cols, Rows: b.Rows, socket: b.Socket, State: Lost}
	var r running
	if err := readJSON(filepath.Join(dir, "host.json"), &r); err == nil {
		s.Pid, s.HostPid = r.Pid, r.HostPid
	}
	var e Exit
	if err := readJSON(filepath.Join(dir, "exit.json"), &e); err == nil {
		s.State, s.Exit, s.Ended = Ended, &e, &e.At
		return s, nil
	}
	if st, err := s.Status(ctx); err == nil {
		s.State, s.Pid, s.HostPid = Live, st.Pid, st.HostPid
		return s, nil
	}
	// The host may have ended between the two looks.
	if err := readJSON(filepath.Join(dir, "exit.json"), &e); err == nil {
		s.State, s.Exit, s.Ended = Ended, &e, &e.At
	}
	return s, nil
}

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// Scan loads every session below STATE/workspaces; budget bounds what each host has to answer in. A folder that
// can't be read is an error beside the others, and is left as it is.
func Scan(root string, budget time.Duration) ([]*Session, []error) {
	dirs, err := filepath.Glob(filepath.Join(root, "*", "sessions", "*"))
	if err != nil {
		return nil, []error{err}
	}
	type result struct {
		s   *Session
		err error
	}
	results := make([]result, len(dirs))
	done := make(chan int)
	slots := make(chan struct{}, 64)
	for i, dir := range dirs {
		go func() {
			slots <- struct{}{}
			ctx, cancel := context.WithTimeout(context.Background(), budget)
			s, err := load(ctx, dir)
			cancel()
			<-slots
			results[i] = result{s, err}
			done <- i
		}()
	}
	for range dirs {
		<-done
	}
	var out []*Session
	var errs []error
	for _, r := range results {
		if r.err != nil {
			errs = append(errs, r.err)
			continue
		}
		out = append(out, r.s)
	}
	return out, errs
}

// Dial connects to the host of a session folder; the handshake is done.
func Dial(ctx context.Context, dir string) (*wire.Conn, io.Closer, error) {
	var b bootstrap
	if err := readJSON(filepath.Join(dir, "session.json"), &b); err != nil {
		return nil, nil, fmt.Errorf("session folder %s: %w", dir, err)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", b.Socket)
	if err != nil {
		return nil, nil, fmt.Errorf("dial the host: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	conn := wire.NewConn(c)
	_, err = conn.Handshake()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, nil, fmt.Errorf("greet the host: %w", err)
	}
	return conn, c, nil
}

// ask sends a request and returns the first frame that want takes.
func (s *Session) ask(ctx context.Context, req wire.Frame, want func(wire.Frame) bool) error {
	conn, closer, err := Dial(ctx, s.Dir)
	if err != nil {
		return err
	}
	defer closer.Close()
	stop := context.AfterFunc(ctx, func() { closer.Close() })
	defer stop()
	if err := conn.Write(req); err != nil {
		return fmt.Errorf("ask the host: %w", err)
	}
	for {
		f, err := conn.Read()
		if err != nil {
			return fmt.Errorf("ask the host: %w", errors.Join(err, ctx.Err()))
		}
		if fault, ok := f.(wire.Fault); ok {
			return fmt.Errorf("the host refused: %s", fault.Message)
		}
		if want(f) {
			return nil
		}
	}
}

// Status asks the host how its session is.
func (s *Session) Status(ctx context.Context) (Status, error) {
	var out Status
	var bad error
	err := s.ask(ctx, wire.StatusRequest{}, func(f wire.Frame) bool {
		st, ok := f.(wire.Status)
		if ok {
			bad = json.Unmarshal(st.JSON, &out)
		}
		return ok
	})
	return out, errors.Join(err, bad)
}

// View asks the host what the terminal shows, as the JSON of screen.View.
func (s *Session) View(ctx context.Context) ([]byte, error) {
	var out []byte
	err := s.ask(ctx, wire.PeekRequest{}, func(f wire.Frame) bool {
		p, ok := f.(wire.Peek)
		out = p.JSON
		return ok
	})
	return out, err
}

// Send types into the session, and returns once the host has all of it in its queue. Pieces are typed as a person's
// separate strokes are, with pause between them: a program that takes a burst for a paste would take the Enter at its
// end for a part of the text.
func (s *Session) Send(ctx context.Context, pause time.Duration, pieces ...[]byte) error {
	conn, closer, err := Dial(ctx, s.Dir)
	if err != nil {
		return err
	}
	defer closer.Close()
	stop := context.AfterFunc(ctx, func() { closer.Close() })
	defer stop()
	for i, p := range pieces {
		if i > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
		}
		for chunk := range slices.Chunk(p, wire.MaxData) {
			if err := conn.Write(wire.Input{Offset: wire.NoOffset, Data: chunk}); err != nil {
				return fmt.Errorf("type into the session: %w", err)
			}
		}
		if err := conn.Write(wire.Ping{N: uint64(i)}); err != nil {
			return fmt.Errorf("type into the session: %w", err)
		}
		for pong := false; !pong; { // frames are handled in order: the answer says that the input was taken
			f, err := conn.Read()
			if err != nil {
				return fmt.Errorf("type into the session: %w", errors.Join(err, ctx.Err()))
			}
			_, pong = f.(wire.Pong)
		}
	}
	return nil
}

// Stop ends the session with a signal; after the grace it is killed. It returns once the host is gone.
func (s *Session) Stop(ctx context.Context, signal string, grace time.Duration) error {
	conn, closer, err := Dial(ctx, s.Dir)
	if err != nil {
		if now, loadErr := Load(s.Dir); loadErr == nil && now.State != Live {
			return nil
		}
		return err
	}
	defer closer.Close()
	stop := context.AfterFunc(ctx, func() { closer.Close() })
	defer stop()
	gone := s.watchHost() // while it surely is the host's number
	if err := conn.Write(wire.Stop{Signal: signal}); err != nil {
		return fmt.Errorf("stop the session: %w", err)
	}
	killer := time.AfterFunc(grace, func() { _ = conn.Write(wire.Stop{Signal: "KILL"}) }) // a host that is gone needs none
	defer killer.Stop()
	for {
		if _, err := conn.Read(); err != nil {
			return errors.Join(ctx.Err(), gone(ctx)) // the host still writes its last screen into the folder
		}
	}
}

// BootID is the kernel's id of this boot, "" where there is none (proc(5), sys/kernel/random/boot_id).
func BootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
