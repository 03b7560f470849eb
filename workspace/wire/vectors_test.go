package wire

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update-vectors", false, "write testdata/v1.txt; only before version 1 is released")

// vectors are what testdata/v1.txt must decode to, line by line.
var vectors = []struct {
	name  string
	frame Frame
}{
	{"attach", Attach{Cols: 80, Rows: 24, XPixel: 640, YPixel: 384, History: 2000, Term: "xterm-256color", Client: "ssh 192.0.2.1"}},
	{"attach-resume", Attach{Cols: 1, Rows: 65535, ReadOnly: true, Resume: true, From: 1 << 40, Term: "dumb"}},
	{"attached", Attached{Offset: 300, Gap: 44, InputOffset: 12, Pid: 4711}},
	{"redraw", Redraw{Data: []byte("\x1b[H\x1b[2J")}},
	{"redraw-empty", Redraw{}},
	{"output", Output{Offset: 1<<64 - 2, Data: []byte("h\xc3\xa9")}},
	{"output-long", Output{Offset: 5, Data: bytes.Repeat([]byte("x"), 200)}},
	{"output-ack", OutputAck{Offset: 205}},
	{"input", Input{Offset: 7, Data: []byte("ls\r")}},
	{"input-unaddressed", Input{Offset: NoOffset, Data: []byte{3}}},
	{"input-ack", InputAck{Offset: 10}},
	{"resize", Resize{Cols: 132, Rows: 43, XPixel: 1, YPixel: 2}},
	{"signal", Signal{Name: "INT"}},
	{"stop", Stop{Signal: "TERM"}},
	{"notice", Notice{Text: "tree moved: 3 files", Seconds: 5}},
	{"skipped", Skipped{Bytes: 9 << 20}},
	{"exited", Exited{Code: 2, Offset: 999}},
	{"exited-signal", Exited{Code: -1, Signal: "KILL", Offset: 1000}},
	{"status-request", StatusRequest{}},
	{"status", Status{JSON: []byte(`{"cols":80}`)}},
	{"peek-request", PeekRequest{}},
	{"peek", Peek{JSON: []byte(`{"rows":[]}`)}},
	{"ping", Ping{N: 1}},
	{"pong", Pong{N: 1}},
	{"fault", Fault{Code: "busy", Message: "another typist is attached"}},
	{"hello", Hello{Client: "a1b2", Number: 3, Session: "01J", Input: 77, Terminal: true, Skip: 8 << 20}},
	{"hello-first", Hello{Client: "a1b2"}},
	{"session", Session{ID: "01J", Workspace: "auth"}},
	{"tty", Tty{Echo: true, Canonical: true}},
	{"tty-raw", Tty{}},
	{"echo-ack", EchoAck{Offset: 80}},
	{"go", Go{To: "@next"}},
	{"go-picker", Go{}},
}

func TestVectors(t *testing.T) {
	if *update {
		var b strings.Builder
		for _, v := range vectors {
			fmt.Fprintf(&b, "%s %x\n", v.name, mustAppend(t, nil, v.frame))
		}
		if err := os.WriteFile("testdata/v1.txt", []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("testdata/v1.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != len(vectors) {
		t.Fatalf("%d vectors, want %d", len(lines), len(vectors))
	}
	seen := map[kind]bool{}
	for i, v := range vectors {
		name, digits, _ := strings.Cut(lines[i], " ")
		if name != v.name {
			t.Fatalf("line %d: %s, want %s", i+1, name, v.name)
		}
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		got, err := reading(bytes.NewReader(b)).Read()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(v.frame, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if again := mustAppend(t, nil, v.frame); !bytes.Equal(again, b) {
			t.Errorf("%s is now written as %x", name, again)
		}
		seen[v.frame.frame()] = true
	}
	for k := kindAttach; k < kindEnd; k++ {
		if !seen[k] {
			t.Errorf("no vector for type %d", k)
		}
	}
}

// FuzzDecode: whatever the peer sends, each frame that is read is written again
// as exactly the bytes it came from.
func FuzzDecode(f *testing.F) {
	var all []byte
	for _, v := range vectors {
		b := mustAppend(f, nil, v.frame)
		f.Add(b)
		all = append(all, b...)
	}
	f.Add(all)
	f.Add([]byte{0x7f, 0, 0, 0, 1, 9, 18, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, stream []byte) {
		rest := stream
		for c := reading(bytes.NewReader(stream)); ; {
			frame, err := c.Read()
			if err != nil {
				if frame != nil {
					t.Fatalf("a frame beside %v", err)
				}
				return
			}
			for !kind(rest[0]).known() { // skipped ones
				rest = rest[headerSize+be.Uint32(rest[1:]):]
			}
			b := mustAppend(t, nil, frame)
			if !bytes.HasPrefix(rest, b) {
				t.Fatalf("%#v was read from %x", frame, rest[:min(len(rest), len(b))])
			}
			rest = rest[len(b):]
		}
	})
}
