package host

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"perdure/workspace/wire"
)

func TestTheSizesAreToldWithWhereTheyBegan(t *testing.T) {
	s := start(t, `echo before; read x; stty size; read x`)
	c := s.attach(wire.Attach{Resume: true})
	c.until("before")
	c.write(wire.Resize{Cols: 101, Rows: 31})
	c.write(wire.Resize{Cols: 101, Rows: 31}) // the same again is no change
	c.typed("\n")
	c.until("31 101")
	c.typed("\n")
	c.drain()
	s.end()
	data, err := os.ReadFile(filepath.Join(s.dir, sizesName))
	if err != nil {
		t.Fatal(err)
	}
	var offset, at, cols, rows int
	if n, err := fmt.Sscanf(string(data), "%d %d %d %d\n", &offset, &at, &cols, &rows); n != 4 || err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	if want := fmt.Sprintf("%d %d 101 31\n", len("before\r\n"), at); string(data) != want {
		t.Errorf("sizes: %q, want %q", data, want)
	}
}
