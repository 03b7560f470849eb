package server

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"perdure/handoff"
)

// escapeText shows text of several lines from outside: each line's control characters escaped.
func escapeText(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = handoff.Escape(l)
	}
	return strings.Join(lines, "\n")
}

// jsonString is a JSON string; bytes that are no UTF-8 become U+FFFD.
func jsonString(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return string(bytes.TrimSpace(b.Bytes()))
}

// wholeUTF8 is how many of the bytes end on a whole character.
func wholeUTF8(p []byte) int {
	for i := 1; i <= utf8.UTFMax && i <= len(p); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if utf8.FullRune(p[len(p)-i:]) {
				return len(p)
			}
			return len(p) - i
		}
	}
	return len(p)
}
