package workspace

import (
	"errors"
	"strings"
	"testing"
)

func TestNamesThatAreRefused(t *testing.T) {
	for _, name := range []string{"", "perdure", "../x", "a/b", "-rf", ".a", "A", "a\x00b", "a\x1b[m", strings.Repeat("a", 64), strings.Repeat("a", 300), "ü"} {
		if err := ValidName(name); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"a", "auth-2", "a.b_c", strings.Repeat("a", 63)} {
		if err := ValidName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestOverlapsNameAFileOfBoth(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		files []string
		want  bool
	}{
		{"internal/**", "internal/config/**", nil, true},
		{"**", "a.go", nil, true},
		{"**/*.go", "cmd/**", nil, true},
		{"a/*.go", "a/b.go", nil, true},
		{"a/**", "a/**", nil, true},
		{"a/**", "b/**", nil, false},
		{"*.go", "*.md", nil, false},
		{"*_test.go", "*.go", []string{"a_test.go"}, true},
		{"{cmd,server}/**", "server/x.go", nil, true},
		{"{cmd,{server,client}/x}/**", "client/**/y/*.go", nil, true},
		{"a*c/?/[d-f].go", "*bc/z/[!de].go", nil, true},
		{"a*c/?/[de].go", "*bc/z/[!de].go", nil, false},
		{"*_test.go", "*.go", nil, true},
		{"**/a/**/b", "x/**/*b", nil, true},
		{"a/**/b", "a/b", nil, true},
		{"./a/../b/*", "b/c", nil, true},
		{`a\*b`, "aXb", nil, false},
		{`a\*b`, "a*b", nil, true},
		{"[a", "[a", nil, false},
		{strings.Repeat("**/", 20) + "x", strings.Repeat("*/**/", 20) + "?", nil, true},
		{strings.Repeat("{a,b}", 40), strings.Repeat("{b,c}", 40), nil, true},
	} {
		w, ok := Overlap([]string{c.a}, []string{c.b}, c.files)
		if ok != c.want || ok && !(Owned([]string{c.a}, w) && Owned([]string{c.b}, w)) {
			t.Errorf("%s and %s: %q, %v", c.a, c.b, w, ok)
		}
	}
}
