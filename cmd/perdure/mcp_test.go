package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpClient is the SDK's own client on a real `perdure mcp`, as the agent of a workspace has it.
func (b *box) mcpClient(ctx context.Context, name string) *mcp.ClientSession {
	b.t.Helper()
	cmd := exec.Command(b.bin, "mcp")
	cmd.Dir, cmd.Env = b.app, append(slices.Clone(b.env), "PERDURE_WORKSPACE="+name)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { s.Close() })
	return s
}

func tool(t *testing.T, s *mcp.ClientSession, name string, args any) (text string, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return err.Error(), true
	}
	for _, c := range res.Content {
		if tc, ok := c.(*mcp.TextContent); ok {
			text += tc.Text
		}
	}
	return text, res.IsError
}

func TestAnAgentRecordsByMCP(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "go test -json ./...", "--goal", "add numbers")
	s := b.mcpClient(context.Background(), "app")
	list, err := s.ListTools(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range list.Tools {
		names = append(names, x.Name)
		schema, _ := json.Marshal(x.InputSchema)
		if !strings.Contains(string(schema), `"additionalProperties":false`) {
			t.Errorf("the schema of %s isn't strict: %s", x.Name, schema)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "accept brief deliver handoff_record handoff_repair handoff_verify inbox reject snapshot status" {
		t.Fatalf("tools: %s", got)
	}
	if text, bad := tool(t, s, "brief", nil); bad || !strings.Contains(text, "add numbers") {
		t.Fatalf("brief: %s", text)
	}
	for name, args := range map[string]any{
		"a field that isn't known": map[string]any{"finished": true, "passes": []string{"x"}},
		"a wrong type":             map[string]any{"finished": "yes"},
		"neither next nor end":     map[string]any{},
		"both next and end":        map[string]any{"finished": true, "next": map[string]any{"do": "x"}},
		"an empty next":            map[string]any{"next": map[string]any{"do": " "}},
		"no object":                []int{1},
	} {
		if text, bad := tool(t, s, "handoff_record", args); !bad || text == "" {
			t.Errorf("%s was taken: %s", name, text)
		}
	}
	lie := map[string]any{"failed": []any{map[string]any{"id": "TestAdd", "why": "no"}}, "finished": true}
	if text, bad := tool(t, s, "handoff_record", lie); !bad || !strings.Contains(text, "TestAdd") {
		t.Fatalf("a claim that isn't true: %s", text)
	}
	truth := map[string]any{"passed": []string{"TestAdd"}, "next": map[string]any{"do": "subtract"}}
	if text, bad := tool(t, s, "handoff_record", truth); bad {
		t.Fatalf("record: %s", text)
	}
	if text, bad := tool(t, s, "handoff_verify", map[string]any{"quick": true}); bad || !strings.Contains(text, `"verdict"`) {
		t.Fatalf("verify: %s", text)
	}
	b.write(b.app+"/more.go", "package app\n")
	if text, bad := tool(t, s, "handoff_verify", nil); bad || !strings.Contains(text, "drifted") {
		t.Fatalf("verify: %s", text)
	}
	if text, bad := tool(t, s, "handoff_record", truth); !bad || !strings.Contains(text, "repair") {
		t.Fatalf("a record on a halted workspace: %s", text)
	}
	if text, bad := tool(t, s, "handoff_repair", map[string]any{"carry": true}); bad {
		t.Fatalf("repair: %s", text)
	}
	if text, bad := tool(t, s, "snapshot", map[string]any{"message": "here"}); bad {
		t.Fatalf("snapshot: %s", text)
	}
	if text, bad := tool(t, s, "status", nil); bad || !strings.Contains(text, `"goal": "add numbers"`) {
		t.Fatalf("status: %s", text)
	}
	res, err := s.ReadResource(context.Background(), &mcp.ReadResourceParams{URI: "perdure://record"})
	if err != nil || !strings.Contains(res.Contents[0].Text, "subtract") {
		t.Fatalf("the record: %v, %v", res, err)
	}
	b.kill()
	if text, bad := tool(t, s, "snapshot", nil); !bad || !strings.Contains(text, "can't be reached") {
		t.Fatalf("without a server: %s", text)
	}
}

// Bytes that are no MCP never end the server before its input does.
func TestMCPOutlivesMalformedMessages(t *testing.T) {
	b := newBox(t)
	cmd := exec.Command(b.bin, "mcp")
	cmd.Env = b.env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no such"}}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"no/such"}`+"\n"+`{"jsonrpc":"2.0","id":3,"method":"ping"}`+"\n")
	lines, seen := bufio.NewScanner(out), ""
	for !strings.Contains(seen, `"id":3`) && lines.Scan() {
		seen += lines.Text() + "\n"
	}
	if !strings.Contains(seen, `"id":1`) || !strings.Contains(seen, "error") || !strings.Contains(seen, `"id":3`) {
		t.Errorf("answers: %s", seen)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("after its input ended: %v", err)
	}
}

// Agents hand work over by MCP alone: one delivers, the other sees it, verifies it, merges or turns it down.
func TestAgentsDeliverByMCP(t *testing.T) {
	b := newBox(t)
	b.want(0, "new", "app", "--check", "go test -json ./...")
	other := b.dir + "/other"
	b.must(b.app, "git", "worktree", "add", "-q", "-b", "other", other)
	b.want(0, "new", "other", "--dir", other, "--check", "go test -json ./...")
	from, to := b.mcpClient(t.Context(), "app"), b.mcpClient(t.Context(), "other")
	if text, bad := tool(t, from, "deliver", map[string]any{"to": "other"}); !bad || !strings.Contains(text, "record") {
		t.Fatalf("nothing recorded, and delivered: %s", text)
	}
	b.write(b.app+"/more.go", "package app\n")
	b.commit("more")
	done := map[string]any{"passed": []string{"TestAdd"}, "finished": true}
	send := func(message string) (id string) {
		t.Helper()
		if text, bad := tool(t, from, "handoff_record", done); bad {
			t.Fatalf("record: %s", text)
		}
		text, bad := tool(t, from, "deliver", map[string]any{"to": "other", "message": message})
		var d struct{ ID, State string }
		if bad || json.Unmarshal([]byte(text), &d) != nil || d.State != "unverified" {
			t.Fatalf("deliver: %s", text)
		}
		return d.ID
	}
	first := send("take it")
	if text, bad := tool(t, to, "inbox", nil); bad || !strings.Contains(text, first) || !strings.Contains(text, "take it") {
		t.Fatalf("inbox: %s", text)
	}
	if text, bad := tool(t, to, "reject", map[string]any{"id": first, "because": "not now"}); bad {
		t.Fatalf("reject: %s", text)
	}
	if text, bad := tool(t, from, "inbox", nil); bad || !strings.Contains(text, "not now") {
		t.Fatalf("the sender doesn't see why: %s", text)
	}
	if text, bad := tool(t, to, "accept", map[string]any{"id": send("again"), "merge": true}); bad || !strings.Contains(text, `"accepted"`) {
		t.Fatalf("accept: %s", text)
	}
	if _, err := os.Stat(other + "/more.go"); err != nil {
		t.Fatal("accepted with merge, and not merged:", err)
	}
	for name, args := range map[string]any{
		"an unknown id": map[string]any{"id": "01NONE"}, "an id that is a flag": map[string]any{"id": "--merge"}, "no id": map[string]any{},
	} {
		if text, bad := tool(t, to, "accept", args); !bad || text == "" {
			t.Errorf("%s was accepted: %s", name, text)
		}
	}
}
