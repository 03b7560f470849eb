package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// arrows is who may import whom, as the table of the design has it; cmd may import all.
var arrows = map[string][]string{
	"workspace":         {"workspace/wire"},
	"workspace/wire":    {},
	"workspace/journal": {},
	"workspace/screen":  {},
	"workspace/host":    {"workspace/wire", "workspace/journal", "workspace/screen"},
	"workspace/agent":   {},
	"snapshot":          {},
	"handoff":           {"snapshot", "handoff/results", "handoff/trace"},
	"handoff/trace":     {},
	"handoff/results":   {},
	"server":            {"workspace", "workspace/agent", "workspace/wire", "workspace/journal", "workspace/screen", "snapshot", "handoff", "handoff/results", "server/store"},
	"server/store":      {"workspace", "snapshot", "handoff"},
	"client":            {"workspace/wire", "workspace/screen", "client/link", "client/predict"},
	"client/predict":    {"workspace/screen"},
	"client/link":       {"workspace/wire"},
}

// only is which of our packages may import a library.
var only = map[string]string{
	"github.com/dgraph-io/badger/v4": "server/store",
	"github.com/gliderlabs/ssh":      "server",
}

func TestTheArrowsBetweenPackages(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "perdure/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		pkg := strings.TrimPrefix(words[0], "perdure/")
		allowed, known := arrows[pkg]
		if !known && !strings.HasPrefix(pkg, "cmd/") {
			t.Errorf("package %s is not in the table", pkg)
		}
		seen++
		for _, imp := range words[1:] {
			if ours, ok := strings.CutPrefix(imp, "perdure/"); ok && known && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s", pkg, ours)
			}
			for lib, owner := range only {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && pkg != owner {
					t.Errorf("%s imports %s, which is %s's alone", pkg, imp, owner)
				}
			}
		}
	}
	if seen < len(arrows) {
		t.Errorf("only %d packages seen", seen)
	}
}

// A host stays small and free of faults that aren't its own.
func TestTheHostLinksNothingOfTheServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "perdure/workspace/host").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range strings.Fields(string(out)) {
		for _, bad := range []string{"perdure/server", "perdure/snapshot", "perdure/handoff", "perdure/client", "github.com/gliderlabs/", "github.com/dgraph-io/", "golang.org/x/crypto/ssh", "github.com/go-git/"} {
			if strings.HasPrefix(dep, bad) {
				t.Errorf("the host links %s", dep)
			}
		}
	}
}
