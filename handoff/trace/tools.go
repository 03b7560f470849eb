package trace

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tools build or read first, and open their sources only where something changed; or they work in another process,
// container or machine, which isn't followed.
var tools = []string{
	"cargo", "rustc", "jest", "vitest", "vite", "webpack", "parcel", "ts-node", "tsc", "nx", "turbo", "lerna", "babel-node",
	"mvn", "mvnw", "mvnd", "gradle", "gradlew", "sbt", "mill", "ant", "kotlinc", "make", "gmake", "ninja", "cmake", "ctest", "meson", "scons", "waf", "ccache", "sccache",
	"bazel", "bazelisk", "buck", "buck2", "pants", "plz", "earthly", "dagger", "rake", "task", "tup", "redo", "xcodebuild",
	"tox", "nox", "hatch", "mypy", "dmypy", "pyright", "dotnet", "msbuild", "mix", "rebar3", "cabal", "stack", "ghc", "swift", "zig", "dune", "nimble", "nix", "nix-build",
	"docker", "podman", "docker-compose", "ssh", "kubectl", "vagrant", "deno", "bun",
}

var toolWord = regexp.MustCompile(`(?:^|[^\w.-])(` + strings.Join(tools, "|") + `)(?:$|[^\w./-])`)

// prefixWord moves Python's compiled files to where they aren't followed.
var prefixWord = regexp.MustCompile(`PYTHONPYCACHEPREFIX|pycache_prefix`)

// manifests are read by such a tool at each of its runs, whoever started it.
var manifests = regexp.MustCompile(`^(?:(?:GNUm|[Mm])akefile|.*\.mk|Cargo\.toml|build\.gradle(?:\.kts)?|settings\.gradle(?:\.kts)?|gradlew?|mvnw|pom\.xml|build\.xml|build\.sbt|build\.ninja|CMakeLists\.txt|CMakeCache\.txt|meson\.build|SConstruct|` +
	`WORKSPACE(?:\.bazel)?|MODULE\.bazel|BUILD(?:\.bazel)?|BUCK|pants\.toml|Earthfile|Rakefile|Taskfile\.ya?ml|tsconfig.*\.json|(?:jest|vitest|vite|webpack|babel)\.config\..*|nx\.json|turbo\.json|` +
	`.*\.(?:cs|fs|vb)proj|.*\.sln|mix\.exs|rebar\.config|.*\.cabal|stack\.yaml|Package\.swift|build\.zig|dune(?:-project)?|flake\.nix|Dockerfile|compose\.ya?ml|docker-compose\.ya?ml)$`)

// lone are the tools that may read no manifest of the tree: their start is looked for.
var lone = []string{"bazel", "bazelisk", "buck", "buck2", "pants", "plz", "gradle", "mvn", "mvnd", "sbt", "tox", "nox", "hatch", "ccache", "sccache", "mypy", "dmypy", "dotnet", "docker", "podman", "deno", "bun"}

// Programs gives where the tools are whose start must be looked for: by a PATH, and in the node_modules of the folders.
func Programs(path string, folders ...string) []string {
	var out []string
	for _, dir := range filepath.SplitList(path) {
		for _, name := range lone {
			if info, err := os.Stat(filepath.Join(dir, name)); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() {
				out = append(out, filepath.Join(dir, name))
			}
		}
	}
	for _, dir := range folders {
		for _, name := range tools {
			if file, err := filepath.EvalSymlinks(filepath.Join(dir, "node_modules", ".bin", name)); err == nil {
				out = append(out, file)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Bounds of what is read to find a tool behind a script.
const (
	maxScripts = 200
	maxScript  = 256 << 10
)

// Caches tells whether a check runs a tool that may use a file without opening it: by its command, by the manifests of
// such tools that it opened, and by the scripts that it opened.
func Caches(root, command string, r Result) bool {
	if r.Program || cachingText(command) {
		return true
	}
	texts, packages := []string{command}, []string{}
	for name := range r.Opened {
		base := filepath.Base(name)
		switch {
		case manifests.MatchString(base):
			return true
		case base == "package.json":
			packages = append(packages, name)
		case len(texts) < maxScripts:
			text, ok := script(filepath.Join(root, name))
			if !ok {
				continue
			}
			if cachingText(text) {
				return true
			}
			texts = append(texts, text)
		default:
			return true // too many to tell
		}
	}
	return npmCaches(root, packages, texts)
}

func cachingText(text string) bool { return toolWord.MatchString(text) || prefixWord.MatchString(text) }

var shebang = regexp.MustCompile(`^#! *\S*(?:/|env (?:-S *)?)(?:ba|da|z|k|a)?sh\b`)

// script gives the text of a shell script, without its comments.
func script(name string) (string, bool) {
	ext := filepath.Ext(name)
	if ext != ".sh" && ext != ".bash" && ext != "" {
		return "", false
	}
	f, err := os.Open(name)
	if err != nil {
		return "", false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	head := make([]byte, 64)
	n, _ := io.ReadFull(f, head)
	if ext == "" && !shebang.Match(head[:n]) {
		return "", false
	}
	data, err := io.ReadAll(io.LimitReader(f, maxScript))
	if err != nil {
		return "", false
	}
	data = append(head[:n], data...)
	var text strings.Builder
	for line := range bytes.Lines(data) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
			text.Write(line)
		}
	}
	return text.String(), true
}

var (
	npmWord = regexp.MustCompile(`\b(?:npm|pnpm|yarn)\b`)
	npmRun  = regexp.MustCompile(`\b(?:npm|pnpm|yarn)\s+(?:(?:--?[\w-]+(?:=\S+)?|run|run-script)\s+)*([\w:.-]+)`)
)

// npmCaches follows npm's scripts from the texts on.
func npmCaches(root string, packages, texts []string) bool {
	scripts := map[string][]string{}
	for _, name := range packages {
		data, err := os.ReadFile(filepath.Join(root, name))
		var p struct{ Scripts map[string]string }
		if err != nil || json.Unmarshal(data, &p) != nil {
			continue
		}
		for k, v := range p.Scripts {
			scripts[k] = append(scripts[k], v)
		}
	}
	seen := map[string]bool{}
	for i := 0; i < len(texts); i++ {
		if i > 0 && cachingText(texts[i]) {
			return true
		}
		if !npmWord.MatchString(texts[i]) {
			continue
		}
		runs := npmRun.FindAllStringSubmatch(texts[i], -1)
		if len(runs) == 0 {
			return true // a way to run them that isn't known
		}
		for _, m := range runs {
			name := m[1]
			if name == "t" {
				name = "test"
			}
			for _, n := range []string{"pre" + name, name, "post" + name} {
				if !seen[n] {
					seen[n] = true
					texts = append(texts, scripts[n]...)
				}
			}
		}
	}
	return false
}

// data are files that hold no code, whatever made them.
var data = regexp.MustCompile(`(?:^|/)(?:\.env(?:\..*|rc)?|[^/]*\.env|[^/]*\.(?:log|sqlite3?|db)(?:-journal|-wal|-shm)?|\.coverage(?:\..*)?|\.nvmrc|\.npmrc|\.eslintcache)$|` +
	`(?:^|/)(?:\.pytest_cache|\.hypothesis|\.idea|\.vscode|site-packages|dist-packages|[^/]*\.egg-info)/|(?:^|/)(?:pyvenv\.cfg|bin/(?:python[\d.]*|pytest|activate[^/]*))$`)

// caches are folders and files that tools keep for themselves: they decide no result.
var caches = regexp.MustCompile(`(?:^|/)(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.hypothesis|\.gradle|\.tox|\.nox|\.idea|\.vscode|\.cache|node_modules|target|site-packages|dist-packages|[^/]*\.egg-info)/|` +
	`(?:^|/)(?:\.coverage(?:\..*)?|\.eslintcache|pyvenv\.cfg|[^/]*\.(?:pyc|log|tsbuildinfo)|bin/(?:python[\d.]*|pytest|activate[^/]*))$`)

// Cache tells of a file that it is a tool's own, which is no input of a check.
func Cache(name string) bool { return caches.MatchString(name) }

// Derived tells of an opened file that isn't part of the tree's content whether it may have been made from files that
// are, and so stand for them.
func Derived(name string) bool {
	return source(name) == name && !data.MatchString(name)
}
