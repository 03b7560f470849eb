package server

import (
	"slices"
	"testing"
)

func TestCountedSnapshots(t *testing.T) {
	for _, c := range []struct{ in, want []string }{
		{[]string{"diff", "app", "-1", "--name-only"}, []string{"diff", "app", "latest-1", "--name-only"}},
		{[]string{"diff", "app", "-2", "-0"}, []string{"diff", "app", "latest-2", "latest-0"}},
		{[]string{"restore", "app", "--", "-1"}, []string{"restore", "app", "--", "-1"}},
		{[]string{"send", "app", "-1"}, []string{"send", "app", "-1"}},
	} {
		if got := countedSnapshots(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q", c.in, got)
		}
	}
}
