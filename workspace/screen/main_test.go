package screen

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// TestMain draws fewer streams than rapid would: each starts terminals. -rapid.checks asks for more.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		_ = flag.Set("rapid.checks", "15")
	}
	panicked = func(r any) { panic(r) }
	goleak.VerifyTestMain(m)
}
