package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// goPackage is what is read of `go list -json`.
type goPackage struct {
	Dir, ImportPath, ForTest                                                                     string
	Standard                                                                                     bool
	GoFiles, CgoFiles, CFiles, CXXFiles, MFiles, HFiles, FFiles, SFiles, SwigFiles, SwigCXXFiles []string
	SysoFiles, EmbedFiles, TestGoFiles, XTestGoFiles, TestEmbedFiles, XTestEmbedFiles            []string
}

const goFields = "-json=Dir,ImportPath,ForTest,Standard,GoFiles,CgoFiles,CFiles,CXXFiles,MFiles,HFiles,FFiles,SFiles,SwigFiles,SwigCXXFiles,SysoFiles,EmbedFiles,TestGoFiles,XTestGoFiles,TestEmbedFiles,XTestEmbedFiles"

// GoTests is what a check's tests in Go are.
type GoTests struct {
	Root     string   // of the tree
	At       []string // absolute folders whose modules the packages may be of; go is asked in each
	Packages []string // import paths
	Command  string   // of the check
	// Ask runs a program in a folder as the check is run, and gives its standard output.
	Ask func(ctx context.Context, dir string, argv ...string) ([]byte, error)
}

// Built is go's own answer, which no cache hides.
type Built struct {
	// Files, relative to the tree, are compiled or embedded into the tests.
	Files map[string]bool
	// Dirs is where, relative to the tree, the packages are by import path.
	Dirs map[string]string
	// Complete says that all packages were found, and Strict that nothing but `go test` may have used a file of Go.
	Complete, Strict bool
	// Cgo says that C is compiled in, whose headers may be anywhere.
	Cgo bool
}

// Compiled asks go which files are built into the tests.
func Compiled(ctx context.Context, t GoTests) (Built, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	b := Built{Files: map[string]bool{}, Dirs: map[string]string{}}
	var flags [][]string
	flags, b.Strict = goFlags(t.Command)
	left := slices.Clone(t.Packages)
	var failed error
	for _, at := range t.At {
		found := map[string]bool{}
		for _, f := range flags {
			if len(left) == 0 {
				break
			}
			if err := b.list(ctx, t, at, f, left, found); err != nil {
				failed = err
			}
		}
		left = slices.DeleteFunc(left, func(p string) bool { return found[p] })
	}
	b.Complete = len(left) == 0 && len(t.Packages) > 0
	if len(b.Dirs) == 0 && failed != nil {
		return b, failed
	}
	b.Strict = b.Strict && b.Complete && !b.runsGo(t.Root)
	return b, nil
}

func (b *Built) list(ctx context.Context, t GoTests, at string, flags, packages []string, found map[string]bool) error {
	argv := slices.Concat([]string{"go", "list", "-e", "-deps", "-test", goFields}, flags, []string{"--"}, packages)
	out, err := t.Ask(ctx, at, argv...)
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		b.take(p, t.Root, found)
	}
}

func (b *Built) take(p goPackage, root string, found map[string]bool) {
	rel, err := filepath.Rel(root, p.Dir)
	if p.Standard || p.Dir == "" || err != nil || !filepath.IsLocal(rel) {
		return
	}
	name, _, _ := strings.Cut(p.ImportPath, " ")
	if p.ForTest == "" {
		found[name] = true
		b.Dirs[name] = rel
	}
	b.Cgo = b.Cgo || len(p.CgoFiles) > 0
	for _, list := range [][]string{p.GoFiles, p.CgoFiles, p.CFiles, p.CXXFiles, p.MFiles, p.HFiles, p.FFiles, p.SFiles, p.SwigFiles, p.SwigCXXFiles,
		p.SysoFiles, p.EmbedFiles, p.TestGoFiles, p.XTestGoFiles, p.TestEmbedFiles, p.XTestEmbedFiles} {
		for _, f := range list {
			if !filepath.IsAbs(f) { // the generated main of a test isn't in the tree
				b.Files[filepath.Join(rel, f)] = true
			}
		}
	}
}

// A test that runs go itself may build any package: what go opened is then no proof that it was only listed.
var (
	runsProgram = regexp.MustCompile(`"os/exec"|testscript|"plugin"|go/packages|analysistest`)
	namesGo     = regexp.MustCompile(`"go"|"go |GOROOT|testscript|"plugin"|go/packages|analysistest|sh", "-c"`)
)

func (b *Built) runsGo(root string) bool {
	for name := range b.Files {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || runsProgram.Match(text) && namesGo.Match(text) {
			return true
		}
	}
	return false
}

var (
	goSplit = regexp.MustCompile(`&&|\|\||[;|\n]`)
	// goBuildFlag are flags of go test that decide which files are built.
	goBuildFlag = regexp.MustCompile(`(?:^|\s)--?(tags|mod|modfile|overlay|buildvcs)(?:=|\s+)['"]?([^\s'"]+)`)
	goBuildBool = regexp.MustCompile(`(?:^|\s)--?(race|msan|asan)\b`)
	harmless    = regexp.MustCompile(`^(?:cd|set|export|echo|true|tee|cat|grep|head|tail|printf|mkdir|umask|ulimit|:)$`)
	assignment  = regexp.MustCompile(`^(\w+)=`)
	goVariable  = regexp.MustCompile(`^(?:GO(?:OS|ARCH|FLAGS|WORK|EXPERIMENT|ROOT|ARM|AMD64|TOOLCHAIN)|CGO_ENABLED)$`)
)

// goFlags gives, for each `go test` of a command, the flags that decide what is built; strict is whether the command
// is nothing but such tests.
func goFlags(command string) (flags [][]string, strict bool) {
	strict = !strings.ContainsAny(command, "`(){}") && !strings.Contains(command, "$")
	for _, part := range goSplit.Split(command, -1) {
		words := strings.Fields(part)
		for len(words) > 0 && assignment.MatchString(words[0]) {
			strict = strict && !goVariable.MatchString(assignment.FindStringSubmatch(words[0])[1])
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		if len(words) > 2 && words[0] == "go" && words[1] == "-C" {
			words = append([]string{"go"}, words[3:]...)
		}
		switch {
		case len(words) > 1 && words[0] == "go" && words[1] == "test", words[0] == "gotestsum":
			flags = append(flags, buildFlags(part))
		case words[0] == "export" && strings.Contains(part, "GO"):
			strict = false
		case !harmless.MatchString(words[0]):
			strict = false
		}
	}
	if len(flags) == 0 {
		return [][]string{nil}, false
	}
	slices.SortFunc(flags, slices.Compare)
	return slices.CompactFunc(flags, slices.Equal), strict
}

func buildFlags(part string) (out []string) {
	for _, m := range goBuildFlag.FindAllStringSubmatch(part, -1) {
		out = append(out, "-"+m[1]+"="+m[2])
	}
	for _, m := range goBuildBool.FindAllStringSubmatch(part, -1) {
		out = append(out, "-"+m[1])
	}
	return out
}
