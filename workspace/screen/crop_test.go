package screen

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A terminal that was given each rendering shows what one shows that was given a whole redraw.
func TestRenderingsAddUpToARedraw(t *testing.T) {
	cheap(t)
	rapid.Check(t, func(t *rapid.T) {
		a := New(rapid.IntRange(1, 14).Draw(t, "width"), rapid.IntRange(1, 8).Draw(t, "height"), Options{})
		cols, rows := rapid.IntRange(1, 14).Draw(t, "cols"), rapid.IntRange(1, 8).Draw(t, "rows")
		if cols == a.cols && rows == a.rows {
			return // that one is given the bytes
		}
		b, r := New(cols, rows, Options{}), &Rendering{}
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			feed(a, anyStream().Draw(t, "stream"))
			feed(b, string(a.Render(r, cols, rows)))
			if rapid.Bool().Draw(t, "overlaid") {
				feed(b, string(r.Overlay(a, "a notice that is long")))
				feed(b, string(a.Render(r, cols, rows)))
			}
			fresh := New(cols, rows, Options{})
			feed(fresh, string(a.RedrawFor(cols, rows, 0)))
			got, want := b.View(), fresh.View()
			if !slices.Equal(got.Rows, want.Rows) || got.Cursor != want.Cursor || !slices.Equal(coloured(b), coloured(fresh)) {
				t.Fatalf("got  %q %+v\nwant %q %+v", coloured(b), got.Cursor, coloured(fresh), want.Cursor)
			}
			if b.Bell() || len(b.Replies()) > 0 {
				t.Fatal("a rendering rings or asks")
			}
		}
	})
}

// coloured is each row with its styles, as it would be painted, without what is blank at its end.
func coloured(s *Screen) (rows []string) {
	for _, r := range s.grid.rows {
		p := painter{cols: s.cols}
		p.clipped(s.appendLine(nil, r, s.cols))
		rows = append(rows, strings.TrimRight(string(p.b), " "))
	}
	return rows
}
