package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Version is the protocol's version that this package speaks.
const Version = 1

const (
	magic        = "PRDR"
	preambleSize = len(magic) + 2

	// readBuffer saves a system call for each frame's header, and is small
	// because a host holds one for each attachment.
	readBuffer = 4 << 10

	// keepBuffer is the largest write buffer kept between frames.
	keepBuffer = 64 << 10
)

// A Conn reads and writes frames on a byte stream. One goroutine may read
// while any number write.
type Conn struct {
	rw      io.ReadWriter
	in      *bufio.Reader
	readErr error // set once the stream can't be followed any more

	mu       sync.Mutex // orders whole frames on the stream, and guards the rest
	out      []byte
	writeErr error // set once a frame was written in part
}

// NewConn returns a Conn on rw, without reading or writing anything. From now
// on only the Conn may read from rw, since it reads ahead.
func NewConn(rw io.ReadWriter) *Conn {
	return &Conn{rw: rw, in: bufio.NewReaderSize(rw, readBuffer)}
}

// Handshake sends this side's preamble and reads the peer's; it must come
// before any frame, on both sides. It returns the peer's version, also beside a
// [*VersionError]. The error is [ErrMagic] if the peer isn't perdure.
//
// After an error the caller closes the stream, which also ends a send that the
// peer never took.
func (c *Conn) Handshake() (peerVersion uint16, err error) {
	// Both sides send first. On a stream without any buffer that is a deadlock
	// unless sending and reading go side by side.
	sent := make(chan error, 1)
	go func() { sent <- c.sendPreamble() }()

	peerVersion, err = c.readPreamble()
	if err != nil {
		return 0, err
	}
	// The peer is perdure and will read, so that it too can name both versions.
	if err := <-sent; err != nil {
		return peerVersion, err
	}
	if peerVersion != Version {
		return peerVersion, &VersionError{Ours: Version, Theirs: peerVersion}
	}
	return peerVersion, nil
}

func (c *Conn) sendPreamble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.send(appendPreamble(nil, Version)); err != nil {
		return fmt.Errorf("send preamble: %w", err)
	}
	return nil
}

func appendPreamble(b []byte, version uint16) []byte {
	return be.AppendUint16(append(b, magic...), version)
}

func (c *Conn) readPreamble() (version uint16, err error) {
	var b [preambleSize]byte
	n, err := io.ReadFull(c.in, b[:])
	// What came tells more than that too little came.
	if known := min(n, len(magic)); string(b[:known]) != magic[:known] {
		return 0, ErrMagic
	}
	if err != nil {
		return 0, fmt.Errorf("read preamble: %w", err)
	}
	return be.Uint16(b[len(magic):]), nil
}

// Read returns the next frame, as a value of one of this package's structs. Its
// byte slices belong to the caller; an empty one is nil. Frames of unknown
// types are skipped.
//
// The error is [io.EOF] if the stream ended between frames and wraps
// [io.ErrUnexpectedEOF] if it ended inside one. Once a frame was read in part,
// or was too large, every later Read fails the same way: the stream can't be
// followed any more. An error before a frame's first byte (a deadline, say) and
// [ErrFrame] leave it usable.
func (c *Conn) Read() (Frame, error) {
	for c.readErr == nil {
		k, size, err := c.readHeader()
		if err != nil {
			return nil, err
		}
		if !k.known() {
			if _, err := c.in.Discard(size); err != nil {
				return nil, c.breakRead(err)
			}
			continue
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(c.in, payload); err != nil {
			return nil, c.breakRead(err)
		}
		return decode(k, payload)
	}
	return nil, c.readErr
}

func (c *Conn) readHeader() (k kind, size int, err error) {
	var b [headerSize]byte
	n, err := io.ReadFull(c.in, b[:])
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return 0, 0, io.EOF // bare, as readers of streams expect
	case n == 0 && err != nil:
		return 0, 0, fmt.Errorf("read frame: %w", err)
	case err != nil:
		return 0, 0, c.breakRead(err)
	}
	k = kind(b[0])
	length := be.Uint32(b[1:])
	if k == kindReserved {
		c.readErr = fmt.Errorf("%w: type 0", ErrFrame)
		return 0, 0, c.readErr
	}
	if length > MaxPayload {
		c.readErr = fmt.Errorf("read frame of %d bytes: %w", length, ErrTooLarge)
		return 0, 0, c.readErr
	}
	return k, int(length), nil
}

// breakRead marks the stream as lost inside a frame.
func (c *Conn) breakRead(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	c.readErr = fmt.Errorf("read inside a frame: %w", err)
	return c.readErr
}

// Write sends one frame, whole, by one call of the stream's Write. It is safe
// for concurrent use.
//
// If the stream takes only a part of a frame (a write deadline passed), every
// later Write fails the same way, as the peer would take the next frame for the
// rest of this one. [ErrTooLarge] leaves the stream as it was.
func (c *Conn) Write(f Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writeErr != nil {
		return c.writeErr
	}
	if want := payloadHint(f) + headerSize + 64; cap(c.out) < want {
		c.out = make([]byte, 0, want)
	}
	b, err := Append(c.out[:0], f)
	if err != nil {
		return err
	}
	// One redraw or status shouldn't cost its size for as long as the
	// attachment lives.
	if c.out = b; cap(b) > keepBuffer {
		c.out = nil
	}
	return c.send(b)
}

// send writes b with c.mu held. Others that want to write wait for it: they
// have to, as frames mustn't mix, and the stream's owner sets its deadlines.
func (c *Conn) send(b []byte) error {
	n, err := c.rw.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("write frame: %w", err)
	if n > 0 {
		c.writeErr = err
	}
	return err
}
