package server

import (
	"context"
	"io"
)

// Terminal describes the pseudo-terminal a client asked for, or the size it
// has changed to.
type Terminal struct {
	Term                       string
	Cols, Rows, XPixel, YPixel uint16
}

// Request is what the door hands to the core: one session channel asking for
// one thing, by a person whose identity has been verified.
type Request struct {
	User    string            // the user name of the verified connection
	Local   bool              // it came over the server's own unix socket
	Peer    string            // "SHA256:… from 1.2.3.4:5", or "uid 1000 pid 42"
	PeerPid int               // known over the unix socket only
	Command string            // as sent; empty asks for a shell
	Env     map[string]string // what the door lets through
	Term    *Terminal         // nil without a pseudo-terminal
	In      io.Reader         // io.EOF once the client sends its EOF
	Out     io.Writer         // raw bytes; newlines are not translated
	Err     io.Writer         // raw bytes of the extended data stream
	Resizes <-chan Terminal   // the latest size only
	Rights  rights            // what the key may do with workspaces
	Agent   dialAgent         // of the client, which forwards it; nil where it doesn't or mayn't
	Signals <-chan string     // names as in RFC 4254: "INT", "TERM", …
}

// Exit is how a request ended. A Signal that is not empty is sent as
// exit-signal in place of the status.
type Exit struct {
	Status int
	Signal string
}

// core answers requests. Its ctx ends when the channel or the connection does.
type core interface {
	handle(ctx context.Context, r *Request) Exit
}
