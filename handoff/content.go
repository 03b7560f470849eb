package handoff

import (
	"bytes"
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"perdure/snapshot"
)

// ExportMark begins a Markdown export of a record. A file that starts with it
// is perdure's own and never counts as an edit.
const ExportMark = "<!-- perdure handoff -->"

// content compares the tree with the record's. Only content decides: a commit
// that moved over the same tree is a note.
func (v *verifier) content(ctx context.Context) {
	m := v.Record.Measured
	head := v.recordedHead(ctx)
	if m.Tree == v.state.Tree {
		if m.Head != v.state.Head && head != headGone {
			v.find(Note, "commit", short(m.Head), short(v.state.Head), "another commit of the same tree")
		}
		return
	}
	v.moved = true
	// The store may have the tree in another repository's part: a clone in the place of what was recorded.
	changes, err := v.Snapshots.Diff(ctx, v.state.Repo, m.Tree, v.state.Tree)
	if err != nil {
		note := "the record's tree can't be compared: " + err.Error()
		if !v.Snapshots.Has(ctx, v.state.Repo, m.Tree) {
			note = "the record's tree is nowhere to be found"
		}
		v.find(Invalid, "tree", short(m.Tree), short(v.state.Tree), note)
		return
	}
	v.rep.Changes = slices.DeleteFunc(changes, func(c snapshot.Change) bool { return v.noEdit(ctx, c) || v.sameWithin(c) })
	if len(v.rep.Changes) == 0 {
		v.moved = false
		return
	}
	v.edits(ctx)
}

// nested compares what the repositories within the directory hold: the tree
// has only their commits. A record from before they were measured has none.
func (v *verifier) nested() {
	was := v.Record.Measured.Nested
	if was == nil && v.Record.Measured.Head != "" && len(v.state.Inner) > 0 {
		return
	}
	for _, path := range sortedKeys(was) {
		now, ok := v.state.Inner[path]
		found := "content changed: now " + short(now)
		if !ok {
			found = "gone"
		}
		if now != was[path] {
			v.driftIn(path, found)
		}
	}
	for _, path := range sortedKeys(v.state.Inner) {
		if _, ok := was[path]; !ok {
			v.driftIn(path, "a new repository")
		}
	}
}

func (v *verifier) driftIn(path, found string) {
	if v.Live {
		v.rep.Behind++
		return
	}
	v.find(Drifted, path, "", found, "a repository within the directory: its own files count too")
}

// DifferingKeys are, sorted, the keys whose values differ or that only one has.
func DifferingKeys(a, b map[string]string) []string {
	differ := map[string]string{}
	for k, va := range a {
		if vb, ok := b[k]; !ok || va != vb {
			differ[k] = ""
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			differ[k] = ""
		}
	}
	return sortedKeys(differ)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

type headState int

const (
	headKnown headState = iota
	headGone
)

// recordedHead notes a recorded commit that is gone (gc, force-push, shallow).
func (v *verifier) recordedHead(ctx context.Context) headState {
	m := v.Record.Measured
	if m.Head == "" || m.Head == v.state.Head {
		return headKnown
	}
	_, ok, err := v.Snapshots.ChangedSince(ctx, v.Dir, v.state.Repo, m.Head, v.state.Tree)
	if err != nil || ok {
		return headKnown
	}
	v.find(Note, "commit", short(m.Head), "gone", "the recorded commit is no longer in the repository")
	return headGone
}

// edits turns changes into findings: drift, or for a live session how far the
// record is behind. Another workspace's own files are its business. Test
// files come after the others, marked.
func (v *verifier) edits(ctx context.Context) {
	origins := v.origins(ctx)
	var tests, others []Finding
	for _, c := range v.rep.Changes {
		f := Finding{Kind: string(Drifted), Subject: c.Path, Recorded: "", Found: c.Kind, Note: "edited since the record"}
		if owner := v.otherOwner(c.Path); owner != "" {
			f.Kind, f.Note = Note, "owned by workspace "+owner
			others = append(others, f)
			continue
		}
		if v.Live {
			v.rep.Behind++
			continue
		}
		by := v.ChangedBy[c.Path]
		switch text := origins[c.Path].Text; {
		case text != "":
			f.Note = "edited " + text
		case by != "":
			f.Note = "edited by workspace " + by + " since the record"
		}
		if v.testFile(c.Path) {
			f.Note = "test " + f.Note
			tests = append(tests, f)
		} else {
			v.rep.Findings = append(v.rep.Findings, f)
		}
		if by != "" && len(v.Owns) > 0 && owned(v.Owns, c.Path) && !owned(v.Shares, c.Path) {
			tests = append(tests, Finding{Kind: string(Drifted), Subject: c.Path, Recorded: "owned by " + v.Workspace, Found: "edited by " + by, Note: "ownership: workspace " + by + " changed what this one owns"})
		}
	}
	v.rep.Findings = append(append(v.rep.Findings, tests...), others...)
}

// origins asks who made the changes, and remembers which of them were another
// workspace's.
func (v *verifier) origins(ctx context.Context) map[string]Origin {
	if v.Origins == nil {
		return nil
	}
	found := v.Origins(ctx, v.rep.Changes)
	by := map[string]string{}
	for path, workspace := range v.ChangedBy {
		by[path] = workspace
	}
	for path, o := range found {
		if o.Workspace != "" {
			by[path] = o.Workspace
		}
	}
	v.ChangedBy = by
	return found
}

// sameWithin notes a repository within that has another commit of the same content.
func (v *verifier) sameWithin(c snapshot.Change) bool {
	was, known := v.Record.Measured.Nested[c.Path]
	if now, ok := v.state.Inner[c.Path]; !known || !ok || was != now || c.From == "" || c.To == "" {
		return false
	}
	v.find(Note, c.Path, short(c.From), short(c.To), "a repository within the directory: another commit of the same content")
	return true
}

// noEdit tells a change that doesn't count: of a file that a check declares to
// write, or of a marked export that was none or marked before. The mark on top
// of another file doesn't hide what was done to it.
func (v *verifier) noEdit(ctx context.Context, c snapshot.Change) bool {
	if declared(v.Checks, c.Path) {
		return true
	}
	if !strings.HasSuffix(c.Path, ".md") || c.From == "" && c.To == "" {
		return false
	}
	for _, id := range []string{c.From, c.To} {
		if id == "" {
			continue
		}
		var head prefix
		if err := v.Snapshots.Content(ctx, v.state.Repo, id, &head); err != nil || string(head) != ExportMark {
			return false
		}
	}
	return true
}

// prefix keeps as much as the mark of an export is long.
type prefix []byte

func (p *prefix) Write(data []byte) (int, error) {
	*p = append(*p, data[:min(len(data), len(ExportMark)-len(*p))]...)
	return len(data), nil
}

// ignored leaves out what a check declares to write, and marked exports.
func (v *verifier) ignored(file string) bool {
	return Declared(v.Dir, v.Checks, file)
}

// Declared tells whether a file of dir, by its path within, is one that no
// comparison counts: a result file that a check says it writes, or a marked
// export.
func Declared(dir string, checks []CheckSpec, file string) bool {
	return declared(checks, file) || exported(filepath.Join(dir, file))
}

func declared(checks []CheckSpec, file string) bool {
	return slices.ContainsFunc(checks, func(c CheckSpec) bool {
		return slices.ContainsFunc(c.resultGlobs(), func(glob string) bool { return owned([]string{path.Join(c.Dir, glob)}, file) })
	})
}

func exported(file string) bool {
	if !strings.HasSuffix(file, ".md") {
		return false
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(ExportMark))
	_, err = io.ReadFull(f, head)
	return err == nil && bytes.Equal(head, []byte(ExportMark))
}

// ownership lists edits since the base that are outside of what the workspace
// owns. Without Owns there is no rule.
func (v *verifier) ownership(ctx context.Context) {
	if len(v.Owns) == 0 {
		return
	}
	for _, file := range v.sinceBase(ctx, v.state.Tree) {
		switch owner := v.otherOwner(file); {
		case owned(v.Owns, file), v.ignored(file):
		case owned(v.Shares, file):
			if by := v.ChangedBy[file]; by != "" {
				v.find(Note, file, "", "edited by "+by, "shared")
			}
		case owner != "":
			if !slices.ContainsFunc(v.rep.Findings, func(f Finding) bool { return f.Subject == file && f.Kind == Note }) {
				v.find(Note, file, "", "edited", "owned by workspace "+owner)
			}
		default:
			v.find(Uncovered, file, "", "edited", "ownership: outside of what this workspace owns")
		}
	}
}

func (v *verifier) otherOwner(file string) string {
	names := make([]string, 0, len(v.OthersOwn))
	for name := range v.OthersOwn {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if name != v.Workspace && owned(v.OthersOwn[name], file) && !owned(v.Owns, file) {
			return name
		}
	}
	return ""
}

// owned matches a path against globs; a glob that names a folder means all
// that is in it.
func owned(globs []string, file string) bool {
	for _, g := range globs {
		g = strings.TrimSuffix(g, "/")
		if ok, err := doublestar.Match(g, file); err == nil && ok {
			return true
		}
		if ok, err := doublestar.Match(g+"/**", file); err == nil && ok {
			return true
		}
	}
	return false
}

// testNames are test code, and what configures how tests are found and run.
var testNames = regexp.MustCompile(`(?i)(^|/)(tests?|testdata|__tests__|__snapshots__|specs?|fixtures)/|_(test|spec)\.\w+$|(^|/)(test_[^/]*|tests?)\.\w+$|\.(test|spec|snap|bats|t)(\.\w+)?$|` +
	`(^|/)(conftest\.py|pytest\.ini|\.?pytest\.toml|tox\.ini|setup\.(cfg|py)|pyproject\.toml|noxfile\.py|\.coveragerc|go\.(mod|sum|work)|package\.json|tsconfig[^/]*\.json|babel\.config\.\w+|(jest|vitest|vite|playwright|cypress|ava)\.(config|setup)\.\w+|karma\.conf\.\w+|\.(mocharc|taprc|rspec|babelrc)[^/]*|cargo\.toml|nextest\.toml|pom\.xml|build\.gradle(\.kts)?|makefile|gnumakefile|justfile|rakefile)$`)

// testFile tells test code and configuration by its usual names, and the files
// that a check's command names.
func (v *verifier) testFile(file string) bool {
	return testNames.MatchString(file) || slices.ContainsFunc(v.Checks, func(c CheckSpec) bool {
		return slices.ContainsFunc(strings.FieldsFunc(c.Cmd, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()<>'\"", r) }), func(word string) bool {
			return path.Join(c.Dir, word) == file
		})
	})
}

// sinceBase lists what was edited since the workspace's base: the commit, or
// the first snapshot where there is none any more.
func (v *verifier) sinceBase(ctx context.Context, tree string) []string {
	if v.Base != "" {
		changed, ok, err := v.Snapshots.ChangedSince(ctx, v.Dir, v.state.Repo, v.Base, tree)
		if err == nil && ok {
			return changed
		}
	}
	if v.BaseTree != "" {
		if changes, err := v.Snapshots.Diff(ctx, v.state.Repo, v.BaseTree, tree); err == nil {
			v.baseNote("counted from the first snapshot instead")
			files := make([]string, 0, len(changes))
			for _, c := range changes {
				files = append(files, c.Path)
			}
			return files
		}
	}
	v.baseNote("what was edited since can't be told")
	return nil
}

// baseNote says once that the base's commit is gone.
func (v *verifier) baseNote(note string) {
	if v.Base != "" && !slices.ContainsFunc(v.rep.Findings, func(f Finding) bool { return f.Subject == "base" }) {
		v.find(Note, "base", short(v.Base), "gone", note+": perdure set "+v.Workspace+" --base COMMIT")
	}
}

func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return orNone(id)
}
