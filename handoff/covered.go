package handoff

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"perdure/handoff/trace"
)

// seen is what is known of the files that one run of a check read.
type seen struct {
	trace.Result
	built     trace.Built
	hasBuilt  bool            // go said what it built
	exercised map[string]bool // by coverage profiles
	caches    bool            // what it read may be in caches that aren't known
}

// watch follows what the check opens; the function it returns ends that.
func (c *run) watch() func() {
	if !c.Trace {
		return func() {}
	}
	w, err := trace.Start(c.Dir, trace.Follow{Edited: c.Edited, Programs: trace.Programs(c.search(), c.Dir, c.dir)})
	if err != nil {
		return func() {} // Trace stays "off"
	}
	return func() {
		r := w.Stop()
		c.result.seen.Result, c.result.Opened = r, len(r.Opened)
		c.result.Trace = "partial"
		if r.Complete {
			c.result.Trace = "complete"
		}
	}
}

// cachedTests is how go tells that it ran nothing, which a script of the check may have asked for.
var cachedTests = regexp.MustCompile(`(?m)\t\(cached\)|\\t\(cached\)`)

// look asks what inotify can't tell: what go compiled, what coverage profiles
// that this run wrote have of it, and whether caches may stand for files.
func (c *run) look(ctx context.Context) {
	s := &c.result.seen
	s.caches = trace.Caches(c.Dir, c.spec.Cmd+"\n"+c.result.Tool, s.Result) || cachedTests.Match(c.out.bytes()) || c.derived()
	if s.caches && c.result.Trace == "complete" {
		c.result.Trace = "partial"
	}
	c.takeInputs()
	profiles := c.coverage()
	packages := []string{}
	if strings.HasPrefix(c.result.Tool, "go") {
		packages = goPackages(c.result)
		c.built(ctx, packages)
	}
	s.exercised = map[string]bool{}
	for _, p := range profiles {
		dirs := s.built.Dirs
		if len(packages) == 0 && len(p.Packages()) > 0 {
			// Another tool ran go: its profile names the packages.
			if b, err := trace.Compiled(ctx, c.goTests(p.Packages())); err == nil {
				dirs = b.Dirs
			}
		}
		for file, ran := range p.Files(c.Dir, dirs, c.dir, c.Dir) {
			s.exercised[file] = s.exercised[file] || ran
		}
	}
}

func (c *run) built(ctx context.Context, packages []string) {
	if b, err := trace.Compiled(ctx, c.goTests(packages)); err == nil {
		c.result.seen.built, c.result.seen.hasBuilt = b, true
	}
}

// goTests asks in the check's own folder first, then where a go.mod was read: a module within is none of the outer's.
func (c *run) goTests(packages []string) trace.GoTests {
	at := []string{c.dir}
	for _, name := range slices.Sorted(maps.Keys(c.result.seen.Opened)) {
		if dir := filepath.Join(c.Dir, filepath.Dir(name)); filepath.Base(name) == "go.mod" && dir != c.dir && len(at) < maxModules {
			at = append(at, dir)
		}
	}
	return trace.GoTests{Root: c.Dir, At: at, Packages: packages, Command: c.spec.Cmd, Ask: c.askGo}
}

func (c *run) askGo(ctx context.Context, dir string, argv ...string) ([]byte, error) {
	return c.ask(ctx, dir, time.Minute, argv...)
}

// maxModules bounds how many modules of a tree are asked for their packages.
const maxModules = 50

// derived tells whether the check opened a file that was there before it, is no part of the tree's content, and may
// have been built from what is: a program, say.
func (c *run) derived() bool {
	if c.Content == nil {
		return false
	}
	for name := range c.result.seen.Opened {
		if c.Content[name] || !trace.Derived(name) || !c.older(name) || c.inner(name) {
			continue
		}
		return true
	}
	return false
}

// older tells whether a file is what it was before the check began.
func (c *run) older(name string) bool {
	info, err := os.Stat(filepath.Join(c.Dir, name))
	return err == nil && info.Mode().IsRegular() && changeTime(info).Before(c.started)
}

// changeTime is when a file was last changed in any way: a program can't set it back.
func changeTime(info os.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.ModTime()
	}
	return time.Unix(st.Ctim.Unix())
}

// inner tells whether a file is in a repository within the tree, whose content is told apart.
func (c *run) inner(name string) bool {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(c.Dir, dir, ".git")); err == nil {
			return true
		}
	}
	return false
}

// Content lists the files of a tree, for a Runner; nil where it can't be read.
func Content(ctx context.Context, trees Trees, repo, tree string) map[string]bool {
	all, err := trees.Diff(ctx, repo, "", tree)
	if err != nil {
		return nil
	}
	files := make(map[string]bool, len(all))
	for _, c := range all {
		files[c.Path] = true
	}
	return files
}

// coverage reads the profiles that this run wrote.
func (c *run) coverage() (out []trace.Coverage) {
	for _, name := range c.profiles() {
		data, err := readLimited(filepath.Join(c.dir, name))
		if err != nil {
			continue
		}
		if coverage, err := trace.Profile(data); err == nil {
			out = append(out, coverage)
		}
	}
	return out
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

var profileFlag = regexp.MustCompile(`(?:-coverprofile[= ]|--cov-report[= ](?:xml|lcov):)['"]?([^'"\s;|&]+)`)

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

// included may be read by a C compiler from anywhere.
var included = regexp.MustCompile(`\.(?:c|cc|cpp|cxx|h|hh|hpp|hxx|inc|m|mm|s|S)$`)

// answer says what a run had to do with a file. "not opened" is proven, or it is unknown.
func (r CheckRun) answer(file string) string {
	s, goFile := r.seen, strings.HasSuffix(file, ".go")
	listed := goFile && s.hasBuilt && !passedOver(file) // go reads more than it builds
	switch {
	case s.exercised[file]:
		return trace.Exercised
	case s.built.Files[file]:
		return trace.Opened
	case listed && s.built.Strict:
		return trace.NotOpened
	case listed && s.Read(file):
		return trace.Unknown
	case s.Read(file):
		return trace.Opened
	case r.Problem != "" || r.Trace != "complete" || s.caches || s.Unsure(file) || s.built.Cgo && included.MatchString(file):
		return trace.Unknown
	}
	return trace.NotOpened
}

// passedOver tells of a file that go takes for no part of a package: whoever opened it wanted it.
func passedOver(file string) bool {
	for name := range strings.SplitSeq(file, "/") {
		if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
			return true
		}
	}
	return false
}

// editedFiles are the files edited since the base that are still there, in the
// tree that the checks run on.
func (v *verifier) editedFiles(ctx context.Context) []string {
	tree := v.state.Tree
	if v.Runner.Dir != v.Dir {
		tree = v.Record.Measured.Tree
	}
	return slices.DeleteFunc(v.sinceBase(ctx, tree), func(file string) bool {
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
