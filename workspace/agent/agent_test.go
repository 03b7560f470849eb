package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryPresetIsSoundAndItsFilesAreJSONWhateverThePath(t *testing.T) {
	all, err := Presets()
	if err != nil {
		t.Fatal(err)
	}
	v := Vars{ID: "i-1", Brief: `/b"\ x/brief.md`, Dir: "/d", Perdure: `/opt/it's "here"/perdure`, Home: "/h", State: `/s "q"`, Session: "S", Workspace: "w", Preset: "p"}
	for _, name := range []string{"claude", "codex", "gemini", "opencode", "aider", "shell"} {
		p, ok := all[name]
		if !ok {
			t.Fatalf("no preset %s", name)
		}
		for f, text := range p.Files {
			if strings.HasSuffix(f, ".json") && !json.Valid([]byte(v.Text(f, text))) {
				t.Errorf("%s: %s is no JSON: %s", name, f, v.Text(f, text))
			}
		}
		for k, text := range p.Env {
			if out := v.Text("", text); strings.HasPrefix(text, "{\"") && !json.Valid([]byte(out)) {
				t.Errorf("%s: %s is no JSON: %s", name, k, out)
			}
		}
		for _, w := range append(v.Words(p.Start), v.Words(p.Resume)...) {
			if strings.Contains(w, "{dir}") || strings.Contains(w, "{id}") || strings.Contains(w, "{perdure}") {
				t.Errorf("%s: a place was not filled: %s", name, w)
			}
		}
		if p.Shell() != (name == "shell") {
			t.Errorf("%s: shell is %v", name, p.Shell())
		}
	}
}

func TestAConversationThatIsGoneIsNotResumed(t *testing.T) {
	all, err := Presets()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	p, v := all["claude"], Vars{ID: "11-22", Home: home}
	if p.Kept(v) {
		t.Error("kept without a transcript")
	}
	dir := filepath.Join(home, ".claude/projects/-tmp-x")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"11-22", "33-44"} {
		if err := os.WriteFile(filepath.Join(dir, id+".jsonl"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if v.ID = "33-44"; !p.Kept(v) {
		t.Error("not kept with its transcript")
	}
	if v.ID = ""; p.Kept(v) {
		t.Error("kept without an id: that is a guess")
	}
}

func TestPresetsOfAConfiguration(t *testing.T) {
	all, err := With(map[string]Preset{
		"mine": {Start: []string{"mine", "{brief}"}, Hooks: map[string]string{"stopped": Done}},
		"opus": {Extends: "claude", Args: []string{"--model", "opus"}, Env: map[string]string{"A": "b"}},
		// A built-in's own name extends it.
		"codex": {About: "Codex, full", Args: []string{"--full-auto"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := all["mine"]; p.Start[0] != "mine" || p.Conversation != None || p.Name != "mine" {
		t.Errorf("mine: %+v", p)
	}
	claude := all["claude"]
	if p := all["opus"]; !slices.Equal(p.Start, slices.Concat([]string{"claude", "--model", "opus"}, claude.Start[1:])) || p.Resume[2] != "opus" ||
		p.Hooks["Stop"] != Stop || p.Env["A"] != "b" || p.Transcript != claude.Transcript {
		t.Errorf("opus: %+v", p)
	}
	if p := all["codex"]; p.About != "Codex, full" || p.Start[1] != "--full-auto" || p.Conversation != Captured {
		t.Errorf("codex: %+v", p)
	}
	if p := claude; len(p.Start) != 7 || p.Env["A"] != "" {
		t.Errorf("the built-in one was changed: %+v", p)
	}
	for name, bad := range map[string]Preset{
		"nothing to run": {}, "no such base": {Extends: "clod"}, "conversation": {Start: []string{"x"}, Conversation: "latest"},
		"meaning": {Extends: "claude", Hooks: map[string]string{"x": "y"}}, "file": {Start: []string{"x"}, Files: map[string]string{"../x": ""}},
		"install": {Start: []string{"x"}, Files: map[string]string{"x": ""}, Install: map[string]string{"x": "/etc/x"}}, "empty program": {Start: []string{""}},
	} {
		if _, err := With(map[string]Preset{"m": bad}); err == nil || !strings.Contains(err.Error(), `"m"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := With(map[string]Preset{"../x": {Start: []string{"x"}}}); err == nil {
		t.Error("a name that is a path")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("start = [\"x\"]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode("x", data)
		if err == nil && len(p.Start) > 0 && p.Start[0] == "" {
			t.Fatal("a preset that names no program")
		}
	})
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{"": false, "-rf": false, "a b": false, "../x": false, "0199a213-81c0-7800": true, "ses_7f": true, "*": false} {
		if ValidID(id) != want {
			t.Errorf("%q", id)
		}
	}
}
