// Package wire is the versioned frame protocol between client, server and
// session host. FORMAT.md beside this file describes every byte.
//
// A [Conn] wraps any byte stream. Each side first calls [Conn.Handshake], which
// exchanges a magic and a version, then reads and writes frames:
//
//	c := wire.NewConn(socket)
//	if _, err := c.Handshake(); err != nil {
//		return err // *wire.VersionError names both versions
//	}
//	if err := c.Write(wire.Attach{Cols: 80, Rows: 24}); err != nil {
//		return err
//	}
//	for {
//		f, err := c.Read()
//		if err != nil {
//			return err // io.EOF: the peer ended between frames
//		}
//		switch f := f.(type) {
//		case wire.Output:
//			…
//		}
//	}
//
// Frames are plain structs, read as values, never as pointers. Decoding is
// strict: a payload has exactly one valid form, and anything else is
// [ErrFrame]. Only a whole frame of an unknown type is skipped, which lets
// a later perdure add frames without a new version.
//
// The package opens and closes nothing, starts no timers and knows no
// deadlines: these belong to whoever owns the stream.
package wire
