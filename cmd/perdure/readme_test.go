package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// varying is what differs from run to run in the README's examples.
var varying = []struct {
	re *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\b01[0-9A-Z]{24}\b`), "ID"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`), "DATE"},
	{regexp.MustCompile(`\bbetween \d\d:\d\d:\d\d and \d\d:\d\d:\d\d`), "at CLOCK"}, // no file's own time to go by
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "CLOCK"},
	{regexp.MustCompile(`\b\d+(\.\d+)?m?s\b`), "TIME"},
}

func steady(text string) string {
	text = sgr.ReplaceAllString(strings.ReplaceAll(text, "\r", ""), "")
	for _, v := range varying {
		text = v.re.ReplaceAllString(text, v.as)
	}
	return text
}

// example is a command of the README with what it is said to print.
type example struct{ command, output string }

// examples are the commands of a chapter, in order.
func examples(t *testing.T, chapter string) (out []example) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(data), "\n## "+chapter+"\n")
	if !ok {
		t.Fatalf("README.md has no chapter %q", chapter)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	open := false // a blank line may be within an output
	for _, line := range strings.Split(text, "\n") {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(code, "$ ") && indented:
			out, open = append(out, example{command: code[2:]}), true
		case open && (indented || line == ""):
			out[len(out)-1].output += code + "\n"
		default:
			open = false
		}
	}
	for i := range out {
		out[i].output = strings.TrimRight(out[i].output, "\n") + "\n"
	}
	return out
}

// What the README says of halts is what happens: each command of the chapter is run, and its output compared.
func TestTheREADMETellsTheTruthAboutHalts(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "go test ./...")
	b.want(0, "handoff", "record", "app", "--passed", "TestAdd", "--passed", "TestZero", "--next", "add Mul", "--wait")
	b.replace("a.go", "a + b", "a - b")
	all := examples(t, "When the record is wrong")
	if len(all) < 10 {
		t.Fatalf("only %d examples", len(all))
	}
	for _, e := range all {
		var got string
		if strings.HasPrefix(e.command, "ssh ") {
			x := b.inWindow(b.ssh(context.Background(), "-t", "app@127.0.0.1"), 120)
			x.expect(`(?s)(contradicted: .*\[q\] leave)`)
			got = x.last
			x.send("q")
			x.expect("stays halted")
			_ = x.drain()
			got = got[strings.LastIndex(got, "\x1b[K")+1:]
			got = strings.TrimPrefix(got, "[K") + "\n"
		} else {
			cmd := exec.Command("sh", "-c", e.command)
			cmd.Dir, cmd.Env = b.app, b.env
			out, _ := cmd.CombinedOutput() // the statuses are told elsewhere
			got = string(out)
		}
		if got, want := strings.TrimSpace(steady(got)), strings.TrimSpace(steady(e.output)); got != want {
			t.Errorf("$ %s\n%s\nthe README has\n%s", e.command, got, want)
		}
	}
}
