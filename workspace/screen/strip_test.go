package screen

import (
	"bytes"
	"testing"
)

func TestStripLeavesTheText(t *testing.T) {
	for stream, want := range map[string]string{
		"one\r\ntwo\x1b[31m red\x1b[0m\r\n":           "one\ntwo red\n",
		"\x1b]2;本 title\x07text":                      "text",
		"\x1bPq#0;2;0;0;0\x1b\\日\x1b_Gpayload\x1b\\本": "日本",
		"10%\r20%\r100%\r\n":                          "10%\n20%\n100%\n",
		"line\r\x1b[K\r\n":                            "line\n",
		"lx\b\x1b[Ks\r\n":                             "ls\n",
		"a\xffb\xc2\x9bc\x00":                         "abc",
		"a\tb\xe6\x97":                                "a\tb",
	} {
		if got := Strip([]byte(stream)); got != want {
			t.Errorf("%q: %q, not %q", stream, got, want)
		}
		var b bytes.Buffer
		s := NewStripper(&b)
		for i := range len(stream) {
			_, _ = s.Write([]byte{stream[i]})
		}
		if s.Close(); b.String() != want {
			t.Errorf("%q byte by byte: %q, not %q", stream, b.String(), want)
		}
	}
}
