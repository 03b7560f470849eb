// Package mcp is the MCP server that the agent in a session talks to on standard input and output. Each tool is a
// perdure command with a strict schema; what it does and what it refuses is decided by perdure's server.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Caller runs a perdure command in the server and returns what it printed, and its exit status. An error means that
// the server could not be reached.
type Caller func(ctx context.Context, args []string, stdin []byte) (stdout, stderr []byte, status int, err error)

// Options say where the commands go.
type Options struct {
	Version string
	Call    Caller
}

type none struct{}

type failure struct {
	ID  string `json:"id" jsonschema:"the test's id, or the check's label"`
	Why string `json:"why" jsonschema:"why it fails"`
}

type next struct {
	Do       string `json:"do" jsonschema:"what the next session does first"`
	DoneWhen string `json:"done_when,omitempty" jsonschema:"a command that succeeds once that is done"`
}

type claim struct {
	Passed       []string  `json:"passed,omitempty" jsonschema:"tests that pass, by id or a unique suffix"`
	Failed       []failure `json:"failed,omitempty" jsonschema:"every test that fails, each with its reason"`
	NotAttempted []string  `json:"not_attempted,omitempty" jsonschema:"what was planned and not tried"`
	Questions    []string  `json:"questions,omitempty" jsonschema:"open questions for the person"`
	Next         *next     `json:"next,omitempty" jsonschema:"what comes next; leave it out only if finished is true"`
	Finished     bool      `json:"finished,omitempty" jsonschema:"true if the goal is reached and nothing is left"`
}

type repair struct {
	claim
	Explain []string `json:"explain,omitempty" jsonschema:"one 'SUBJECT: why' for each finding"`
	Carry   bool     `json:"carry,omitempty" jsonschema:"run the checks again and keep the old claims; refused if a result changed"`
}

type verify struct {
	Quick bool `json:"quick,omitempty" jsonschema:"compare the tree only; run no check"`
}

type deliver struct {
	To      string `json:"to" jsonschema:"the workspace that receives it"`
	Message string `json:"message,omitempty" jsonschema:"what to tell the receiver"`
}

type accept struct {
	ID    string `json:"id" jsonschema:"the delivery's id, as inbox lists it"`
	Merge bool   `json:"merge,omitempty" jsonschema:"verify the merge too, and bring it into this tree if it holds"`
}

type reject struct {
	ID      string `json:"id" jsonschema:"the delivery's id, as inbox lists it"`
	Because string `json:"because" jsonschema:"why; the sender sees it"`
}

type note struct {
	Message string `json:"message,omitempty" jsonschema:"what the snapshot is of"`
}

// New is the MCP server with its tools and resources.
func New(o Options) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "perdure", Version: o.Version}, &mcp.ServerOptions{
		Instructions: "perdure verifies what one session hands to the next. Read the brief first; record a handoff before you stop and before the context fills."})
	add(s, o, "brief", "What the last session handed over, and what perdure measured. Read it before anything else.", func(none) ([]string, []byte, error) {
		return []string{"brief"}, nil, nil
	})
	add(s, o, "status", "This workspace: goal, checks, the record in force and its verdict, what needs the person.", func(none) ([]string, []byte, error) {
		return []string{"show", "--json"}, nil, nil
	})
	add(s, o, "snapshot", "Keep the working tree as it is now.", func(in note) ([]string, []byte, error) {
		if in.Message == "" {
			return []string{"snapshot", "--json"}, nil, nil
		}
		return []string{"snapshot", "--json", "-m", in.Message}, nil, nil
	})
	add(s, o, "handoff_verify", "Compare the record in force with the work: the verdict, finding by finding.", func(in verify) ([]string, []byte, error) {
		if in.Quick {
			return []string{"handoff", "verify", "--json", "--quick"}, nil, nil
		}
		return []string{"handoff", "verify", "--json"}, nil, nil
	})
	add(s, o, "handoff_record", "Record what is true now. perdure runs the checks itself and refuses a claim that they contradict, naming each test. It waits for the checks.", func(in claim) ([]string, []byte, error) {
		data, err := in.encode()
		return []string{"handoff", "record", "--json", "--wait", "--claim", "-"}, data, err
	})
	add(s, o, "handoff_repair", "Answer the findings of a record that didn't hold with a new, measured one.", func(in repair) ([]string, []byte, error) {
		args := []string{"handoff", "repair", "--json", "--wait"}
		if in.Carry {
			return append(args, "--carry"), nil, nil
		}
		for _, e := range in.Explain {
			args = append(args, "--explain", e)
		}
		data, err := in.encode()
		return append(args, "--claim", "-"), data, err
	})
	addDeliveries(s, o)
	addResources(s, o)
	return s
}

// addDeliveries adds what goes from agent to agent.
func addDeliveries(s *mcp.Server, o Options) {
	add(s, o, "deliver", "Send this workspace's record in force, with its snapshot and commits, to another workspace, which verifies it before it counts.", func(in deliver) ([]string, []byte, error) {
		args := []string{"deliver", "--json"}
		if in.Message != "" {
			args = append(args, "-m", in.Message)
		}
		return append(args, "--", in.To), nil, nil
	})
	add(s, o, "inbox", "Deliveries to and from this workspace, and what became of them. One that is unverified must not be relied on.", func(none) ([]string, []byte, error) {
		return []string{"inbox", "--json"}, nil, nil
	})
	add(s, o, "accept", "Verify a delivery in a scratch checkout; with merge, verify the merge too and bring it into this tree only if it holds. The verdict is the answer.", func(in accept) ([]string, []byte, error) {
		args := []string{"accept", "--json"}
		if in.Merge {
			args = append(args, "--merge")
		}
		return append(args, "--", in.ID), nil, nil
	})
	add(s, o, "reject", "Turn a delivery down; its sender sees why.", func(in reject) ([]string, []byte, error) {
		return []string{"reject", "--json", "--because", in.Because, "--", in.ID}, nil, nil
	})
}

func (c claim) encode() ([]byte, error) {
	if (c.Next == nil) == !c.Finished {
		return nil, errors.New("say what comes next in `next`, or that the goal is reached with `finished`: one of the two")
	}
	if c.Next != nil && strings.TrimSpace(c.Next.Do) == "" {
		return nil, errors.New("next.do is empty: say what the next session does first")
	}
	return json.Marshal(c)
}

// add makes a tool of a command.
func add[In any](s *mcp.Server, o Options, name, about string, command func(In) ([]string, []byte, error)) {
	mcp.AddTool(s, &mcp.Tool{Name: name, Description: about}, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		args, stdin, err := command(in)
		if err != nil {
			return nil, nil, err
		}
		text, err := o.run(ctx, args, stdin)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
}

// verdicts are the statuses by which `verify` tells its verdict: an answer, no failure.
const firstVerdict, lastVerdict = 10, 15

// run calls the server, and makes of a refusal what the agent can act on.
func (o Options) run(ctx context.Context, args []string, stdin []byte) (string, error) {
	out, errOut, status, err := o.Call(ctx, args, stdin)
	if err != nil {
		return "", fmt.Errorf("perdure's server can't be reached: %w; go on with your work, and tell the person that nothing is recorded until `perdure serve` runs", err)
	}
	isVerdict := (args[0] == "accept" || len(args) > 1 && args[1] == "verify") && status >= firstVerdict && status <= lastVerdict
	if status == 0 || isVerdict {
		return string(out), nil
	}
	return "", errors.New(explain(out, errOut))
}

// explain turns a command's error into what the agent does next.
func explain(out, errOut []byte) string {
	var e struct {
		Error struct{ Code, Message, Hint string }
	}
	if json.Unmarshal(out, &e) == nil && e.Error.Message != "" {
		if e.Error.Hint == "" {
			return e.Error.Message
		}
		return e.Error.Message + "\nwhat to do: " + e.Error.Hint
	}
	return string(bytes.TrimSpace(append(out, errOut...)))
}

// The resources: the brief as Markdown, the record in force as JSON.
const (
	briefURI  = "perdure://brief"
	recordURI = "perdure://record"
)

func addResources(s *mcp.Server, o Options) {
	for _, r := range []struct {
		uri, name, mime string
		args            []string
	}{{briefURI, "brief", "text/markdown", []string{"brief"}}, {recordURI, "record", "application/json", []string{"handoff", "show", "--json"}}} {
		s.AddResource(&mcp.Resource{URI: r.uri, Name: r.name, MIMEType: r.mime}, func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			text, err := o.run(ctx, r.args, nil)
			if err != nil {
				return nil, err
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.uri, MIMEType: r.mime, Text: text}}}, nil
		})
	}
}
