package screen

import (
	"strings"
	"testing"
)

// What a program did to the colours doesn't stay with whoever leaves.
func TestRestoreGivesThePaletteBack(t *testing.T) {
	s := New(40, 10, Options{})
	_, _ = s.Write([]byte("\x1b]4;1;rgb:12/34/56\x1b\\\x1b]10;rgb:12/34/56\x1b\\\x1b]11;rgb:12/34/56\x1b\\\x1b]12;rgb:12/34/56\x1b\\"))
	if got := string(s.RedrawFor(40, 10, 0)); strings.Count(got, "12/34/56") != 4 {
		t.Fatalf("the screen doesn't know the colours: %q", got)
	}
	_, _ = s.Write(Restore())
	if got := string(s.RedrawFor(40, 10, 0)); strings.Contains(got, "12/34/56") {
		t.Errorf("colours stay: %q", got)
	}
}
