package results

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// event is a line of go test -json (see `go doc test2json`), and of the build
// events that go test prints beside them since Go 1.24.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	FailedBuild string
}

// known actions; anything else that looks like JSON is a program's own output.
var actions = map[string]bool{
	"start": true, "run": true, "pause": true, "cont": true, "pass": true, "fail": true, "skip": true,
	"bench": true, "output": true, "build-output": true, "build-fail": true, "attr": true, "artifacts": true,
}

func parseEvent(line []byte) (event, bool) {
	var e event
	line = bytes.TrimSpace(line)
	if len(line) < 2 || line[0] != '{' || !bytes.Contains(line, []byte(`"Action"`)) {
		return e, false
	}
	if json.Unmarshal(line, &e) != nil || !actions[e.Action] || e.Package+e.ImportPath == "" {
		return e, false
	}
	return e, true
}

// goPackage is what is known of one package while its events pass.
type goPackage struct {
	running map[string]bool
	failed  bool // a test of it failed
	closed  bool // the test binary said PASS or FAIL: it reached its end
	build   bool
}

type goRun struct {
	set      Set
	packages map[string]*goPackage
	found    bool
}

func (g *goRun) pkg(name string) *goPackage {
	p := g.packages[name]
	if p == nil {
		p = &goPackage{running: map[string]bool{}}
		g.packages[name] = p
	}
	return p
}

func parseGoJSON(output []byte) (Set, bool) {
	g := &goRun{set: newSet("go"), packages: map[string]*goPackage{}}
	var text bytes.Buffer
	for line := range bytes.Lines(output) {
		e, ok := parseEvent(line)
		if !ok {
			text.Write(line)
			continue
		}
		g.take(e)
	}
	g.finish()
	if g.found {
		// A plain go test run beside it has its say too.
		if plain, ok := parseGoText(text.Bytes()); ok {
			for id, o := range plain.Tests {
				g.set.add(id, o)
			}
			g.set.Complete = g.set.Complete && plain.Complete
		}
	}
	return g.set, g.found
}

func (g *goRun) take(e event) {
	switch e.Action {
	case "build-output", "build-fail", "attr", "artifacts":
		g.set.BuildFailed = g.set.BuildFailed || e.Action == "build-fail"
		return
	}
	g.found = true
	p := g.pkg(e.Package)
	switch e.Action {
	case "run":
		p.running[e.Test] = true
	case "output":
		if e.Test == "" && (e.Output == "PASS\n" || e.Output == "FAIL\n") {
			p.closed = true
		}
		if strings.Contains(e.Output, "[build failed]") || strings.Contains(e.Output, "[setup failed]") {
			p.build = true
		}
	case "pass", "fail", "skip":
		g.end(p, e)
	}
}

func (g *goRun) end(p *goPackage, e event) {
	if e.Test != "" {
		delete(p.running, e.Test)
		p.failed = p.failed || e.Action == "fail"
		g.set.add(e.Package+"."+e.Test, Outcome(e.Action))
		return
	}
	if e.Action != "fail" {
		return
	}
	switch {
	case p.build || e.FailedBuild != "":
		g.set.BuildFailed = true
		g.set.add(e.Package, Fail)
	case !p.failed:
		g.set.add(e.Package, Fail)
	case !p.closed:
		// A panic or os.Exit: what comes later in this package was not run.
		g.set.add(e.Package, NotRun)
	}
}

// finish marks tests whose end was never told: the run was cut short.
func (g *goRun) finish() {
	for name, p := range g.packages {
		for test := range p.running {
			if _, ended := g.set.Tests[name+"."+test]; !ended {
				g.set.add(name+"."+test, NotRun)
			}
		}
	}
}

// Text renders go test -json lines as go test would have printed them without
// it (the output of tests that passed is left out); other lines stay. What a test printed that never ended, since its
// program was killed, is there too.
func Text(output []byte) []byte {
	var out bytes.Buffer
	held := map[string]*bytes.Buffer{}
	for line := range bytes.Lines(output) {
		e, ok := parseEvent(line)
		if !ok {
			out.Write(line)
			continue
		}
		render(&out, held, e)
	}
	flush(&out, held, "")
	return out.Bytes()
}

func render(out *bytes.Buffer, held map[string]*bytes.Buffer, e event) {
	key := e.Package + "." + e.Test
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "":
		if strings.HasPrefix(e.Output, "FAIL\t") {
			flush(out, held, e.Package+".")
		}
		if e.Output != "PASS\n" {
			out.WriteString(e.Output)
		}
	case e.Action == "output":
		if strings.HasPrefix(e.Output, "=== ") {
			return
		}
		if held[key] == nil {
			held[key] = &bytes.Buffer{}
		}
		held[key].WriteString(e.Output)
	case e.Test != "" && (e.Action == "fail" || e.Action == "pass" || e.Action == "skip"):
		if e.Action == "fail" && held[key] != nil {
			out.Write(held[key].Bytes())
		}
		delete(held, key)
	}
}

// flush writes what is held of the tests whose names begin with prefix.
func flush(out *bytes.Buffer, held map[string]*bytes.Buffer, prefix string) {
	for _, key := range slices.Sorted(maps.Keys(held)) {
		if strings.HasPrefix(key, prefix) {
			out.Write(held[key].Bytes())
			delete(held, key)
		}
	}
}
