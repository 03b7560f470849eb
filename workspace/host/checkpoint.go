package host

import (
	"log"
	"os"
	"path/filepath"
	"time"
)

// checkpointAfter is how long after output the screen is written to disk: whoever shows a lost session's last screen
// replays no more than was printed in that time.
const checkpointAfter = 5 * time.Second

// checkpointName is the file in the session's folder; its format is screen's.
const checkpointName = "screen"

// checkpointSoon sees to a checkpoint, unless one is due already; mu is held. A host whose session prints nothing
// never wakes up.
func (h *host) checkpointSoon() {
	if h.checkpointDue || h.exited != nil {
		return
	}
	h.checkpointDue = true
	h.checkpoints.Go(func() {
		t := time.NewTimer(checkpointAfter)
		defer t.Stop()
		select {
		case <-t.C:
			h.checkpoint()
		case <-h.ended: // the last one is made by whoever ended it
		}
	})
}

// checkpoint writes the screen to disk. One that can't be written is no loss: the journal has all of it.
func (h *host) checkpoint() {
	h.mu.Lock()
	h.checkpointDue = false
	data := h.screen.AppendCheckpoint(nil, h.catchUp())
	h.mu.Unlock()
	if err := writeFile(filepath.Join(h.dir, checkpointName), data); err != nil {
		log.Printf("checkpoint of the screen: %v", err)
	}
}

// lastCheckpoint writes the screen as the session left it.
func (h *host) lastCheckpoint() {
	h.checkpoints.Wait()
	h.checkpoint()
}

// writeFile replaces a file whole, without waiting for the disk: its reader can tell when it is damaged.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
