package wire

import (
	"errors"
	"fmt"
)

var (
	// ErrMagic is returned by [Conn.Handshake] when the peer isn't perdure.
	ErrMagic = errors.New("peer doesn't speak perdure's wire protocol")

	// ErrTooLarge is returned for a frame whose payload is over [MaxPayload].
	// From Read it ends the stream, as no later frame can be found; from Write
	// nothing was sent and the stream is as before.
	ErrTooLarge = errors.New("frame is too large")

	// ErrFrame is wrapped by [Conn.Read] for a frame whose payload isn't the
	// one valid encoding of its type. The frame was consumed whole, so the stream
	// is still in step and a Fault can be answered.
	ErrFrame = errors.New("malformed frame")
)

// A VersionError says that the two ends speak different versions of the
// protocol.
type VersionError struct {
	Ours   uint16 // this side's
	Theirs uint16 // the peer's
}

// Error names both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("wire version mismatch: this perdure speaks version %d, its peer version %d", e.Ours, e.Theirs)
}
