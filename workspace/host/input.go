package host

import (
	"errors"
	"log"
	"os"
	"slices"
)

// What is typed waits in a queue for the program to read it: a program that is busy loses none of it, and whoever
// types waits once the queue is full, as at any terminal.
const (
	inputChunk = 4 << 10 // bytes, about what the kernel's line discipline holds
	inputQueue = 256     // chunks
)

// typed is a piece of input; peer is nil where nobody numbers it.
type typed struct {
	data []byte
	peer *peer
	end  uint64 // the peer's offset after data
}

// input queues what a person typed. It waits for room, until the session ends.
func (h *host) input(p []byte) {
	for chunk := range slices.Chunk(p, inputChunk) {
		h.queue(typed{data: chunk})
	}
}

func (h *host) queue(t typed) {
	select {
	case h.in <- t:
	case <-h.ended:
	}
}

// reply queues the answer to a query of the program. One that asks and never reads gets no more answers, since
// waiting here would stop the drain.
func (h *host) reply(p []byte) {
	select {
	case h.in <- typed{data: p}:
	default:
	}
}

// typeOut writes the queue to the terminal until the session ends; closing the terminal ends a write that waits.
func (h *host) typeOut() {
	for {
		select {
		case <-h.ended:
			return
		case t := <-h.in:
			if _, err := h.tty.Write(t.data); err != nil && !errors.Is(err, os.ErrClosed) {
				log.Printf("input of %d bytes: %v", len(t.data), err)
			}
			h.lookAtTty()
			if t.peer != nil {
				h.echoLater(t.peer, t.end)
			}
		}
	}
}
