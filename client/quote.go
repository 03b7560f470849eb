package client

import "strings"

// Quote joins words to one line that a POSIX shell, and the server, split into the same words again.
func Quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quoteWord(w)
	}
	return strings.Join(quoted, " ")
}

// quoteWord leaves plain words alone, so that logs stay readable.
func quoteWord(w string) string {
	if w != "" && strings.IndexFunc(w, special) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

func special(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("-_./:@%+,=", r)
}
