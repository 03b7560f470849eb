package wire

import (
	"encoding/binary"
	"fmt"
)

const (
	// MaxPayload is the largest payload of a frame, in bytes.
	MaxPayload = 1 << 20

	// MaxData is the most Data one Output, Input or Redraw can carry: MaxPayload
	// less room for the offset and the length.
	MaxData = MaxPayload - 16

	headerSize = 5 // type byte and length
)

var be = binary.BigEndian

// Append appends f with its header to b, as it goes over the stream. On error
// it returns b as it was; the error wraps [ErrTooLarge] or, for no frame at all,
// [ErrFrame].
func Append(b []byte, f Frame) ([]byte, error) {
	if f == nil {
		return b, fmt.Errorf("%w: nil", ErrFrame)
	}
	start := len(b)
	b = append(b, byte(f.frame()), 0, 0, 0, 0)
	b = f.appendPayload(b)
	size := len(b) - start - headerSize
	if size > MaxPayload {
		return b[:start], fmt.Errorf("%T of %d bytes: %w", f, size, ErrTooLarge)
	}
	be.PutUint32(b[start+1:], uint32(size))
	return b, nil
}

// payloadHint estimates a frame's size, so that a large one is encoded without
// growing its buffer several times.
func payloadHint(f Frame) int {
	switch f := f.(type) {
	case Output:
		return len(f.Data)
	case Input:
		return len(f.Data)
	case Redraw:
		return len(f.Data)
	case Status:
		return len(f.JSON)
	case Peek:
		return len(f.JSON)
	}
	return 0
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendBytes[T ~string | ~[]byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

func appendWindow(b []byte, cols, rows, xpixel, ypixel uint16) []byte {
	b = be.AppendUint16(b, cols)
	b = be.AppendUint16(b, rows)
	b = be.AppendUint16(b, xpixel)
	return be.AppendUint16(b, ypixel)
}

func (f Attach) appendPayload(b []byte) []byte {
	b = appendWindow(b, f.Cols, f.Rows, f.XPixel, f.YPixel)
	b = appendBool(b, f.ReadOnly)
	b = appendBool(b, f.Resume)
	b = be.AppendUint64(b, f.From)
	b = be.AppendUint32(b, f.History)
	b = appendBytes(b, f.Term)
	return appendBytes(b, f.Client)
}

func (f Attached) appendPayload(b []byte) []byte {
	b = be.AppendUint64(b, f.Offset)
	b = be.AppendUint64(b, f.Gap)
	b = be.AppendUint64(b, f.InputOffset)
	return be.AppendUint32(b, f.Pid)
}

func (f Redraw) appendPayload(b []byte) []byte { return appendBytes(b, f.Data) }

func (f Output) appendPayload(b []byte) []byte {
	return appendBytes(be.AppendUint64(b, f.Offset), f.Data)
}

func (f OutputAck) appendPayload(b []byte) []byte { return be.AppendUint64(b, f.Offset) }

func (f Input) appendPayload(b []byte) []byte {
	return appendBytes(be.AppendUint64(b, f.Offset), f.Data)
}

func (f InputAck) appendPayload(b []byte) []byte { return be.AppendUint64(b, f.Offset) }

func (f Resize) appendPayload(b []byte) []byte {
	return appendWindow(b, f.Cols, f.Rows, f.XPixel, f.YPixel)
}

func (f Signal) appendPayload(b []byte) []byte { return appendBytes(b, f.Name) }

func (f Stop) appendPayload(b []byte) []byte { return appendBytes(b, f.Signal) }

func (f Notice) appendPayload(b []byte) []byte {
	return be.AppendUint16(appendBytes(b, f.Text), f.Seconds)
}

func (f Skipped) appendPayload(b []byte) []byte { return be.AppendUint64(b, f.Bytes) }

func (f Exited) appendPayload(b []byte) []byte {
	b = be.AppendUint32(b, uint32(f.Code))
	b = appendBytes(b, f.Signal)
	return be.AppendUint64(b, f.Offset)
}

func (StatusRequest) appendPayload(b []byte) []byte { return b }

func (f Status) appendPayload(b []byte) []byte { return appendBytes(b, f.JSON) }

func (PeekRequest) appendPayload(b []byte) []byte { return b }

func (f Peek) appendPayload(b []byte) []byte { return appendBytes(b, f.JSON) }

func (f Ping) appendPayload(b []byte) []byte { return be.AppendUint64(b, f.N) }

func (f Pong) appendPayload(b []byte) []byte { return be.AppendUint64(b, f.N) }

func (f Fault) appendPayload(b []byte) []byte {
	return appendBytes(appendBytes(b, f.Code), f.Message)
}

func (f Hello) appendPayload(b []byte) []byte {
	b = be.AppendUint64(appendBytes(b, f.Client), f.Number)
	b = be.AppendUint64(appendBytes(b, f.Session), f.Input)
	return be.AppendUint64(appendBool(b, f.Terminal), f.Skip)
}

func (f Session) appendPayload(b []byte) []byte {
	return appendBytes(appendBytes(b, f.ID), f.Workspace)
}

func (f Tty) appendPayload(b []byte) []byte { return appendBool(appendBool(b, f.Echo), f.Canonical) }

func (f EchoAck) appendPayload(b []byte) []byte { return be.AppendUint64(b, f.Offset) }

func (f Go) appendPayload(b []byte) []byte { return appendBytes(b, f.To) }
