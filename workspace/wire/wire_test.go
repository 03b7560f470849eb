package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// samples has one frame of each type, in the order of their numbers.
var samples = []Frame{
	Attach{Cols: 80, Rows: 24, XPixel: 640, YPixel: 480, ReadOnly: true, Resume: true, From: 7, History: 100, Term: "xterm", Client: "c"},
	Attached{Offset: 1, Gap: 2, InputOffset: 3, Pid: 4},
	Redraw{Data: []byte("\x1b[H")}, Output{Offset: 9, Data: []byte("out")}, OutputAck{Offset: 1}, Input{Offset: NoOffset, Data: []byte("in")}, InputAck{Offset: 2},
	Resize{Cols: 1, Rows: 2, XPixel: 3, YPixel: 4}, Signal{Name: "INT"}, Stop{Signal: "HUP"}, Notice{Text: "n", Seconds: 3}, Skipped{Bytes: 1},
	Exited{Code: -1, Signal: "KILL", Offset: 5}, StatusRequest{}, Status{JSON: []byte("{}")}, PeekRequest{}, Peek{JSON: []byte("{}")}, Ping{N: 1}, Pong{N: 2}, Fault{Code: "c", Message: "m"},
}

type pipe struct {
	io.Reader
	io.Writer
}

func TestRoundTripOfEveryFrame(t *testing.T) {
	for i, f := range samples {
		b, err := Append(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		if int(b[0]) != i+1 {
			t.Errorf("%T has number %d, want %d", f, b[0], i+1)
		}
		got, err := NewConn(pipe{bytes.NewReader(b), io.Discard}).Read()
		if err != nil {
			t.Fatalf("%T: %v", f, err)
		}
		if d := cmp.Diff(f, got, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
	}
}

func TestCutAnywhereIsAnErrorAndNeverAWrongFrame(t *testing.T) {
	for _, f := range samples {
		b, _ := Append(nil, f)
		for n := range b {
			got, err := NewConn(pipe{bytes.NewReader(b[:n]), io.Discard}).Read()
			if err == nil {
				t.Errorf("%T cut at %d of %d gives %#v", f, n, len(b), got)
			}
		}
	}
}

func TestUnknownTypesArePassedOver(t *testing.T) {
	b := []byte{200, 0, 0, 0, 2, 1, 2}
	b, _ = Append(b, Ping{N: 3})
	got, err := NewConn(pipe{bytes.NewReader(b), io.Discard}).Read()
	if err != nil || got != (Ping{N: 3}) {
		t.Errorf("got %#v, %v", got, err)
	}
}

func TestTooLarge(t *testing.T) {
	if _, err := Append(nil, Redraw{Data: make([]byte, MaxPayload+1)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("append: %v", err)
	}
	_, err := NewConn(pipe{bytes.NewReader([]byte{3, 255, 255, 255, 255}), io.Discard}).Read()
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("read: %v", err)
	}
}

func TestHandshakeNamesBothVersions(t *testing.T) {
	_, err := NewConn(pipe{bytes.NewReader([]byte("PRDR\x00\x09")), io.Discard}).Handshake()
	var v *VersionError
	if !errors.As(err, &v) || v.Ours != Version || v.Theirs != 9 {
		t.Errorf("got %v", err)
	}
	if _, err := NewConn(pipe{bytes.NewReader([]byte("GET / ")), io.Discard}).Handshake(); !errors.Is(err, ErrMagic) {
		t.Errorf("got %v", err)
	}
}

func TestStreamsOfFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frames := rapid.SliceOf(rapid.SampledFrom(samples)).Draw(t, "frames")
		var buf bytes.Buffer
		c := NewConn(&buf)
		for _, f := range frames {
			if err := c.Write(f); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range frames {
			got, err := c.Read()
			if err != nil || !cmp.Equal(f, got, cmpopts.EquateEmpty()) {
				t.Fatalf("got %#v, %v; want %#v", got, err, f)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, s := range samples {
		b, _ := Append(nil, s)
		f.Add(b[0], b[5:])
	}
	f.Fuzz(func(t *testing.T, typ byte, payload []byte) {
		got, err := Decode(typ, payload)
		if err != nil || got == nil {
			return
		}
		b, err := Append(nil, got)
		if err != nil {
			return
		}
		if b[0] != typ || !bytes.Equal(b[5:], payload) {
			t.Errorf("%#v encodes as % x, was % x", got, b[5:], payload)
		}
	})
}
