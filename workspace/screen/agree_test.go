package screen

import (
	"strings"
	"testing"
)

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat("line ", i%7+1))
		b.WriteString("\x1b[3" + string(rune('1'+i%6)) + "mcolour\x1b[m\r\n")
	}
	return b.String()
}

// Each stream is cut in two by a bar: the redraw happens there.
func TestAgreesWithTmux(t *testing.T) {
	x := newTmux(t)
	for name, stream := range map[string]string{
		"text":                 "one\r\ntwo\x1b[1;31m red|\x1b[0m end",
		"history":              lines(60) + "last|more\r\n",
		"history exactly":      strings.Repeat("x\r\n", 10) + "|y",
		"wide":                 "日本語 a\r\ne\u0301|\u0302 日",
		"wide at the margin":   "aaaaaaaaaaaaaaaaaaa日|本\x1b[2;1Hz",
		"wide across":          "12345678901234567890日本\r\nx|y",
		"wide cut":             "日本語\x1b[1;2Hx\x1b[1;5H|\x1b[K",
		"wide erased half":     "日本語日本\x1b[1;4H\x1b[2X|q",
		"wide deleted half":    "a日本語日本\x1b[1;3H\x1b[P|\x1b[1;8H\x1b[P",
		"emoji":                "👩‍👩 👍🏽 🇩🇪|x",
		"mark split":           "e|\u0301o\u0308",
		"pending wrap":         "12345678901234567890|x",
		"pending wrap colour":  "\x1b[32m12345678901234567890\x1b[31m|x",
		"pending wrap wide":    "123456789012345678日|x",
		"pending wrap erased":  "12345678901234567890\x1b[K|x",
		"wrapped line":         strings.Repeat("abcdefghij", 9) + "|k",
		"graphics":             "\x1b)0a\x0eqqx\x0fb\x1b(0lqk\x1b(B|\x0etu\x0f",
		"graphics on":          "\x1b(0lqk|mqj",
		"shifted":              "\x1b)0\x0elqk|mqj",
		"colours":              "\x1b[38;2;1;2;3;48;5;200mrgb\x1b[4:3;58:2::9:8:7mcurly\x1b[21mdouble\x1b[m \x1b[1;2;3;5;7;8;9;53mall|x",
		"background erase":     "\x1b[44mx\x1b[K\r\n\x1b[2Ky\r\n\x1b[m|z",
		"background scroll":    "\x1b[41m" + strings.Repeat("\r\n", 12) + "x|y\r\n",
		"region":               "\x1b[3;6ra\x1b[6;1Hb\r\nc\r\n|d\r\ne\r\n",
		"region origin":        "\x1b[3;6r\x1b[?6h\x1b[2;2Hb|\x1b[9;1Hd\r\ne\r\n",
		"saved":                "\x1b[5;5H\x1b[31m\x1b7\x1b[m\x1b[1;1Hx|\x1b8y",
		"saved origin":         "\x1b[3;6r\x1b[?6h\x1b[2;3H\x1b7\x1b[?6l\x1b[1;1Hx|\x1b8y\x1b[1;1Hz",
		"saved graphics":       "\x1b(0\x1b7\x1b(Bx|\x1b8q",
		"tabs":                 "\x1b[3g\x1b[1;5H\x1bH\x1b[1;9H\x1bH\r|\tx\ty\tz",
		"tabs cleared":         "\x1b[1;9H\x1b[g\r|\tx\ty",
		"alternate":            "behind\x1b[2;3H\x1b[33m\x1b[?1049h\x1b[2J\x1b[5;3Hfront|\x1b[?1049lback",
		"alternate history":    lines(20) + "\x1b[?1049h\x1b[Hfront\x1b[7;1H|x\r\ny\r\n\x1b[?1049lback",
		"alternate 1047":       lines(3) + "\x1b[?1047hx|y\x1b[?1047lback",
		"alternate modes":      "\x1b[?1049h\x1b[?1h\x1b=\x1b[?1002h\x1b[?1006h\x1b[?25l|x",
		"insert":               "abcdef\x1b[1;3H\x1b[4hXY|Z",
		"no wrap":              "\x1b[?7l1234567890123456789012345|xyz",
		"no wrap wide":         "\x1b[?7l123456789012345678日本|語",
		"input modes":          "\x1b[?2004h\x1b[?1000h\x1b[?1006h\x1b[?1005h\x1b[?1004h\x1b[?1h\x1b=|x",
		"input modes off":      "\x1b[?1003h\x1b[?1003l\x1b[?1h\x1b[?1l|x",
		"hidden":               "x\x1b[?25l|y",
		"alignment":            "\x1b#8|x",
		"repeat":               "ab|\x1b[5bc",
		"repeat styled":        "\x1b[31mab|\x1b[5bc",
		"insert lines":         lines(7) + "\x1b[3;4H\x1b[2L|\x1b[3M",
		"insert lines outside": lines(7) + "\x1b[2;4r\x1b[6;1H\x1b[1L|\x1b[M",
		"insert chars":         "abcdefghijklmno\x1b[1;3H\x1b[3@|\x1b[2P",
		"insert chars many":    "abcdefghijklmnop\x1b[1;6H\x1b[12@|x",
		"delete chars many":    "abcdefghijklmnop\x1b[1;6H\x1b[14P|x",
		"scroll up":            lines(7) + "\x1b[2S|\x1b[T",
		"reverse index":        lines(7) + "\x1b[H\x1bM|\x1bM",
		"clear":                lines(5) + "\x1b[2J|x",
		"clear home":           lines(5) + "\x1b[H\x1b[J|x",
		"clear history":        lines(30) + "\x1b[3J|x",
		"clear above":          lines(5) + "\x1b[3;3H\x1b[1J|x",
		"clear below":          lines(5) + "\x1b[3;3H\x1b[J|x",
		"line erase":           "abcdef\x1b[1;3H\x1b[1K|x\x1b[K",
		"open sequence":        "a\x1b[3|1mb",
		"open title":           "a\x1b]2;ti|tle\x07b",
		"open character":       "a\xe6\x97|\xa5b",
		"broken characters":    "a\xe6\x97b\xff\xfec\xc3\xc3\xa9d|e",
		"synchronised":         "\x1b[?2026hab|c\x1b[?2026l",
		"backspace up":         strings.Repeat("a", 25) + "\x1b[2;1H\b|x",
		"long colours":         strings.Repeat("\x1b[38;5;1ma\x1b[38;5;2mb\x1b[38;2;1;2;3mc", 30) + "|d",
		"controls":             "a\x00b\x7fc\x0bd\x0ce|f",
	} {
		t.Run(name, func(t *testing.T) {
			first, second, ok := strings.Cut(stream, "|")
			if !ok {
				t.Fatal("no bar")
			}
			agree(t, x, 20, 8, first, second)
		})
	}
}
