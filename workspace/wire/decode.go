package wire

import (
	"encoding/binary"
	"fmt"
)

// decoders make a frame from a payload's fields; FORMAT.md has the table. Go
// evaluates the fields of a composite literal's calls from left to right, so
// these read in the order of the bytes.
var decoders = [kindEnd]func(*fields) Frame{
	kindAttach:        decodeAttach,
	kindAttached:      decodeAttached,
	kindRedraw:        func(p *fields) Frame { return Redraw{Data: p.bytes()} },
	kindOutput:        func(p *fields) Frame { return Output{Offset: p.u64(), Data: p.bytes()} },
	kindOutputAck:     func(p *fields) Frame { return OutputAck{Offset: p.u64()} },
	kindInput:         func(p *fields) Frame { return Input{Offset: p.u64(), Data: p.bytes()} },
	kindInputAck:      func(p *fields) Frame { return InputAck{Offset: p.u64()} },
	kindResize:        func(p *fields) Frame { return Resize{Cols: p.u16(), Rows: p.u16(), XPixel: p.u16(), YPixel: p.u16()} },
	kindSignal:        func(p *fields) Frame { return Signal{Name: p.str()} },
	kindStop:          func(p *fields) Frame { return Stop{Signal: p.str()} },
	kindNotice:        func(p *fields) Frame { return Notice{Text: p.str(), Seconds: p.u16()} },
	kindSkipped:       func(p *fields) Frame { return Skipped{Bytes: p.u64()} },
	kindExited:        func(p *fields) Frame { return Exited{Code: int32(p.u32()), Signal: p.str(), Offset: p.u64()} },
	kindStatusRequest: func(*fields) Frame { return StatusRequest{} },
	kindStatus:        func(p *fields) Frame { return Status{JSON: p.bytes()} },
	kindPeekRequest:   func(*fields) Frame { return PeekRequest{} },
	kindPeek:          func(p *fields) Frame { return Peek{JSON: p.bytes()} },
	kindPing:          func(p *fields) Frame { return Ping{N: p.u64()} },
	kindPong:          func(p *fields) Frame { return Pong{N: p.u64()} },
	kindFault:         func(p *fields) Frame { return Fault{Code: p.str(), Message: p.str()} },
	kindHello:         decodeHello,
	kindSession:       func(p *fields) Frame { return Session{ID: p.str(), Workspace: p.str()} },
	kindTty:           func(p *fields) Frame { return Tty{Echo: p.bool(), Canonical: p.bool()} },
	kindEchoAck:       func(p *fields) Frame { return EchoAck{Offset: p.u64()} },
	kindGo:            func(p *fields) Frame { return Go{To: p.str()} },
}

func decodeAttach(p *fields) Frame {
	return Attach{
		Cols: p.u16(), Rows: p.u16(), XPixel: p.u16(), YPixel: p.u16(),
		ReadOnly: p.bool(), Resume: p.bool(),
		From: p.u64(), History: p.u32(),
		Term: p.str(), Client: p.str(),
	}
}

func decodeHello(p *fields) Frame {
	return Hello{Client: p.str(), Number: p.u64(), Session: p.str(), Input: p.u64(), Terminal: p.bool(), Skip: p.u64()}
}

func decodeAttached(p *fields) Frame {
	return Attached{Offset: p.u64(), Gap: p.u64(), InputOffset: p.u64(), Pid: p.u32()}
}

// known says whether a frame of this type can be decoded rather than skipped.
func (k kind) known() bool { return k != kindReserved && k < kindEnd }

// Decode makes a frame from a type byte and the whole payload. It returns nil
// and no error for a type that this version doesn't know, and an error wrapping
// [ErrFrame] unless payload is the one valid encoding of a frame. The frame's
// byte slices alias payload.
func Decode(typ byte, payload []byte) (Frame, error) {
	k := kind(typ)
	if k == kindReserved {
		return nil, fmt.Errorf("%w: type 0", ErrFrame)
	}
	if !k.known() {
		return nil, nil
	}
	return decode(k, payload)
}

// decode makes a frame of a known kind from its whole payload, and refuses one
// with anything left over.
func decode(k kind, payload []byte) (Frame, error) {
	p := fields{rest: payload}
	f := decoders[k](&p)
	if p.problem == "" && len(p.rest) > 0 {
		p.problem = fmt.Sprintf("%d bytes after its last field", len(p.rest))
	}
	if p.problem != "" {
		return nil, fmt.Errorf("%w: %T: %s", ErrFrame, f, p.problem)
	}
	return f, nil
}

// fields takes fields off the front of a payload. The first problem sticks and
// every later field reads as zero, so a decoder need check only once.
type fields struct {
	rest    []byte
	problem string
}

func (p *fields) fail(problem string) {
	if p.problem == "" {
		p.problem = problem
	}
	p.rest = nil
}

// take returns the next n bytes, or nil if there aren't so many. Comparing as
// uint64 keeps a length of 2^63 and more from turning negative.
func (p *fields) take(n uint64) []byte {
	if n > uint64(len(p.rest)) {
		p.fail("cut short")
		return nil
	}
	b := p.rest[:n:n]
	p.rest = p.rest[n:]
	return b
}

func (p *fields) u16() uint16 {
	if b := p.take(2); b != nil {
		return be.Uint16(b)
	}
	return 0
}

func (p *fields) u32() uint32 {
	if b := p.take(4); b != nil {
		return be.Uint32(b)
	}
	return 0
}

func (p *fields) u64() uint64 {
	if b := p.take(8); b != nil {
		return be.Uint64(b)
	}
	return 0
}

func (p *fields) bool() bool {
	b := p.take(1)
	if b != nil && b[0] > 1 {
		p.fail(fmt.Sprintf("%d as a bool", b[0]))
		return false
	}
	return b != nil && b[0] == 1
}

// bytes reads a length and that many bytes, nil for none.
func (p *fields) bytes() []byte {
	n, width := binary.Uvarint(p.rest)
	switch {
	case width == 0:
		p.fail("cut short")
		return nil
	case width < 0:
		p.fail("length overflows 64 bits")
		return nil
	case width > 1 && p.rest[width-1] == 0:
		p.fail("length not in its shortest form")
		return nil
	}
	p.rest = p.rest[width:]
	if n == 0 {
		return nil
	}
	return p.take(n)
}

func (p *fields) str() string { return string(p.bytes()) }
