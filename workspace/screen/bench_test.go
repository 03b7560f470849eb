package screen

import (
	"bytes"
	"fmt"
	"testing"
)

// The three streams that a terminal mostly sees.
func plainStream() []byte {
	return bytes.Repeat([]byte("2026-01-02T03:04:05Z info request served path=/api/v1/items status=200 bytes=5120 in 1.3ms\r\n"), 1000)
}

func colouredStream() []byte {
	var b bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&b, "\x1b[0;32m   Compiling\x1b[0m package-%d v1.%d.0 (\x1b[36m/src/package\x1b[0m)\r\n\x1b[1;33mwarning\x1b[0m: \x1b[1munused variable\x1b[0m: `x%d`\r\n", i, i%9, i)
	}
	return b.Bytes()
}

func repaintStream() []byte {
	var b bytes.Buffer
	for frame := range 40 {
		b.WriteString("\x1b[?2026h\x1b[H")
		for y := range 24 {
			fmt.Fprintf(&b, "\x1b[%d;1H\x1b[38;5;%dm%-20d\x1b[0m \x1b[7m%-10d\x1b[27m %s\x1b[K", y+1, (frame+y)%256, frame*y, y, "│ ▏▎▍ status line")
		}
		b.WriteString("\x1b[?2026l")
	}
	return b.Bytes()
}

func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		name   string
		stream []byte
	}{{"plain", plainStream()}, {"coloured", colouredStream()}, {"repaint", repaintStream()}} {
		b.Run(c.name, func(b *testing.B) {
			s := New(80, 24, Options{History: 10000})
			b.SetBytes(int64(len(c.stream)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.Write(c.stream)
			}
		})
	}
}

func BenchmarkRedraw(b *testing.B) {
	s := New(80, 24, Options{History: 10000})
	for range 5 {
		_, _ = s.Write(colouredStream())
	}
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(s.Redraw(10000))))
	}
}
