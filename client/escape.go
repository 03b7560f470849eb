package client

// escape finds "~." at the start of a line in what the person types, as ssh(1) has it: a line starts at the
// beginning and after a carriage return or line feed, and "~~" there is one tilde.
type escape struct {
	inLine bool // not at a line's start
	tilde  bool // a tilde at a line's start is held back
}

// feed returns what to send on, and whether the person leaves. What follows "~." is dropped.
func (e *escape) feed(p []byte) (send []byte, leave bool) {
	for _, b := range p {
		if e.tilde {
			e.tilde = false
			switch b {
			case '.':
				return send, true
			case '~':
			default:
				send = append(send, '~')
			}
			send = append(send, b)
			e.inLine = b != '\r' && b != '\n'
			continue
		}
		if b == '~' && !e.inLine {
			e.tilde = true
			continue
		}
		send = append(send, b)
		e.inLine = b != '\r' && b != '\n'
	}
	return send, false
}
