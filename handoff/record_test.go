package handoff

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"perdure/handoff/results"
)

var update = flag.Bool("update", false, "write missing vectors in testdata")

func sample() Record {
	return Record{
		ID: "01JABC", Seq: 1, Author: AuthorAgent, Workspace: "auth",
		Measured: Measured{At: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC), Head: "c0ffee", Branch: "main", Tree: "beef", Snapshot: "01JSNAP", Uncommitted: 2,
			Checks: []CheckRun{{Label: "check", Cmd: "go test ./...", Cwd: ".", Where: "tree", Exit: 1, Ms: 12, Tool: "go1.26.8", Trace: "off",
				Results: map[string]results.Outcome{"m.TestA": results.Pass, "m.TestB": results.Fail}}}},
		Claim: &Claim{Passed: []string{"m.TestA"}, Failed: []Failure{{"m.TestB", "known: #123"}}, NotAttempted: []string{}, Questions: []string{},
			Next: &Next{Do: "fix #123", DoneWhen: "go test ."}},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), got, cmpopts.IgnoreUnexported(CheckRun{})); diff != "" {
		t.Error(diff)
	}
	vector := filepath.Join("testdata", "record-v1.json")
	if *update {
		if err := os.WriteFile(vector, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(vector)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, data) {
		t.Errorf("the encoding changed:\n%s\nwant\n%s", data, want)
	}
}

// TestVectors: whatever was released decodes for ever, what was refused stays so.
func TestVectors(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no vectors", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Decode(data)
		if bad := strings.HasPrefix(filepath.Base(file), "bad-"); bad != (err != nil) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestDecodeStrict(t *testing.T) {
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	cases := map[string]struct{ text, where string }{
		"truncated":      {good[:len(good)/2], "measured"},
		"duplicate key":  {strings.Replace(good, `"seq":1`, `"seq":1,"seq":1`, 1), `duplicate key "seq"`},
		"duplicate test": {strings.Replace(good, `"m.TestA":"pass"`, `"m.TestA":"pass","m.TestA":"fail"`, 1), "measured.checks[0].results"},
		"unknown field":  {strings.Replace(good, `"exit":1`, `"exit":1,"x":2`, 1), `measured.checks[0] at byte`},
		"other case":     {strings.Replace(good, `"exit":1`, `"Exit":1`, 1), `is spelt "exit"`},
		"trailing":       {good + " {}", "text after the object"},
		"bad UTF-8":      {strings.Replace(good, "auth", "au\xffth", 1), "invalid UTF-8 at byte"},
		"surrogate":      {strings.Replace(good, "auth", `\ud800`, 1), "lone surrogate"},
		"wrong type":     {strings.Replace(good, `"exit":1`, `"exit":"1"`, 1), "measured.checks[0].exit"},
		"null":           {strings.Replace(good, `"exit":1`, `"exit":null`, 1), "measured.checks[0].exit"},
		"outcome":        {strings.Replace(good, `"pass"`, `"passed"`, 1), "measured.checks[0].results"},
		"no id":          {strings.Replace(good, `"id":"01JABC"`, `"id":""`, 1), "id is missing"},
		"input's hash":   {strings.Replace(good, `"trace":"off"`, `"trace":"off","inputs":{".env":"PASSWORD=x"}`, 1), "measured.checks[0].inputs"},
		"input's case":   {strings.Replace(good, `"trace":"off"`, `"trace":"off","inputs":{".env":"sha256:`+strings.Repeat("AB", 32)+`"}`, 1), "measured.checks[0].inputs"},
		"input outside":  {strings.Replace(good, `"trace":"off"`, `"trace":"off","inputs":{"../.env":"sha256:`+strings.Repeat("ab", 32)+`"}`, 1), "measured.checks[0].inputs"},
		"input's key":    {strings.Replace(good, `"trace":"off"`, `"trace":"off","inputs":{".env":"hmac-sha256:`+strings.Repeat("ab", 32)+`"}`, 1), "measured.checks[0].inputs"},
		"how's results":  {strings.Replace(good, `"exit":1`, `"how":{"results":"","env":[],"timeout_ms":1},"exit":1`, 1), "measured.checks[0].how"},
		"how's limit":    {strings.Replace(good, `"exit":1`, `"how":{"results":"auto","env":[],"timeout_ms":0},"exit":1`, 1), "measured.checks[0].how"},
		"how's field":    {strings.Replace(good, `"exit":1`, `"how":{"results":"auto","env":[],"timeout_ms":1,"x":1},"exit":1`, 1), "measured.checks[0].how"},
		"input's type":   {strings.Replace(good, `"trace":"off"`, `"trace":"off","inputs":[".env"]`, 1), "measured.checks[0].inputs"},
		"empty":          {"", "top"},
		"array":          {"[]", "want an object"},
		"float":          {strings.Replace(good, `"seq":1`, `"seq":1.5`, 1), "seq"},
	}
	for name, c := range cases {
		if _, err := Decode([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.where) {
			t.Errorf("%s: error %v, want it to say %q", name, err, c.where)
		}
	}
}

func encode(t *testing.T, r Record) []byte {
	t.Helper()
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestChain(t *testing.T) {
	first := sample()
	a := encode(t, first)
	second := sample()
	second.ID, second.Seq, second.Prev = "01JABD", 2, Hash(a)
	b := encode(t, second)
	if err := CheckChain([][]byte{a, b}); err != nil {
		t.Fatal(err)
	}
	edited := bytes.Replace(a, []byte("fix #123"), []byte("fix #124"), 1)
	for name, chain := range map[string][][]byte{"edited": {edited, b}, "missing": {b}, "order": {b, a}, "cut": {a, b[:20]}} {
		var ce *ChainError
		if err := CheckChain(chain); !errors.As(err, &ce) {
			t.Errorf("%s: %v", name, err)
		}
	}
	anew := sample()
	anew.ID, anew.Broken = "01JABE", "01JABD"
	if err := CheckChain([][]byte{edited, b, encode(t, anew)}); err != nil {
		t.Errorf("a chain that replaces a broken one: %v", err)
	}
}

func TestAccept(t *testing.T) {
	m := sample().Measured
	accept := func(c Claim) (Claim, []Mismatch, error) { return Accept(c, m) }
	got, wrong, err := accept(Claim{Passed: []string{"TestA"}, Failed: []Failure{{"m.TestB", "known"}}, Finished: true})
	if err != nil || len(wrong) != 0 || got.Passed[0] != "m.TestA" {
		t.Fatalf("%v, %v, %v", got, wrong, err)
	}
	for name, c := range map[string]Claim{
		"unnamed failure": {Passed: []string{"m.TestA"}},
		"never measured":  {Passed: []string{"m.TestZ"}, Failed: []Failure{{"TestB", ""}}},
		"wrong way":       {Failed: []Failure{{"TestB", ""}, {"TestA", ""}}},
	} {
		if _, wrong, err := accept(c); err != nil || len(wrong) != 1 {
			t.Errorf("%s: %v, %v", name, wrong, err)
		}
	}
	m.Checks[0].Results["n.TestA"] = results.Pass
	if _, _, err := accept(Claim{Passed: []string{"TestA"}}); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("ambiguous: %v", err)
	}
	m.Checks = append(m.Checks, CheckRun{Label: "other", Results: map[string]results.Outcome{"m.TestA": results.Fail}})
	if got, wrong, err := accept(Claim{Passed: []string{"check:m.TestA"}, Failed: []Failure{{"other:m.TestA", ""}, {"TestB", ""}}}); err != nil || len(wrong) != 0 {
		t.Errorf("by label: %v, %v, %v", got, wrong, err)
	}
}

func TestParseClaim(t *testing.T) {
	if _, err := ParseClaim([]byte(`{"passed":["a"],"finished":true}`)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`{"passed":["a"]}`, `{"passed":["a"],"failed":[{"id":"a","why":""}],"finished":true}`, `{"Passed":[],"finished":true}`,
		`{"finished":true,"next":{"do":"x"}}`, `{"next":{"do":""}}`, `{"finished":true} x`} {
		if _, err := ParseClaim([]byte(bad)); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
}

func TestWorst(t *testing.T) {
	order := []Verdict{Holds, Uncovered, Inconclusive, Drifted, Contradicted, Invalid}
	for i := 1; i < len(order); i++ {
		if Worst(order[i], order[i-1]) != order[i] || Worst(order[i-1], order[i]) != order[i] {
			t.Errorf("%s should be worse than %s", order[i], order[i-1])
		}
	}
	if Worst() != Holds || Contradicted.ExitStatus() != 12 || Unrecorded.ExitStatus() != 15 {
		t.Error("Worst() or a status")
	}
}

func FuzzDecode(f *testing.F) {
	data, err := sample().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(strings.Replace(string(data), `"exit":1`, `"how":{"results":"auto","env":["A"],"timeout_ms":1},"exit":1`, 1)))
	f.Add([]byte(strings.Replace(string(data), `"trace":"off"`, `"trace":"off","inputs":{".env":"sha256:`+strings.Repeat("ab", 32)+`"}`, 1)))
	f.Add([]byte(`{"id":"a","seq":1,"author":"agent","measured":{"at":"2026-12-01T00:00:00Z"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(data)
		if err != nil {
			return
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatalf("decoded but can't be encoded: %v", err)
		}
		if _, err := Decode(again); err != nil {
			t.Fatal(err)
		}
		_ = Markdown(r)
		_, _ = ParseClaim(data)
	})
}
