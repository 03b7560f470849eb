package wire

import (
	"encoding/binary"
	"fmt"
)

// Frame is one message; the concrete types below are all there are.
type Frame interface{ frame() }

// Attach asks the host for the session. Resume continues the output at From; without it a Redraw comes first.
type Attach struct {
	Cols, Rows, XPixel, YPixel uint16
	ReadOnly, Resume           bool
	From                       uint64 // output offset, in bytes
	History                    uint32 // lines of history for the client's own scrollback
	Term, Client               string
}

// Attached answers Attach: the output's offset from here on, what was trimmed before it, and how far input was taken.
type Attached struct {
	Offset, Gap, InputOffset uint64
	Pid                      uint32
}

// Redraw is bytes made from state. They have no address.
type Redraw struct{ Data []byte }

// Output is what the session printed, addressed by its offset in the journal.
type Output struct {
	Offset uint64
	Data   []byte
}

// OutputAck says that the client has written out everything before Offset.
type OutputAck struct{ Offset uint64 }

// Input is what was typed, addressed by the client's own offset, or NoOffset.
type Input struct {
	Offset uint64
	Data   []byte
}

// InputAck says that the host took everything before Offset.
type InputAck struct{ Offset uint64 }

// Resize is the client's window.
type Resize struct{ Cols, Rows, XPixel, YPixel uint16 }

// Signal goes to the foreground process group; Name is as in RFC 4254, section 6.10.
type Signal struct{ Name string }

// Stop ends the session: the signal, then KILL after a grace.
type Stop struct{ Signal string }

// Notice is laid over the attachment's last row for some seconds.
type Notice struct {
	Text    string
	Seconds uint16
}

// Skipped says how many bytes of output an attachment that was too slow has missed.
type Skipped struct{ Bytes uint64 }

// Exited is the session's end; Signal is "" unless one killed it, and Offset is where the journal ends.
type Exited struct {
	Code   int32
	Signal string
	Offset uint64
}

// StatusRequest asks for Status.
type StatusRequest struct{}

// Status is workspace.Status as JSON.
type Status struct{ JSON []byte }

// PeekRequest asks for Peek.
type PeekRequest struct{}

// Peek is screen.View as JSON.
type Peek struct{ JSON []byte }

// Ping asks for a Pong of the same number.
type Ping struct{ N uint64 }

// Pong answers Ping.
type Pong struct{ N uint64 }

// Fault says why a request was refused.
type Fault struct{ Code, Message string }

func (Attach) frame()        {}
func (Attached) frame()      {}
func (Redraw) frame()        {}
func (Output) frame()        {}
func (OutputAck) frame()     {}
func (Input) frame()         {}
func (InputAck) frame()      {}
func (Resize) frame()        {}
func (Signal) frame()        {}
func (Stop) frame()          {}
func (Notice) frame()        {}
func (Skipped) frame()       {}
func (Exited) frame()        {}
func (StatusRequest) frame() {}
func (Status) frame()        {}
func (PeekRequest) frame()   {}
func (Peek) frame()          {}
func (Ping) frame()          {}
func (Pong) frame()          {}
func (Fault) frame()         {}

// Append encodes a frame: type, length of the payload as uint32, payload. FORMAT.md has the layouts.
func Append(b []byte, f Frame) ([]byte, error) {
	w := writer{b: append(b, 0, 0, 0, 0, 0)}
	typ := w.frame(f)
	if typ == 0 {
		return nil, fmt.Errorf("%w: no type for %T", ErrFrame, f)
	}
	n := len(w.b) - len(b) - 5
	if n > MaxPayload {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
	}
	w.b[len(b)] = typ
	binary.BigEndian.PutUint32(w.b[len(b)+1:], uint32(n))
	return w.b, nil
}
