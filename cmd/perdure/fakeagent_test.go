package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fakeAgent behaves towards perdure as the real ones do: it calls the hooks of its settings in their documented order
// with their documented input, keeps a transcript, and resumes a conversation only where that is. What it does is
// told by lines of standard input.
type fakeAgent struct {
	id, transcript string
	hooks          map[string][]struct {
		Hooks []struct{ Command string }
	}
	in *bufio.Scanner
}

// fakeClaude is Claude Code, or Gemini CLI where it is called so: they differ in their flags and events.
func fakeClaude() {
	gemini := filepath.Base(os.Args[0]) == "gemini"
	fs := flag.NewFlagSet("claude", flag.ExitOnError)
	id := fs.String("session-id", "", "")
	resume := fs.String("resume", "", "")
	fs.StringVar(resume, "r", "", "")
	settings := fs.String("settings", os.Getenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH"), "")
	fs.String("mcp-config", "", "")
	_ = fs.Parse(os.Args[1:])
	a := &fakeAgent{id: *id, in: bufio.NewScanner(os.Stdin)}
	source := "startup"
	if *resume != "" {
		a.id, source = *resume, "resume"
	}
	if a.id == "" { // it makes one up, as Gemini does
		a.id = fmt.Sprintf("made-up-%d", os.Getpid())
	}
	dir := filepath.Join(os.Getenv("HOME"), ".claude", "projects", "-app")
	a.transcript = filepath.Join(dir, a.id+".jsonl")
	if _, err := os.Stat(a.transcript); *resume != "" && err != nil {
		fmt.Fprintf(os.Stderr, "No conversation found with session ID: %s\n", a.id)
		os.Exit(1)
	}
	if os.MkdirAll(dir, 0o700) != nil || os.WriteFile(a.transcript, []byte("{}\n"), 0o600) != nil {
		os.Exit(71)
	}
	var file struct{ Hooks json.RawMessage }
	if data, err := os.ReadFile(*settings); err != nil || json.Unmarshal(data, &file) != nil || json.Unmarshal(file.Hooks, &a.hooks) != nil {
		fmt.Fprintln(os.Stderr, "no settings")
		os.Exit(72)
	}
	a.hook("SessionStart", map[string]any{"source": source})
	fmt.Printf("%s conversation %s\n", source, a.id)
	for a.in.Scan() {
		a.do(a.in.Text(), gemini)
	}
}

func (a *fakeAgent) do(line string, gemini bool) {
	verb, rest, _ := strings.Cut(line, " ")
	prompt, stop, compact := "UserPromptSubmit", "Stop", "PreCompact"
	if gemini {
		prompt, stop, compact = "BeforeAgent", "AfterAgent", "PreCompress"
	}
	switch verb {
	case "prompt":
		a.hook(prompt, map[string]any{"prompt": rest})
	case "permission":
		a.hook("PermissionRequest", map[string]any{"tool_name": "Bash", "tool_input": map[string]string{"command": rest}})
		a.hook("Notification", map[string]any{"message": "Claude needs your permission to use Bash", "notification_type": "permission_prompt"})
		a.in.Scan()
		a.hook("PostToolUse", map[string]any{"tool_name": "Bash"})
	case "stop":
		blocked := strings.Contains(a.hook(stop, map[string]any{"stop_hook_active": false}), `"block"`)
		if blocked {
			blocked = strings.Contains(a.hook(stop, map[string]any{"stop_hook_active": true}), `"block"`)
			fmt.Printf("was asked, and again: %v\n", blocked)
		} else {
			fmt.Println("was not asked")
		}
	case "compact":
		a.hook(compact, map[string]any{"trigger": "auto"})
		a.hook("SessionStart", map[string]any{"source": "compact"})
		fmt.Println("compacted")
	case "crash":
		os.Exit(70)
	case "quit":
		a.hook("SessionEnd", map[string]any{"reason": "prompt_input_exit"})
		os.Exit(0)
	}
	fmt.Printf("did %s\n", line)
}

// hook calls an event's hooks, and prints what they say to the model.
func (a *fakeAgent) hook(event string, more map[string]any) string {
	cwd, _ := os.Getwd()
	in := map[string]any{"session_id": a.id, "transcript_path": a.transcript, "cwd": cwd, "hook_event_name": event}
	for k, v := range more {
		in[k] = v
	}
	data, _ := json.Marshal(in)
	said := ""
	for _, group := range a.hooks[event] {
		for _, h := range group.Hooks {
			cmd := exec.Command("/bin/sh", "-c", h.Command)
			cmd.Stdin = bytes.NewReader(data)
			out, err := cmd.Output()
			if err != nil {
				fmt.Printf("hook %s failed: %v\n", event, err)
			}
			said += string(out)
		}
	}
	fmt.Printf("%s says: %s\n", event, said)
	return said
}
