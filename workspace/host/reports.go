package host

import "bytes"

// What a terminal says by itself comes in the same stream as a person's keys: answers to the program's questions, and
// that it has the focus. Nobody typed that.
const (
	answers = 1 << iota
	focus
)

// without takes answers, focus reports or both out of input. CSI row ; column R is a function key's too (xterm's
// modified F3): it counts as an answer only where a question was asked.
func without(p []byte, what int, asked bool) []byte {
	if bytes.IndexByte(p, 0x1b) < 0 {
		return p
	}
	var out []byte
	for i := 0; i < len(p); {
		n, kind := report(p[i:], asked)
		if n == 0 || kind&what == 0 {
			n = max(n, 1)
			out = append(out, p[i:i+n]...)
		}
		i += n
	}
	return out
}

// report is the length of the report that p begins with, and its kind; 0 where it begins with none. One that isn't
// whole is none.
func report(p []byte, asked bool) (n, kind int) {
	if len(p) < 3 || p[0] != 0x1b {
		return 0, 0
	}
	switch p[1] {
	case ']', 'P':
		for i := 2; i < len(p); i++ {
			if p[i] == 7 && p[1] == ']' {
				return i + 1, answers
			}
			if p[i] == 0x1b && i+1 < len(p) && p[i+1] == '\\' {
				return i + 2, answers
			}
		}
	case '[':
		i := 2
		for i < len(p) && p[i] >= 0x20 && p[i] < 0x40 {
			i++
		}
		if i < len(p) && p[i] >= 0x40 && p[i] < 0x7f {
			return i + 1, csiReport(p[2:i], p[i], asked)
		}
	}
	return 0, 0
}

// csiReport is what kind of report a control sequence is, 0 for a key.
func csiReport(params []byte, final byte, asked bool) int {
	private := len(params) > 0 && bytes.IndexByte([]byte("?>="), params[0]) >= 0
	switch final {
	case 'I', 'O':
		if len(params) == 0 {
			return focus
		}
	case 'c', 'n', 'm', 'u', 'S': // DA, DSR, XTQMODKEYS, the keyboard's flags, graphics
		if private || final == 'n' {
			return answers
		}
	case 'R': // the cursor's place
		if private || asked && bytes.IndexByte(params, ';') > 0 {
			return answers
		}
	case 'y': // DECRPM
		if bytes.HasSuffix(params, []byte("$")) {
			return answers
		}
	case 't': // XTWINOPS
		return answers
	}
	return 0
}
