package workspace

import (
	"os"
	"path/filepath"
	"testing"
)

// A host that is killed while it writes leaves a line that isn't whole; its last number may still look like one.
func TestATornSizeIsPassedOver(t *testing.T) {
	s := &Session{Dir: t.TempDir()}
	if got, err := s.Resizes(); len(got) != 0 || err != nil {
		t.Fatal(got, err)
	}
	text := "0 1000 80 24\nrubbish\n5 2000 0 24\n9 3000 100 40\n12 4000 120 4"
	if err := os.WriteFile(filepath.Join(s.Dir, "sizes"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := s.Resizes()
	if err != nil || len(got) != 2 || got[0].Cols != 80 || got[1].Offset != 9 || got[1].Rows != 40 || got[1].At.UnixNano() != 3000 {
		t.Errorf("%v, %v", got, err)
	}
}
