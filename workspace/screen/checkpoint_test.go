package screen

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"pgregory.net/rapid"
)

func TestACheckpointIsTheSameScreen(t *testing.T) {
	cheap(t)
	rapid.Check(t, func(t *rapid.T) {
		a := New(10, 5, Options{})
		feed(a, anyStream().Draw(t, "stream"))
		b, offset, err := ReadCheckpoint(a.AppendCheckpoint(nil, 77))
		if err != nil || offset != 77 {
			t.Fatalf("offset %d: %v", offset, err)
		}
		if x, y := a.Redraw(1000), b.Redraw(1000); !bytes.Equal(x, y) {
			t.Fatalf("was %q\nis  %q", x, y)
		}
	})
}

func TestADamagedCheckpointIsRefused(t *testing.T) {
	whole := screen(t, 20, 5, "text").AppendCheckpoint(nil, 1<<40)
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 0x10
		if _, _, err := ReadCheckpoint(bad); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, _, err := ReadCheckpoint(whole[:i]); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
}

// Version 1 must be read for ever.
func TestTheCheckpointOfVersion1IsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/v1.checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	s, offset, err := ReadCheckpoint(data)
	if err != nil || offset != 4711 {
		t.Fatalf("offset %d: %v", offset, err)
	}
	if v := s.View(); v.Rows[1] != "  two 日本" || v.Title != "title" || v.Cursor.Col != 10 || s.pen.attrs != bold {
		t.Errorf("%+v", v)
	}
}

func FuzzReadCheckpoint(f *testing.F) {
	s := New(20, 5, Options{})
	feed(s, "one\r\n\x1b[31mtwo")
	f.Add(s.AppendCheckpoint(nil, 9))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, _, err := ReadCheckpoint(data); err == nil {
			_ = s.View()
		}
	})
}
