package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"perdure/client"
	"perdure/cmd/perdure/mcp"
)

func (a *app) mcpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "mcp", Short: "Serve MCP on standard input and output to the agent in this session", GroupID: groupHere,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.notRemote("mcp"); err != nil {
				return err
			}
			err := mcp.New(mcp.Options{Version: versionString(), Call: a.call}).Run(c.Context(), &sdk.StdioTransport{})
			if err != nil && !errors.Is(err, io.EOF) && c.Context().Err() == nil {
				return fmt.Errorf("mcp: %w", err)
			}
			return nil
		},
	}
}

// call runs a command in the server with its output kept apart from this process's own.
func (a *app) call(ctx context.Context, args []string, stdin []byte) (stdout, stderr []byte, status int, err error) {
	var out, errOut bytes.Buffer
	o := client.Options{Args: args, Stdout: &out, Stderr: &errOut, Env: clientEnv(), Drop: os.Getenv("PERDURE_DROP")}
	if stdin != nil {
		o.Stdin = bytes.NewReader(stdin)
	}
	if o.Socket, err = a.socket(); err != nil {
		return nil, nil, 0, err
	}
	status, err = client.Run(ctx, o)
	return out.Bytes(), errOut.Bytes(), status, err
}
