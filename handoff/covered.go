package handoff

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"perdure/handoff/trace"
)

// seen is what is known of the files that one run of a check read.
type seen struct {
	opened   map[string]bool
	compiled map[string]bool // go's own answer; nil where go didn't run or say
	coverage []trace.Coverage
	caches   bool // the tool keeps what it read in caches that aren't known
}

// watch follows what the check opens; the function it returns ends that.
func (c *run) watch() func() {
	if !c.Trace {
		return func() {}
	}
	w, err := trace.Start(c.Dir, c.Edited)
	if err != nil {
		return func() {} // Trace stays "off"
	}
	return func() {
		r := w.Stop()
		c.result.seen.opened, c.result.Opened = r.Opened, len(r.Opened)
		c.result.Trace = "partial"
		if r.Complete {
			c.result.Trace = "complete"
		}
	}
}

// cachingTools build first and read their sources only where something changed.
var cachingTools = regexp.MustCompile(`\b(cargo|jest|vitest|mvn|gradlew?|make|ninja|cmake|tsc|bazel|dotnet|sbt|mix|cabal|stack|swift|zig|dune|nx|turbo)\b`)

// look asks what inotify can't tell: what go compiled, and what coverage
// profiles that this run wrote have of it.
func (c *run) look(ctx context.Context) {
	s := &c.result.seen
	s.caches = cachingTools.MatchString(c.spec.Cmd) || cachingTools.MatchString(c.result.Tool)
	if s.caches && c.result.Trace == "complete" {
		c.result.Trace = "partial"
	}
	if strings.HasPrefix(c.result.Tool, "go") {
		env := append(c.environ(), "PATH="+c.search())
		if files, err := trace.Compiled(ctx, c.Dir, c.dir, env, goPackages(c.result)); err == nil {
			s.compiled = files
		}
	}
	for _, name := range c.profiles() {
		data, err := readLimited(filepath.Join(c.dir, name))
		if err != nil {
			continue
		}
		if coverage, err := trace.Profile(data); err == nil {
			s.coverage = append(s.coverage, coverage)
		}
	}
}

var goTestID = regexp.MustCompile(`^(.+?)\.(?:Test|Example|Fuzz|Benchmark)`)

// goPackages are the packages that the results name.
func goPackages(r CheckRun) []string {
	var out []string
	for _, id := range sortedIDs(r.Results) {
		pkg := id
		if m := goTestID.FindStringSubmatch(id); m != nil {
			pkg = m[1]
		}
		if pkg != r.Label {
			out = append(out, pkg)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var profileFlag = regexp.MustCompile(`-coverprofile[= ]['"]?([^'"\s;|&]+)`)

// usualProfiles are where tools write coverage unless they are told.
var usualProfiles = []string{"coverage.out", "cover.out", "c.out", "lcov.info", "coverage/lcov.info", "coverage.xml", "cobertura.xml", "coverage/cobertura-coverage.xml", "target/lcov.info"}

// profiles are the coverage profiles that this run wrote.
func (c *run) profiles() []string {
	names := slices.Clone(usualProfiles)
	for _, m := range profileFlag.FindAllStringSubmatch(c.spec.Cmd, -1) {
		names = append(names, m[1])
	}
	return slices.DeleteFunc(names, func(name string) bool {
		info, err := os.Stat(filepath.Join(c.dir, name))
		return !filepath.IsLocal(name) || err != nil || !info.Mode().IsRegular() || info.ModTime().Before(c.started)
	})
}

func readLimited(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > outputLimit {
		return nil, fmt.Errorf("%s is larger than %d MiB", file, outputLimit>>20)
	}
	return os.ReadFile(file)
}

// answer says what a run had to do with a file.
func (r CheckRun) answer(file string) string {
	for _, c := range r.seen.coverage {
		if ran, known := c.Ran(file); known && ran {
			return trace.Exercised
		}
	}
	switch {
	case r.seen.compiled[file]:
		return trace.Opened
	case strings.HasSuffix(file, ".go") && r.seen.compiled != nil:
		return trace.NotOpened // go reads more than it builds
	case r.seen.opened[file]:
		return trace.Opened
	case r.Problem != "" || r.Trace != "complete" || r.seen.caches:
		return trace.Unknown
	}
	return trace.NotOpened
}

// editedFiles are the files edited since the base that are still there, in the
// tree that the checks run on.
func (v *verifier) editedFiles(ctx context.Context) []string {
	tree := v.state.Tree
	if v.Runner.Dir != v.Dir {
		tree = v.Record.Measured.Tree
	}
	var files []string
	switch {
	case v.Base != "":
		changed, ok, err := v.Snapshots.ChangedSince(ctx, v.Dir, v.state.Repo, v.Base, tree)
		if err != nil || !ok {
			v.find(Note, "base", short(v.Base), "gone", "what the checks cover can't be told: perdure set "+v.Workspace+" --base COMMIT")
			return nil
		}
		files = changed
	case v.BaseTree != "":
		changes, err := v.Snapshots.Diff(ctx, v.state.Repo, v.BaseTree, tree)
		if err != nil {
			return nil
		}
		for _, c := range changes {
			files = append(files, c.Path)
		}
	}
	return slices.DeleteFunc(files, func(file string) bool {
		info, err := os.Lstat(filepath.Join(v.Runner.Dir, file))
		return err != nil || !info.Mode().IsRegular() || v.ignored(file)
	})
}

// coverage lists the edited files that the checks provably never opened.
func (v *verifier) coverage(runs []measuredCheck) {
	untested, unknown := 0, 0
	for _, file := range v.Runner.Edited {
		answer := bestAnswer(runs, file)
		v.rep.Edited = append(v.rep.Edited, EditedFile{file, answer})
		switch {
		case owned(v.Untested, file):
			untested++
		case answer == trace.NotOpened:
			v.find(Uncovered, file, "", answer, "edited since the base, and no check opens it")
		case answer == trace.Unknown:
			unknown++
		}
	}
	if untested > 0 {
		v.find(Note, "untested", "", fmt.Sprintf("%d %s", untested, plural(untested, "file", "files")), "edited since the base, and listed as untested")
	}
	if unknown > 0 {
		v.find(Note, "coverage", "", fmt.Sprintf("%d %s", unknown, plural(unknown, "file", "files")), "edited since the base; whether a check opens them can't be told")
	}
}

// bestAnswer is the best that any run has of a file. A run that can't tell
// leaves it unknown, whatever others didn't open.
func bestAnswer(runs []measuredCheck, file string) string {
	order := []string{trace.Exercised, trace.Opened, trace.Unknown, trace.NotOpened}
	best := len(order) - 1
	for _, m := range runs {
		best = min(best, slices.Index(order, m.run.answer(file)))
	}
	return order[best]
}
