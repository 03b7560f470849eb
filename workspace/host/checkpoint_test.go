package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perdure/workspace/screen"
	"perdure/workspace/wire"
)

// left is the screen that a host left on disk, once it is there: the kernel tells when it is put in place.
func (s *session) left() (*screen.Screen, uint64) {
	s.t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		s.t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	if _, err := unix.InotifyAddWatch(fd, s.dir, unix.IN_MOVED_TO); err != nil {
		s.t.Fatal(err)
	}
	_ = events.SetReadDeadline(time.Now().Add(patience))
	for buf := make([]byte, 4096); ; {
		data, err := os.ReadFile(filepath.Join(s.dir, checkpointName))
		if err == nil {
			sc, offset, err := screen.ReadCheckpoint(data)
			if err != nil {
				s.t.Fatal(err)
			}
			return sc, offset
		}
		if _, err := events.Read(buf); err != nil {
			s.t.Fatalf("no checkpoint came: %v", err)
		}
	}
}

func TestAnEndedSessionLeavesItsLastScreen(t *testing.T) {
	s := start(t, `printf '\033[2;3Hone\033]2;title\007'; read x`)
	c := s.attach(wire.Attach{Resume: true, Cols: 40, Rows: 10})
	c.until("title")
	c.typed("\n")
	c.drain()
	s.end()
	sc, offset := s.left()
	if v := sc.View(); v.Rows[1] != "  one" || v.Title != "title" || v.Size != (screen.Size{Cols: 40, Rows: 10}) || offset != uint64(len(s.journal())) {
		t.Errorf("at %d: %+v", offset, v)
	}
}

func TestAKilledHostLeavesItsScreenAsOfSomeOutput(t *testing.T) {
	s := start(t, `printf '\033[?1049h\033[2;3Hfront'; read x`)
	c := s.attach(wire.Attach{Resume: true})
	c.until("front")
	sc, offset := s.left()
	if v := sc.View(); v.Rows[1] != "  front" || !v.Alternate || offset == 0 {
		t.Errorf("at %d: %+v", offset, v)
	}
	_ = s.cmd.Process.Kill()
}
