package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Version is the version of the frames that this package writes.
const Version = 1

// MaxPayload is the largest payload of a frame, in bytes.
const MaxPayload = 1 << 20

// NoOffset marks an Input that has no address: it is always taken.
const NoOffset = ^uint64(0)

var magic = [4]byte{'P', 'R', 'D', 'R'}

// Errors of a stream that can't be read on.
var (
	ErrMagic    = errors.New("not a perdure stream")
	ErrTooLarge = errors.New("frame too large")
	ErrFrame    = errors.New("malformed frame")
)

// VersionError says that the two ends speak different versions.
type VersionError struct{ Ours, Theirs uint16 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the peer speaks version %d of the frames, we speak version %d", e.Theirs, e.Ours)
}

// Conn reads and writes frames. Write may be called from several goroutines, Read from one.
type Conn struct {
	rw  io.ReadWriter
	wmu sync.Mutex
}

// NewConn wraps a stream whose handshake is still to come.
func NewConn(rw io.ReadWriter) *Conn { return &Conn{rw: rw} }

// Handshake sends our preamble and reads the peer's. Both sides write first; a preamble fits any socket's buffer.
func (c *Conn) Handshake() (uint16, error) {
	out := binary.BigEndian.AppendUint16(append([]byte(nil), magic[:]...), Version)
	if _, err := c.rw.Write(out); err != nil {
		return 0, fmt.Errorf("send the preamble: %w", err)
	}
	in := make([]byte, len(out))
	if _, err := io.ReadFull(c.rw, in); err != nil {
		return 0, fmt.Errorf("read the preamble: %w", err)
	}
	if !bytes.Equal(in[:4], magic[:]) {
		return 0, ErrMagic
	}
	theirs := binary.BigEndian.Uint16(in[4:])
	if theirs != Version {
		return theirs, &VersionError{Ours: Version, Theirs: theirs}
	}
	return theirs, nil
}

// Write sends one frame whole.
func (c *Conn) Write(f Frame) error {
	b, err := Append(nil, f)
	if err != nil {
		return err
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	_, err = c.rw.Write(b)
	return err
}

// Read returns the next frame. Frames of types that it doesn't know are passed over.
func (c *Conn) Read() (Frame, error) {
	var head [5]byte
	for {
		if _, err := io.ReadFull(c.rw, head[:]); err != nil {
			return nil, err
		}
		n := binary.BigEndian.Uint32(head[1:])
		if n > MaxPayload {
			return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
		}
		payload := make([]byte, n)
		if _, err := io.ReadFull(c.rw, payload); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		f, err := Decode(head[0], payload)
		if err != nil || f != nil {
			return f, err
		}
	}
}
