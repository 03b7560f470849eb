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
	if !v.Snapshots.Has(ctx, v.state.Repo, m.Tree) {
		v.find(Invalid, "tree", short(m.Tree), short(v.state.Tree), "the record's tree is nowhere to be found")
		return
	}
	changes, err := v.Snapshots.Diff(ctx, v.state.Repo, m.Tree, v.state.Tree)
	if err != nil {
		v.find(Invalid, "tree", short(m.Tree), short(v.state.Tree), "the record's tree can't be compared: "+err.Error())
		return
	}
	v.rep.Changes = slices.DeleteFunc(changes, func(c snapshot.Change) bool { return v.ignored(c.Path) })
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
		found := "content changed"
		now, ok := v.state.Inner[path]
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
		if testFile(c.Path) {
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

// ignored leaves out what a check declares to write, and marked exports.
func (v *verifier) ignored(file string) bool {
	return Declared(v.Dir, v.Checks, file)
}

// Declared tells whether a file of dir, by its path within, is one that no
// comparison counts: a result file that a check says it writes, or a marked
// export.
func Declared(dir string, checks []CheckSpec, file string) bool {
	for _, c := range checks {
		if glob, ok := strings.CutPrefix(c.Results, "junit:"); ok && owned([]string{path.Join(c.Dir, glob)}, file) {
			return true
		}
	}
	return exported(filepath.Join(dir, file))
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
	if len(v.Owns) == 0 || v.Base == "" {
		return
	}
	files, ok, err := v.Snapshots.ChangedSince(ctx, v.Dir, v.state.Repo, v.Base, v.state.Tree)
	if err != nil || !ok {
		v.find(Note, "base", short(v.Base), "gone", "edits since the base can't be listed: perdure set --base")
		return
	}
	for _, file := range files {
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

var testNames = regexp.MustCompile(`(?i)(^|/)(tests?|testdata|__tests__|spec|fixtures)/|_test\.\w+$|(^|/)test_[^/]*\.py$|\.(test|spec)\.\w+$|(^|/)(conftest\.py|pytest\.ini|tox\.ini|jest\.config\.\w+|vitest\.config\.\w+|karma\.conf\.\w+|\.mocharc[^/]*|nextest\.toml)$`)

// testFile tells test code and configuration by its usual names.
func testFile(file string) bool {
	return testNames.MatchString(file)
}

func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return orNone(id)
}
