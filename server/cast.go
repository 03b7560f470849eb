package server

import (
	"fmt"
	"time"

	"perdure/workspace"
	"perdure/workspace/journal"
)

// cast writes asciicast v2 (docs.asciinema.org/manual/asciicast/v2), with the resizes where they happened.
func (c *call) cast(sess *workspace.Session, r *journal.Reader, from uint64) error {
	resizes, err := sess.Resizes()
	if err != nil {
		return err
	}
	cols, rows := sess.Size()
	for len(resizes) > 0 && resizes[0].Offset <= from { // the size that what comes first was printed at
		cols, rows = resizes[0].Cols, resizes[0].Rows
		resizes = resizes[1:]
	}
	if _, err := fmt.Fprintf(c.out, `{"version": 2, "width": %d, "height": %d, "timestamp": %d, "title": %s}`+"\n", cols, rows, sess.Started.Unix(), jsonString(sess.Workspace)); err != nil {
		return err
	}
	var held []byte // the beginning of a character that the next chunk ends
	var last float64
	event := func(at time.Time, kind, data string) error {
		if len(data) == 0 {
			return nil
		}
		last = max(last, at.Sub(sess.Started).Seconds()) // a player knows no way back, whatever the clock did
		_, err := fmt.Fprintf(c.out, "[%.6f, %q, %s]\n", last, kind, jsonString(data))
		return err
	}
	resized := func(before uint64) error {
		for len(resizes) > 0 && resizes[0].Offset <= before {
			z := resizes[0]
			resizes = resizes[1:]
			if err := event(z.At, "r", fmt.Sprintf("%dx%d", z.Cols, z.Rows)); err != nil {
				return err
			}
		}
		return nil
	}
	var end time.Time
	err = r.Chunks(from, func(off uint64, at time.Time, data []byte) error {
		if err := resized(off); err != nil {
			return err
		}
		end = at
		data = append(held, data...)
		n := wholeUTF8(data)
		held = append([]byte(nil), data[n:]...)
		return event(at, "o", string(data[:n]))
	})
	if err != nil {
		return err
	}
	if err := event(end, "o", string(held)); err != nil {
		return err
	}
	return resized(^uint64(0))
}
