package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"perdure/client/link"
	"perdure/client/predict"
	"perdure/workspace/screen"
	"perdure/workspace/wire"
)

// skipBytes is how far a client must be behind before output may be skipped.
const skipBytes = 8 << 20

// ConnectOptions are those of Connect.
type ConnectOptions struct {
	Host       string // [USER@]HOST[:PORT], reached by the system's ssh
	SSH        string // the ssh program with its arguments; empty means "ssh"
	RemotePath string // of perdure at the far end; empty means "perdure", found there
	Workspace  string // empty asks for one
	ReadOnly   bool
	Whole      bool         // never skip output, however far behind
	Predict    predict.Mode // when guesses are shown; empty means adaptive
	Stdin      *os.File
	Stdout     *os.File
	Stderr     io.Writer
}

// Connect attaches to a session on another machine and stays attached, whatever becomes of the connection. It returns
// the session's exit status: 0 too when the person leaves by "~.". Without a terminal the session's output is followed
// from its beginning, byte for byte.
//
// The error is a *[link.FinalError] where it comes with an exit status of its own.
func Connect(ctx context.Context, o ConnectOptions) (int, error) {
	c := &connection{o: o, last: link.State{Up: true}, leaving: make(chan struct{}), tty: isTerminal(o.Stdin) && isTerminal(o.Stdout)}
	ctx, c.cancel = context.WithCancel(ctx)
	defer c.cancel()
	k := &caller{host: o.Host, ssh: o.SSH, path: o.RemotePath, stderr: orDiscard(o.Stderr)}
	if _, err := k.argv(true, ""); err != nil {
		return 0, err
	}
	options := link.Options{Dial: k.dial, Handler: c, Workspace: o.Workspace, Terminal: c.tty, Attach: wire.Attach{ReadOnly: o.ReadOnly, Term: termName()}}
	if c.tty {
		z := windowSize(o.Stdout)
		options.Attach.Cols, options.Attach.Rows, options.Attach.XPixel, options.Attach.YPixel = z.cols, z.rows, z.xpixel, z.ypixel
		if !o.Whole {
			options.Skip = skipBytes
		}
	}
	c.link = link.New(options)
	defer c.close()
	result, err := c.link.Run(ctx)
	return c.finish(result, err)
}

// connection is a person's or a program's end of a link.
type connection struct {
	o       ConnectOptions
	link    *link.Link
	tty     bool
	cancel  func()
	leaving chan struct{} // closed when the person leaves, or a signal tells us to
	once    sync.Once
	status  int // for the way out by a signal; written before leaving is closed

	// Of the link's goroutine:
	t    *terminal
	d    *display
	in   *input
	name string
	last link.State

	pumps sync.WaitGroup
}

// Up takes the terminal, now that ssh has no more questions.
func (c *connection) Up() error {
	in, err := newInput(c.o.Stdin)
	if err != nil {
		return fmt.Errorf("read the input: %w", err)
	}
	c.in = in
	if !c.tty {
		c.pumps.Go(c.feed)
		return nil
	}
	if c.t, err = openTerminal(c.o.Stdin, c.o.Stdout); err != nil {
		return err
	}
	c.d = newDisplay(c.o.Stdout, c.t.size(), cmp.Or(c.o.Predict, predict.Adaptive))
	c.pumps.Go(c.keys)
	c.pumps.Go(c.watch)
	// What our model doesn't know must not be there, or it could not be painted back.
	return c.d.put([]byte("\x1b[!p\x1b[0m\x1b[H\x1b[2J"))
}

func (c *connection) leave(status int) {
	c.once.Do(func() {
		c.status = status
		close(c.leaving)
		c.cancel()
	})
}

func (c *connection) hasLeft() bool {
	select {
	case <-c.leaving:
		return true
	default:
		return false
	}
}

// feed types what a program writes to us, as fast as the session takes it.
func (c *connection) feed() {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.in.Read(buf)
		for p := append([]byte(nil), buf[:n]...); len(p) > 0 && !c.o.ReadOnly; {
			if p = p[c.link.Type(p):]; len(p) > 0 && !c.link.Room(context.Background()) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// keys types what the person types, and does what their escapes say.
func (c *connection) keys() {
	defer c.recovered()
	k := keys{send: c.typed, act: c.escape}
	buf := make([]byte, 32<<10)
	for !c.hasLeft() {
		n, err := c.in.Read(buf)
		k.feed(buf[:n])
		if err != nil {
			if !errors.Is(err, io.EOF) || n > 0 {
				c.leave(128 + int(syscall.SIGHUP)) // the terminal is gone
			}
			return
		}
	}
}

// recovered puts the terminal back before a panic ends the process.
func (c *connection) recovered() {
	if p := recover(); p != nil {
		if c.t != nil {
			c.t.restore(true)
		}
		panic(p)
	}
}

func (c *connection) typed(p []byte) {
	if c.o.ReadOnly {
		return
	}
	if c.link.Type(p) < len(p) {
		c.link.Do(func(link.State) {
			_ = c.d.say("perdure: too much was typed while nobody took it; the rest was dropped", 5*time.Second)
		})
	}
}

const escapeHelp = "perdure: ~. or ~d leaves  ~s the link  ~w another workspace  ~n the next that needs you  ~~ a tilde"

// escape does what the character after a tilde says.
func (c *connection) escape(b byte) {
	switch b {
	case '.', 'd':
		c.leave(0)
	case '?':
		c.link.Do(func(link.State) { _ = c.d.say(escapeHelp, 8*time.Second) })
	case 's':
		c.link.Do(func(s link.State) { _ = c.d.say(c.describe(s), 5*time.Second) })
	case 'w':
		c.link.Go("")
	case 'n':
		c.link.Go("@next")
	}
}

func (c *connection) describe(s link.State) string {
	if !s.Up {
		return c.downLine(s)
	}
	right, wrong := c.d.guess.Counts()
	text := fmt.Sprintf("perdure: %s: the link answers in %s", c.name, s.RTT.Round(100*time.Microsecond))
	if s.Redials > 0 {
		text += fmt.Sprintf("; connected again %s, last %s ago", times(s.Redials), time.Since(s.Since).Round(time.Second))
	}
	if s.Pending > 0 {
		text += fmt.Sprintf("; %d bytes typed are on their way", s.Pending)
	}
	if right+wrong > 0 {
		text += fmt.Sprintf("; %d keys foreseen, %d wrongly", right+wrong, wrong)
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// watch takes the window's changes to the session, and leaves on a signal that would end us.
func (c *connection) watch() {
	for {
		select {
		case <-c.leaving:
			return
		case s := <-c.t.ending:
			c.leave(128 + int(s.(syscall.Signal)))
			return
		case <-c.t.resized:
			z := c.t.size()
			c.link.Resize(wire.Resize{Cols: z.cols, Rows: z.rows, XPixel: z.xpixel, YPixel: z.ypixel})
			c.link.Do(func(link.State) { _ = c.d.resize(z) })
		}
	}
}

// Session notes where we are.
func (c *connection) Session(_, workspace string, fresh bool) error {
	c.name = workspace
	if c.d != nil && fresh {
		return c.d.forget()
	}
	return nil
}

// Output shows what the program printed.
func (c *connection) Output(p []byte) error { return c.show(p) }

// Redraw shows what stands for it; a program that reads us gets none of that.
func (c *connection) Redraw(p []byte) error {
	if c.d == nil {
		return nil
	}
	return c.show(p)
}

func (c *connection) show(p []byte) error {
	if c.d != nil {
		return c.d.write(p)
	}
	if _, err := c.o.Stdout.Write(p); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// Skipped tells of output that isn't shown.
func (c *connection) Skipped(n uint64) error {
	text := fmt.Sprintf("perdure: %d bytes of output were left out", n)
	if c.d != nil {
		return c.d.say(text, 5*time.Second)
	}
	fmt.Fprintln(orDiscard(c.o.Stderr), text)
	return nil
}

// Typed guesses what the keys will show.
func (c *connection) Typed(p []byte, end uint64, rtt time.Duration) error {
	if c.d == nil {
		return nil
	}
	return c.d.typed(p, end, rtt)
}

// Tty tells the guesses how the terminal treats input.
func (c *connection) Tty(f wire.Tty) error {
	if c.d == nil {
		return nil
	}
	c.d.guess.Tty(f.Echo, f.Canonical)
	return c.d.refresh()
}

// Echoed has the guesses compared with what shows.
func (c *connection) Echoed(offset uint64) error {
	if c.d == nil {
		return nil
	}
	return c.d.echoed(offset)
}

// Tick takes a line away whose time is over, and shows guesses whose answers are late.
func (c *connection) Tick() error {
	if c.d == nil {
		return nil
	}
	if c.last.Up && c.d.passed(time.Now()) {
		return c.d.say("", 0)
	}
	if len(c.d.over) > 0 {
		return nil // they show already
	}
	return c.d.refresh()
}

// sayAfter is the silence after which the person is told.
const sayAfter = 3 * time.Second

// Link says in one line that nothing is heard, and takes the line away when it is over.
func (c *connection) Link(s link.State) error {
	c.last = s
	if c.d == nil {
		return nil
	}
	if s.Up || s.Silence < sayAfter {
		return c.d.say("", 0)
	}
	return c.d.say(c.downLine(s), 0)
}

func (c *connection) downLine(s link.State) string {
	text := fmt.Sprintf("perdure: no answer for %d s", int(s.Silence.Seconds()))
	if s.Trying {
		text += ", connecting again"
	}
	if s.Pending > 0 {
		text += fmt.Sprintf("; %d bytes typed wait", s.Pending)
	}
	text += "; ~. leaves"
	if s.Problem != "" {
		text += " (" + s.Problem + ")"
	}
	return text
}

// close gives everything back, on every way out.
func (c *connection) close() {
	c.leave(0)
	if c.in != nil {
		c.in.stop()
	}
	if c.t != nil {
		c.t.restore(true)
	}
	c.pumps.Wait()
	if c.in != nil {
		c.in.close()
	}
	if c.d != nil {
		c.d.close()
	}
}

// finish is the exit status, and the last words to the person.
func (c *connection) finish(result link.Result, err error) (int, error) {
	errOut := orDiscard(c.o.Stderr)
	left := c.hasLeft()
	if c.d != nil && !left && err == nil {
		_ = c.d.flush() // a terminal that is gone needs none
	}
	if c.t != nil {
		_, _ = c.t.out.Write(screen.Restore())
		c.t.restore(false)
	}
	var final *link.FinalError
	switch {
	case left && errors.Is(err, context.Canceled):
		if c.status == 0 && c.name != "" {
			fmt.Fprintf(errOut, "perdure: left %s; its session goes on\n", c.name)
		}
		return c.status, nil
	case errors.As(err, &final) && errors.Is(err, errSaid):
		return final.Status, nil
	case err != nil:
		return 0, err
	}
	if result.Undelivered > 0 {
		fmt.Fprintf(errOut, "perdure: %d bytes typed came too late: the session had ended\n", result.Undelivered)
	}
	if result.Signal != "" {
		return signalStatus(result.Signal), nil
	}
	return result.Code, nil
}
