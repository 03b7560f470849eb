package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The log shows each verification of each record, what it found, and what was done about it; none of that is lost with
// the store. Only the newest report was kept apart from it.
func TestTheHandoffLogShowsWhereAWrongNoteCameIn(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "go test ./...")
	b.want(0, "handoff", "record", "app", "--passed", "TestAdd", "--passed", "TestZero", "--next", "go on", "--wait")
	b.want(0, "handoff", "verify", "app")
	b.write(b.app+"/a.go", "package app\n\nfunc Add(a, b int) int { return a - b }\n")
	b.want(12, "handoff", "verify", "app")
	b.want(0, "handoff", "override", "app", "--because", "a demo is on")
	b.want(0, "handoff", "record", "app", "--passed", "TestZero", "--failed", "TestAdd: broken", "--next", "mend", "--wait")
	b.write(b.app+"/b.go", "package app\n")
	b.want(11, "handoff", "verify", "app")
	b.want(0, "handoff", "repair", "app", "--carry", "--wait")
	b.want(0, "new", "docs")
	b.want(0, "deliver", "docs", "--from", "app", "-m", "look")

	look := func() (text string) {
		t.Helper()
		var list []struct {
			Kind, ID, Repairs, Text, State, With string
			Carried                              bool
			Verdicts                             []string
			Verifications                        []struct {
				Verdict, Scope string
				Findings       []struct{ Kind, Subject string }
			}
		}
		if err := json.Unmarshal([]byte(b.want(0, "handoff", "log", "app", "--json")), &list); err != nil {
			t.Fatal(err)
		}
		kinds := map[string]int{}
		for _, e := range list {
			kinds[e.Kind]++
			switch {
			case e.Kind == "record" && kinds["record"] == 1:
				if strings.Join(e.Verdicts, " ") != "holds contradicted" || len(e.Verifications) != 2 || e.Verifications[1].Findings[0].Subject != "example.com/app.TestAdd" {
					t.Errorf("the first record: %+v", e)
				}
			case e.Kind == "record" && kinds["record"] == 3 && !e.Carried:
				t.Errorf("the last record: %+v", e)
			case e.Kind == "override" && e.Text != "a demo is on", e.Kind == "delivered" && (e.State != "unverified" || e.With != "docs"):
				t.Errorf("%+v", e)
			}
		}
		if kinds["record"] != 3 || kinds["verification"] != 3 || kinds["override"] != 1 || kinds["delivered"] != 1 {
			t.Errorf("the log has %v", kinds)
		}
		return b.want(0, "handoff", "log", "app")
	}
	before := look()
	for _, want := range []string{"verified     contradicted  full, of #1", "example.com/app.TestAdd  recorded pass, found fail", "override     contradicted of", "a demo is on", "carries #2", "to docs", "unverified"} {
		if !strings.Contains(before, want) {
			t.Errorf("the log doesn't say %q:\n%s", want, before)
		}
	}
	for _, command := range [][]string{{"show", "app"}, {"brief", "app"}} {
		if out := b.want(0, command...); !strings.Contains(out, "a demo is on") {
			t.Errorf("%v doesn't show the override:\n%s", command, out)
		}
	}

	b.kill()
	for _, name := range []string{"store", "store.id", "store.backups"} {
		if err := os.RemoveAll(b.dir + "/state/" + name); err != nil {
			t.Fatal(err)
		}
	}
	b.serve("127.0.0.1:" + b.port)
	if after := look(); after != before {
		t.Errorf("the store's loss changed the log:\n%s\nwas\n%s", after, before)
	}
	b.want(0, "rm", "docs")
}
