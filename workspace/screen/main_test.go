package screen

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// asked is whether -rapid.checks was given.
var asked bool

// TestMain draws fewer streams than rapid would: most tests start terminals for each. -rapid.checks asks for more.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	checks("10")
	panicked = func(r any) { panic(r) }
	goleak.VerifyTestMain(m)
}

func checks(n string) {
	if !asked {
		_ = flag.Set("rapid.checks", n)
	}
}

// cheap is for tests that start no terminal.
func cheap(t *testing.T) {
	checks("300")
	t.Cleanup(func() { checks("10") })
}
