package host

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"
)

const (
	// sizesName is the file in the session's folder that tells the sizes that the terminal took on.
	sizesName = "sizes"
	// maxSizes bounds that file, in lines: a client could resize for ever.
	maxSizes = 20000
)

// noteSize records that the terminal has a new size from here on; mu is held. A line that can't be written costs a
// recording its shape and the session nothing.
func (h *host) noteSize(cols, rows uint16) {
	if h.sizes >= maxSizes {
		return
	}
	h.sizes++
	f, err := os.OpenFile(filepath.Join(h.dir, sizesName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		log.Printf("sizes: %v", err)
		return
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%d %d %d %d\n", h.shown, time.Now().UnixNano(), cols, rows); err != nil {
		log.Printf("sizes: %v", err)
	}
}
