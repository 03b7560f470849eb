package wire

import "math"

// NoOffset as [Input.Offset] marks input without an address: the host always
// takes it and acknowledges nothing.
const NoOffset = math.MaxUint64

// A Frame is one message. The concrete types are the structs of this package,
// and no others.
type Frame interface {
	frame() kind
	appendPayload(b []byte) []byte
}

// kind is a frame's type byte. The numbers are the protocol's and never reused.
type kind byte

const (
	kindReserved kind = iota // never sent
	kindAttach
	kindAttached
	kindRedraw
	kindOutput
	kindOutputAck
	kindInput
	kindInputAck
	kindResize
	kindSignal
	kindStop
	kindNotice
	kindSkipped
	kindExited
	kindStatusRequest
	kindStatus
	kindPeekRequest
	kindPeek
	kindPing
	kindPong
	kindFault
	kindHello
	kindSession
	kindTty
	kindEchoAck
	kindGo
	kindEnd // one past the last; moves with each version's additions
)

// Attach asks the host to show the session on this connection.
//
// Without Resume the host answers [Attached], then a [Redraw], then [Output]
// from Attached.Offset. With Resume it sends Output from the byte after the
// client's last, From, and tells in Attached what was trimmed meanwhile.
type Attach struct {
	Cols, Rows     uint16 // the client's window, in cells
	XPixel, YPixel uint16 // the same in pixels, 0 if unknown
	ReadOnly       bool   // no input, size or signal of this attachment counts
	Resume         bool
	From           uint64 // output offset, only with Resume
	History        uint32 // scrollback lines wanted in the redraw
	Term           string // the client's TERM
	Client         string // who this is, for people to read
}

// Attached answers [Attach].
type Attached struct {
	Offset      uint64 // of the first Output byte to follow
	Gap         uint64 // bytes trimmed between Attach.From and Offset
	InputOffset uint64 // end of the input the host has
	Pid         uint32 // of the session's program
}

// Redraw carries bytes made from the screen's state: redraws and overlays. They
// have no offset, and the client's doesn't move.
type Redraw struct {
	Data []byte
}

// Output carries what the program printed, untouched. Offset is that of the
// first byte of Data.
type Output struct {
	Offset uint64
	Data   []byte
}

// OutputAck says that the client has shown everything before Offset.
type OutputAck struct {
	Offset uint64
}

// Input carries what was typed. Offset is the client's, of the first byte of
// Data; the host drops what it already has. See [NoOffset].
type Input struct {
	Offset uint64
	Data   []byte
}

// InputAck says that the host has all input before Offset.
type InputAck struct {
	Offset uint64
}

// Resize gives the client's new window size, in cells and pixels.
type Resize struct {
	Cols, Rows, XPixel, YPixel uint16
}

// Signal asks for a signal to the session's foreground process group. Name is
// without "SIG": "INT", "TERM", "KILL", "HUP".
type Signal struct {
	Name string
}

// Stop asks the host to end the session: the named signal first, then KILL
// after a grace.
type Stop struct {
	Signal string
}

// Notice asks the host to lay Text over the last row of this attachment, and to
// repaint the row after so many seconds.
type Notice struct {
	Text    string
	Seconds uint16
}

// Skipped says that so many output bytes were left out because the client fell
// too far behind.
type Skipped struct {
	Bytes uint64
}

// Exited says that the session's program has ended; it follows the last output.
type Exited struct {
	Code   int32
	Signal string // empty unless a signal killed the program
	Offset uint64 // end of the output
}

// StatusRequest asks for a [Status].
type StatusRequest struct{}

// Status is the host's state, a workspace.Status as JSON.
type Status struct {
	JSON []byte
}

// PeekRequest asks for a [Peek].
type PeekRequest struct{}

// Peek is what the session's screen shows, a screen.View as JSON.
type Peek struct {
	JSON []byte
}

// Ping asks for a [Pong] with the same N.
type Ping struct{ N uint64 }

// Pong answers [Ping].
type Pong struct{ N uint64 }

// Fault refuses a request, or says why the sender hangs up.
type Fault struct {
	Code    string // for programs
	Message string // for people
}

// Hello comes before [Attach] from a client that resumes: it names the client, so
// that its input is taken once whatever connection brings it, and so that a newer
// connection replaces an older one.
type Hello struct {
	Client   string // chosen by the client at random, the same at each of its connections
	Number   uint64 // counts the client's connections; a higher one fences a lower
	Session  string // the session whose output the client has up to Attach.From, empty at first
	Input    uint64 // offset of the first input byte that the client still has
	Terminal bool   // a person looks at a terminal; else it is a program that reads bytes
	Skip     uint64 // bytes behind from which output may be skipped, 0 for never
}

// Session tells a client which session the frames that follow are about.
type Session struct {
	ID        string
	Workspace string
}

// Tty tells how the session's terminal treats input, at the beginning and when it
// changes: without Echo in Canonical mode, somebody asks for a password.
type Tty struct {
	Echo      bool
	Canonical bool
}

// EchoAck says that the input before Offset was given to the program long enough
// ago that the output before this frame shows its echo, if it has one.
type EchoAck struct {
	Offset uint64
}

// Go asks a relay for another workspace on the same connection: its name, "" for
// the picker, or "@next" for the one that has waited longest for the person.
type Go struct {
	To string
}

func (Attach) frame() kind        { return kindAttach }
func (Attached) frame() kind      { return kindAttached }
func (Redraw) frame() kind        { return kindRedraw }
func (Output) frame() kind        { return kindOutput }
func (OutputAck) frame() kind     { return kindOutputAck }
func (Input) frame() kind         { return kindInput }
func (InputAck) frame() kind      { return kindInputAck }
func (Resize) frame() kind        { return kindResize }
func (Signal) frame() kind        { return kindSignal }
func (Stop) frame() kind          { return kindStop }
func (Notice) frame() kind        { return kindNotice }
func (Skipped) frame() kind       { return kindSkipped }
func (Exited) frame() kind        { return kindExited }
func (StatusRequest) frame() kind { return kindStatusRequest }
func (Status) frame() kind        { return kindStatus }
func (PeekRequest) frame() kind   { return kindPeekRequest }
func (Peek) frame() kind          { return kindPeek }
func (Ping) frame() kind          { return kindPing }
func (Pong) frame() kind          { return kindPong }
func (Fault) frame() kind         { return kindFault }
func (Hello) frame() kind         { return kindHello }
func (Session) frame() kind       { return kindSession }
func (Tty) frame() kind           { return kindTty }
func (EchoAck) frame() kind       { return kindEchoAck }
func (Go) frame() kind            { return kindGo }
