package host

import (
	"time"

	"perdure/workspace/screen"
	"perdure/workspace/wire"
)

// drawTime is how often at most a client of another size is drawn for: as often as an eye can tell.
const drawTime = 33 * time.Millisecond

// cropped says whether a terminal's size isn't the session's, so that the program's bytes would land in wrong places
// there; mu is held.
func (v *viewer) cropped() bool {
	return v.shows && (v.window.Cols != v.h.cols || v.window.Rows != v.h.rows)
}

// whole is a redraw for the client's window, from which drawing or bytes go on; mu is held.
func (v *viewer) whole(history int) []byte {
	cols, rows := int(v.window.Cols), int(v.window.Rows)
	v.drawing = nil
	b := v.h.screen.RedrawFor(cols, rows, history)
	if v.cropped() {
		v.drawing = &screen.Rendering{}
		v.h.screen.Render(v.drawing, cols, rows) // what it gives is what was just made
		v.drawn, v.resizes = time.Now(), v.h.resizes
	}
	return b
}

// draw gives a client of another size what changed, in place of the bytes that the program printed. drawn is false
// where the client gets the bytes.
func (s *sender) draw() (frames []wire.Frame, drawn bool) {
	v, h := s.v, s.v.h
	h.mu.Lock()
	defer h.mu.Unlock()
	cropped := v.cropped()
	if !cropped && v.drawing == nil {
		return nil, false
	}
	end := h.catchUp()
	switch {
	case v.peer != nil && v.flow.room(v.at) == 0:
		return nil, true // it has not shown the last one yet
	case !cropped || v.drawing == nil:
		frames = redrawFrames(v.whole(0))
	case v.at == end && v.resizes == h.resizes && !v.drawing.Stale(int(v.window.Cols), int(v.window.Rows)):
		return nil, true
	default:
		if wait := time.Until(v.drawn.Add(drawTime)); wait > 0 {
			s.again.Reset(wait)
			return nil, true
		}
		v.drawn, v.resizes = time.Now(), h.resizes
		frames = redrawFrames(h.screen.Render(v.drawing, int(v.window.Cols), int(v.window.Rows)))
	}
	v.at = end
	if v.peer != nil {
		frames = append(frames, wire.Output{Offset: end})
		v.flow.sent(end, time.Now())
	}
	return frames, true
}

// lastDrawing is what a client of another size is shown of the end, nil for one that gets the bytes.
func (v *viewer) lastDrawing() []wire.Frame {
	v.h.mu.Lock()
	defer v.h.mu.Unlock()
	if v.drawing == nil {
		return nil
	}
	end := v.h.catchUp()
	frames := redrawFrames(v.h.screen.Render(v.drawing, int(v.window.Cols), int(v.window.Rows)))
	if v.peer != nil {
		v.at = end
		frames = append(frames, wire.Output{Offset: v.at})
	}
	return frames
}
