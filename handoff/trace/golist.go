package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// goPackage is what is read of `go list -json`.
type goPackage struct {
	Dir                                                                    string
	Standard                                                               bool
	GoFiles, CgoFiles, CFiles, CXXFiles, HFiles, SFiles, SysoFiles         []string
	EmbedFiles, TestGoFiles, XTestGoFiles, TestEmbedFiles, XTestEmbedFiles []string
}

// Compiled gives the files below dir, relative to it, that are compiled or embedded into the tests of packages: go's own
// answer, which no cache hides. go is asked in the folder at; env is the check's environment, PATH included.
func Compiled(ctx context.Context, dir, at string, env, packages []string) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	const fields = "-json=Dir,Standard,GoFiles,CgoFiles,CFiles,CXXFiles,HFiles,SFiles,SysoFiles,EmbedFiles,TestGoFiles,XTestGoFiles,TestEmbedFiles,XTestEmbedFiles"
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", `exec go list -e -deps -test "$@"`, "sh", fields, "--"}, packages...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = at, env, time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	files := map[string]bool{}
	d := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return files, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		p.into(files, dir)
	}
}

func (p goPackage) into(files map[string]bool, dir string) {
	rel, err := filepath.Rel(dir, p.Dir)
	if p.Standard || err != nil || !filepath.IsLocal(rel) {
		return
	}
	for _, list := range [][]string{p.GoFiles, p.CgoFiles, p.CFiles, p.CXXFiles, p.HFiles, p.SFiles, p.SysoFiles, p.EmbedFiles, p.TestGoFiles, p.XTestGoFiles, p.TestEmbedFiles, p.XTestEmbedFiles} {
		for _, f := range list {
			files[filepath.Join(rel, f)] = true
		}
	}
}
