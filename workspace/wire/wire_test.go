package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// genFrame draws a frame of any type. An empty slice is drawn as nil, as Read
// gives it.
func genFrame() *rapid.Generator[Frame] {
	return rapid.Custom(func(t *rapid.T) Frame { return drawFrame(t, kind(rapid.IntRange(1, int(kindEnd)-1).Draw(t, "kind"))) })
}

func drawFrame(t *rapid.T, k kind) Frame {
	data := func() []byte {
		b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
		if len(b) == 0 {
			return nil
		}
		return b
	}
	str := func() string { return string(data()) } // any bytes: strings aren't checked
	u16 := func() uint16 { return rapid.Uint16().Draw(t, "u16") }
	u32 := func() uint32 { return rapid.Uint32().Draw(t, "u32") }
	u64 := func() uint64 { return rapid.Uint64().Draw(t, "u64") }
	flag := func() bool { return rapid.Bool().Draw(t, "bool") }
	switch k {
	case kindAttach:
		return Attach{u16(), u16(), u16(), u16(), flag(), flag(), u64(), u32(), str(), str()}
	case kindAttached:
		return Attached{u64(), u64(), u64(), u32()}
	case kindRedraw:
		return Redraw{data()}
	case kindOutput:
		return Output{u64(), data()}
	case kindOutputAck:
		return OutputAck{u64()}
	case kindInput:
		return Input{u64(), data()}
	case kindInputAck:
		return InputAck{u64()}
	case kindResize:
		return Resize{u16(), u16(), u16(), u16()}
	case kindSignal:
		return Signal{str()}
	case kindStop:
		return Stop{str()}
	case kindNotice:
		return Notice{str(), u16()}
	case kindSkipped:
		return Skipped{u64()}
	case kindExited:
		return Exited{rapid.Int32().Draw(t, "code"), str(), u64()}
	case kindStatusRequest:
		return StatusRequest{}
	case kindStatus:
		return Status{data()}
	case kindPeekRequest:
		return PeekRequest{}
	case kindPeek:
		return Peek{data()}
	case kindPing:
		return Ping{u64()}
	case kindPong:
		return Pong{u64()}
	case kindFault:
		return Fault{str(), str()}
	case kindHello:
		return Hello{str(), u64(), str(), u64(), flag(), u64()}
	case kindSession:
		return Session{str(), str()}
	case kindTty:
		return Tty{flag(), flag()}
	case kindEchoAck:
		return EchoAck{u64()}
	case kindGo:
		return Go{str()}
	}
	t.Fatalf("no generator for kind %d", k)
	return nil
}

func mustAppend(t interface{ Fatal(...any) }, b []byte, f Frame) []byte {
	b, err := Append(b, f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// reading is a Conn on bytes that were received.
func reading(r io.Reader) *Conn {
	return NewConn(struct {
		io.Reader
		io.Writer
	}{r, io.Discard})
}

func TestEveryFrameComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frames := []Frame{}
		for k := kindAttach; k < kindEnd; k++ {
			frames = append(frames, drawFrame(t, k))
		}
		frames = rapid.Permutation(frames).Draw(t, "order")
		var stream []byte
		for _, f := range frames {
			stream = mustAppend(t, stream, f)
		}
		var in io.Reader = bytes.NewReader(stream)
		if rapid.Bool().Draw(t, "byte by byte") {
			in = iotest.OneByteReader(in)
		}
		c := reading(in)
		for i, want := range frames {
			got, err := c.Read()
			if err != nil {
				t.Fatalf("frame %d: %v", i, err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("frame %d: %s", i, d)
			}
		}
		if f, err := c.Read(); err != io.EOF {
			t.Fatalf("after the last frame: %v, %v", f, err)
		}
	})
}

func TestCutAtEveryByteIsAnError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := mustAppend(t, nil, genFrame().Draw(t, "frame"))
		for n := 1; n < len(whole); n++ {
			c := reading(bytes.NewReader(whole[:n]))
			for range 2 { // and it stays one
				if f, err := c.Read(); f != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("cut at %d of %d: %#v, %v", n, len(whole), f, err)
				}
			}
		}
	})
}

// A payload cut or lengthened within a header that agrees must not decode.
func TestPayloadOfWrongLengthIsAnError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := mustAppend(t, nil, genFrame().Draw(t, "frame"))
		typ, payload := whole[0], whole[headerSize:]
		for n := range payload {
			if f, err := Decode(typ, payload[:n]); f != nil || !errors.Is(err, ErrFrame) {
				t.Fatalf("cut at %d of %d: %#v, %v", n, len(payload), f, err)
			}
		}
		more := append(bytes.Clone(payload), rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "more")...)
		if f, err := Decode(typ, more); f != nil || !errors.Is(err, ErrFrame) {
			t.Fatalf("lengthened: %#v, %v", f, err)
		}
	})
}

func TestStrictFields(t *testing.T) {
	for name, c := range map[string]struct {
		typ     kind
		payload []byte
	}{
		"bool 2":              {kindAttach, append(make([]byte, 8), append([]byte{2}, make([]byte, 15)...)...)},
		"long varint":         {kindSignal, []byte{0x80, 0x00}},
		"long varint of 1":    {kindSignal, []byte{0x81, 0x00, 'x'}},
		"varint over 64 bits": {kindSignal, bytes.Repeat([]byte{0xff}, 11)},
		"length 2^63":         {kindSignal, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}},
		"reserved":            {kindReserved, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if f, err := Decode(byte(c.typ), c.payload); f != nil || !errors.Is(err, ErrFrame) {
				t.Fatalf("%#v, %v", f, err)
			}
		})
	}
}

func TestMalformedFrameLeavesTheStreamInStep(t *testing.T) {
	stream := mustAppend(t, []byte{byte(kindPing), 0, 0, 0, 1, 9}, Pong{7})
	c := reading(bytes.NewReader(stream))
	if _, err := c.Read(); !errors.Is(err, ErrFrame) {
		t.Fatal(err)
	}
	if f, err := c.Read(); err != nil || f != (Pong{7}) {
		t.Fatalf("%#v, %v", f, err)
	}
}

func TestUnknownTypesAreSkipped(t *testing.T) {
	stream := []byte{byte(kindEnd), 0, 0, 0, 3, 1, 2, 3, 255, 0, 0, 0, 0}
	c := reading(bytes.NewReader(mustAppend(t, stream, Ping{4})))
	if f, err := c.Read(); err != nil || f != (Ping{4}) {
		t.Fatalf("%#v, %v", f, err)
	}
	c = reading(bytes.NewReader(stream[:6]))
	if f, err := c.Read(); f != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("cut: %#v, %v", f, err)
	}
}

func TestTooLarge(t *testing.T) {
	for _, typ := range []kind{kindOutput, kindEnd} {
		c := reading(bytes.NewReader([]byte{byte(typ), 0, 0x10, 0, 1, 0, 0, 0, 0, 0}))
		for range 2 {
			if f, err := c.Read(); f != nil || !errors.Is(err, ErrTooLarge) {
				t.Fatalf("type %d: %#v, %v", typ, f, err)
			}
		}
	}
	var out bytes.Buffer
	c := NewConn(&out)
	if err := c.Write(Output{Data: make([]byte, MaxPayload)}); !errors.Is(err, ErrTooLarge) || out.Len() > 0 {
		t.Fatalf("%v after %d bytes", err, out.Len())
	}
	if err := c.Write(Output{Offset: 1, Data: make([]byte, MaxData)}); err != nil {
		t.Fatal(err)
	}
	if f, err := c.Read(); err != nil || len(f.(Output).Data) != MaxData {
		t.Fatal(err)
	}
}

func TestWriteRefusesNil(t *testing.T) {
	if err := NewConn(&bytes.Buffer{}).Write(nil); !errors.Is(err, ErrFrame) {
		t.Fatal(err)
	}
}

// A zero stream is a likely fault and mustn't look like a quiet peer.
func TestZerosAreNoFrames(t *testing.T) {
	if f, err := reading(bytes.NewReader(make([]byte, 100))).Read(); f != nil || !errors.Is(err, ErrFrame) {
		t.Fatalf("%#v, %v", f, err)
	}
}

func TestHandshakeOnUnbufferedPipe(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	var wg sync.WaitGroup
	for _, end := range []net.Conn{a, b} {
		wg.Go(func() {
			if v, err := NewConn(end).Handshake(); v != Version || err != nil {
				t.Errorf("%d, %v", v, err)
			}
		})
	}
	wg.Wait()
}

func TestHandshakeNamesBothVersions(t *testing.T) {
	rw := struct {
		io.Reader
		io.Writer
	}{bytes.NewReader(appendPreamble(nil, 9)), io.Discard}
	v, err := NewConn(rw).Handshake()
	var mismatch *VersionError
	if v != 9 || !errors.As(err, &mismatch) || *mismatch != (VersionError{Ours: Version, Theirs: 9}) {
		t.Fatalf("%d, %v", v, err)
	}
}

func TestHandshakeCutOrForeign(t *testing.T) {
	for in, want := range map[string]error{
		"": io.EOF, "PR": io.ErrUnexpectedEOF, "PRDR\x00": io.ErrUnexpectedEOF,
		"SSH-2.0-x\r\n": ErrMagic, "G": ErrMagic, "PRDx\x00\x01": ErrMagic,
	} {
		if _, err := reading(bytes.NewReader([]byte(in))).Handshake(); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", in, err, want)
		}
	}
}

// stingy takes a number of bytes, then fails for good.
type stingy struct {
	io.Reader
	left int
}

var errFull = errors.New("full")

func (s *stingy) Write(p []byte) (int, error) {
	n := min(s.left, len(p))
	s.left -= n
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func TestNothingFollowsATornFrame(t *testing.T) {
	for left := range 13 { // a Ping is 13 bytes
		s := &stingy{left: left}
		c := NewConn(s)
		if err := c.Write(Ping{1}); !errors.Is(err, errFull) {
			t.Fatal(err)
		}
		s.left = 1000
		err := c.Write(Ping{2})
		if torn := left > 0; torn != errors.Is(err, errFull) || torn != (s.left == 1000) {
			t.Fatalf("after %d bytes: %v, %d left", left, err, s.left)
		}
	}
}

func TestConcurrentWritesDontMix(t *testing.T) {
	const writers, each = 8, 200
	a, b := net.Pipe()
	defer b.Close()
	c := NewConn(a)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := c.Write(Output{Offset: uint64(i), Data: bytes.Repeat([]byte{byte(w)}, 1+i)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	go func() { wg.Wait(); a.Close() }()
	next := [writers]uint64{}
	r := NewConn(b)
	for {
		f, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		o := f.(Output)
		w := o.Data[0]
		if o.Offset != next[w] || !bytes.Equal(o.Data, bytes.Repeat([]byte{w}, 1+int(o.Offset))) {
			t.Fatalf("writer %d: frame %d of %d bytes, want %d", w, o.Offset, len(o.Data), next[w])
		}
		next[w]++
	}
	for w, n := range next {
		if n != each {
			t.Errorf("writer %d: %d frames", w, n)
		}
	}
}
