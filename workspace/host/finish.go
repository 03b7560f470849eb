package host

import (
	"perdure/workspace/journal"
	"perdure/workspace/wire"
)

// finish writes out what is left, and how the session ended. The journal's writer is closed by now.
func (v *viewer) finish(buf []byte) {
	select {
	case <-v.left:
		return
	default:
	}
	if frames := v.lastDrawing(); frames != nil {
		if v.writeAll(frames) != nil {
			return
		}
	} else if r, err := journal.OpenReader(v.h.dir + "/journal"); err == nil {
		defer r.Close()
		for {
			n, err := r.ReadAt(buf, v.at)
			if n == 0 || err != nil {
				break
			}
			if v.w.Write(wire.Output{Offset: v.at, Data: buf[:n]}) != nil {
				return
			}
			v.advance(v.at+uint64(n), false)
		}
	}
	v.h.mu.Lock()
	e := v.h.exited
	v.h.mu.Unlock()
	if e != nil {
		_ = v.w.Write(*e) // the last frame: there is nobody to tell if it fails
	}
}

// overlay lays a notice over the last row, where the viewer has seen all output and no sequence is open: else it
// would land inside one.
func (v *viewer) overlay(text string) []byte {
	h := v.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if v.drawing != nil {
		return v.drawing.Overlay(h.screen, text)
	}
	if h.catchUp() != v.at || !h.screen.Ground() {
		return nil
	}
	return h.screen.Overlay(text)
}

// lastRow repaints what a notice covered.
func (v *viewer) lastRow() []byte {
	h := v.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if v.drawing != nil {
		h.catchUp()
		return h.screen.Render(v.drawing, int(v.window.Cols), int(v.window.Rows))
	}
	if h.catchUp() != v.at || !h.screen.Ground() {
		return nil
	}
	return h.screen.Row(int(h.rows) - 1)
}
