package wire

import (
	"encoding/binary"
	"fmt"
)

// The types on the wire. They are a promise: a number is never used again.
const (
	typeAttach byte = iota + 1
	typeAttached
	typeRedraw
	typeOutput
	typeOutputAck
	typeInput
	typeInputAck
	typeResize
	typeSignal
	typeStop
	typeNotice
	typeSkipped
	typeExited
	typeStatusRequest
	typeStatus
	typePeekRequest
	typePeek
	typePing
	typePong
	typeFault
)

type writer struct{ b []byte }

func (w *writer) u16(vs ...uint16) {
	for _, v := range vs {
		w.b = binary.BigEndian.AppendUint16(w.b, v)
	}
}
func (w *writer) u32(v uint32) { w.b = binary.BigEndian.AppendUint32(w.b, v) }
func (w *writer) u64(vs ...uint64) {
	for _, v := range vs {
		w.b = binary.BigEndian.AppendUint64(w.b, v)
	}
}
func (w *writer) flag(v bool) {
	if v {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}
func (w *writer) text(s string) {
	w.u32(uint32(len(s)))
	w.b = append(w.b, s...)
}
func (w *writer) rest(p []byte) { w.b = append(w.b, p...) }

// frame appends a payload and returns its type, 0 for what is no frame.
func (w *writer) frame(f Frame) byte {
	switch f := f.(type) {
	case Attach:
		w.u16(f.Cols, f.Rows, f.XPixel, f.YPixel)
		w.flag(f.ReadOnly)
		w.flag(f.Resume)
		w.u64(f.From)
		w.u32(f.History)
		w.text(f.Term)
		w.text(f.Client)
		return typeAttach
	case Attached:
		w.u64(f.Offset, f.Gap, f.InputOffset)
		w.u32(f.Pid)
		return typeAttached
	case Redraw:
		w.rest(f.Data)
		return typeRedraw
	case Output:
		w.u64(f.Offset)
		w.rest(f.Data)
		return typeOutput
	case OutputAck:
		w.u64(f.Offset)
		return typeOutputAck
	case Input:
		w.u64(f.Offset)
		w.rest(f.Data)
		return typeInput
	case InputAck:
		w.u64(f.Offset)
		return typeInputAck
	case Resize:
		w.u16(f.Cols, f.Rows, f.XPixel, f.YPixel)
		return typeResize
	}
	return w.control(f)
}

func (w *writer) control(f Frame) byte {
	switch f := f.(type) {
	case Signal:
		w.text(f.Name)
		return typeSignal
	case Stop:
		w.text(f.Signal)
		return typeStop
	case Notice:
		w.u16(f.Seconds)
		w.text(f.Text)
		return typeNotice
	case Skipped:
		w.u64(f.Bytes)
		return typeSkipped
	case Exited:
		w.u32(uint32(f.Code))
		w.text(f.Signal)
		w.u64(f.Offset)
		return typeExited
	case StatusRequest:
		return typeStatusRequest
	case Status:
		w.rest(f.JSON)
		return typeStatus
	case PeekRequest:
		return typePeekRequest
	case Peek:
		w.rest(f.JSON)
		return typePeek
	case Ping:
		w.u64(f.N)
		return typePing
	case Pong:
		w.u64(f.N)
		return typePong
	case Fault:
		w.text(f.Code)
		w.text(f.Message)
		return typeFault
	}
	return 0
}

// reader takes a payload apart; after a short read everything is zero and bad is set.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || uint64(len(r.b)) < n {
		r.bad = true
		return make([]byte, min(n, 8))
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}
func (r *reader) u16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }
func (r *reader) flag() bool {
	v := r.take(1)[0]
	if v > 1 {
		r.bad = true
	}
	return v == 1
}
func (r *reader) text() string {
	n := uint64(r.u32())
	if uint64(len(r.b)) < n {
		r.bad = true
		return ""
	}
	return string(r.take(n))
}
func (r *reader) rest() []byte {
	p := r.b
	r.b = nil
	return p
}

// Decode reads one payload strictly: nothing may be missing and nothing left. A type that it doesn't know gives nil.
func Decode(typ byte, payload []byte) (Frame, error) {
	r := &reader{b: payload}
	f := r.frame(typ)
	if f == nil {
		return nil, nil
	}
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("%w: type %d, %d bytes", ErrFrame, typ, len(payload))
	}
	return f, nil
}

func (r *reader) frame(typ byte) Frame {
	switch typ {
	case typeAttach:
		return Attach{Cols: r.u16(), Rows: r.u16(), XPixel: r.u16(), YPixel: r.u16(), ReadOnly: r.flag(), Resume: r.flag(), From: r.u64(), History: r.u32(), Term: r.text(), Client: r.text()}
	case typeAttached:
		return Attached{Offset: r.u64(), Gap: r.u64(), InputOffset: r.u64(), Pid: r.u32()}
	case typeRedraw:
		return Redraw{Data: r.rest()}
	case typeOutput:
		return Output{Offset: r.u64(), Data: r.rest()}
	case typeOutputAck:
		return OutputAck{Offset: r.u64()}
	case typeInput:
		return Input{Offset: r.u64(), Data: r.rest()}
	case typeInputAck:
		return InputAck{Offset: r.u64()}
	case typeResize:
		return Resize{Cols: r.u16(), Rows: r.u16(), XPixel: r.u16(), YPixel: r.u16()}
	case typeSignal:
		return Signal{Name: r.text()}
	case typeStop:
		return Stop{Signal: r.text()}
	case typeNotice:
		return Notice{Seconds: r.u16(), Text: r.text()}
	case typeSkipped:
		return Skipped{Bytes: r.u64()}
	case typeExited:
		return Exited{Code: int32(r.u32()), Signal: r.text(), Offset: r.u64()}
	case typeStatusRequest:
		return StatusRequest{}
	case typeStatus:
		return Status{JSON: r.rest()}
	case typePeekRequest:
		return PeekRequest{}
	case typePeek:
		return Peek{JSON: r.rest()}
	case typePing:
		return Ping{N: r.u64()}
	case typePong:
		return Pong{N: r.u64()}
	case typeFault:
		return Fault{Code: r.text(), Message: r.text()}
	}
	return nil
}
