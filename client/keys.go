package client

// keys finds the escapes in what a person types, as ssh(1) has them: a tilde at the start of a line and one more
// character. A line starts at the beginning, after a carriage return or line feed, and after an escape. What is pasted
// in brackets holds none.
type keys struct {
	send func([]byte) // what goes to the session
	act  func(byte)   // an escape: the character after the tilde

	inLine bool // not at a line's start
	tilde  bool // a tilde at a line's start is held back
	paste  int  // how much of a paste's begin or end was seen
	inside bool // of a paste
}

const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// escapes are the characters that do something after a tilde; any other is sent with it.
const escapes = ".?dswn"

// feed takes typed bytes in.
func (k *keys) feed(p []byte) {
	from := 0
	flush := func(to int) {
		if to > from {
			k.send(append([]byte(nil), p[from:to]...))
		}
	}
	for i, b := range p {
		k.follow(b)
		switch {
		case k.tilde:
			k.tilde = false
			from = i // the tilde was not sent yet
			k.tail(b, &from)
			k.inLine = b != '\r' && b != '\n' && !isEscape(b)
		case b == '~' && !k.inLine && !k.inside:
			flush(i)
			from = i + 1
			k.tilde = true
		default:
			k.inLine = b != '\r' && b != '\n'
		}
	}
	if !k.tilde {
		flush(len(p))
	}
}

// tail handles the character after a tilde; from moves past it where it is taken.
func (k *keys) tail(b byte, from *int) {
	switch {
	case b == '~': // one tilde, which is this one
	case isEscape(b):
		*from++
		k.act(b)
	default:
		k.send([]byte{'~'})
	}
}

func isEscape(b byte) bool {
	for i := range len(escapes) {
		if escapes[i] == b {
			return true
		}
	}
	return false
}

// follow keeps whether the next byte is inside of a bracketed paste.
func (k *keys) follow(b byte) {
	want := pasteBegin
	if k.inside {
		want = pasteEnd
	}
	switch {
	case want[k.paste] == b:
		k.paste++
	case b == want[0]:
		k.paste = 1
	default:
		k.paste = 0
	}
	if k.paste == len(want) {
		k.paste, k.inside = 0, !k.inside
	}
}
