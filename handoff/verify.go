package handoff

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"perdure/snapshot"
)

// Trees is what the verifier needs of a *snapshot.Store.
type Trees interface {
	// Read gives the state of a directory, its tree kept so that it can be compared.
	Read(ctx context.Context, workspace, dir string) (snapshot.State, error)
	// Diff lists what differs between two trees of a repository.
	Diff(ctx context.Context, repo, treeA, treeB string) ([]snapshot.Change, error)
	// Has tells whether the store still has an object.
	Has(ctx context.Context, repo, object string) bool
	// ChangedSince lists the files that differ between a commit of the user's
	// repository and a tree; false if the commit is gone.
	ChangedSince(ctx context.Context, dir, repo, baseCommit, tree string) ([]string, bool, error)
	// Content writes a file's bytes, by the id that a Change has of it.
	Content(ctx context.Context, repo, id string, w io.Writer) error
}

// VerifyRequest is everything a verification looks at.
type VerifyRequest struct {
	Workspace string
	Encoded   [][]byte // the chain, oldest first, as stored
	Seal      Seal     // of its newest record
	Record    *Record  // the one in force; nil: unrecorded
	DecodeErr error    // why a stored record couldn't be read
	Dir       string
	Base      string // commit where the goal started; "" if unknown
	BaseTree  string // of the first snapshot: the base where there is no commit, or it is gone
	Checks    []CheckSpec
	// Recorded, where given, says how a recorded check runs that isn't among Checks.
	Recorded func(CheckRun) CheckSpec
	// Owns, Shares and Untested are globs; Flaky are test IDs.
	Owns, Shares, Untested, Flaky []string
	OthersOwn                     map[string][]string // workspace → its globs, same worktree
	// ChangedBy tells, where it is known, which other workspace changed a path.
	ChangedBy map[string]string
	// Origins, where given, tells who made the changes and when, by path.
	Origins func(context.Context, []snapshot.Change) map[string]Origin
	// Commits, where given, are the messages of the commits since the recorded one.
	Commits func(ctx context.Context, since string) []string
	Quick   bool // run no check, or the quick ones alone
	// QuickTree, with Quick, has the checks that are marked quick run: it is the tree that Runner's Dir holds, which is
	// the present one and not the record's.
	QuickTree string
	Live      bool // a session is live: a moved tree is Behind, not drift
	// Needs must exit 0 before the checks mean anything; "" for none.
	Needs string
	// Env are the variables that Needs and done_when get besides the usual ones.
	Env []string
	// Refused are the commands that may not be run, with why.
	Refused map[string]string
	// Unready says why the scratch checkout that Runner has could not be made.
	Unready string
	// RunDoneWhen says that running done_when was consented to.
	RunDoneWhen bool
	Snapshots   Trees
	// Runner runs the checks. Where its Dir isn't Dir, it is a scratch
	// checkout of the record's tree.
	Runner *Runner
	Now    func() time.Time
}

// Origin is who changed a path, as far as it can be known.
type Origin struct {
	Workspace string // another workspace whose session did it; "" else
	Text      string // for a person: who, and when
}

// Finding is one thing that was found. Kind is a verdict, or Note.
type Finding struct {
	Kind     string `json:"kind"`
	Subject  string `json:"subject"` // a test ID, a path, a label, or "branch", "tree", "record", …
	Recorded string `json:"recorded,omitempty"`
	Found    string `json:"found,omitempty"`
	Note     string `json:"note,omitempty"`
}

// Report is the outcome of a verification.
type Report struct {
	Workspace string            `json:"workspace,omitempty"`
	Verdict   Verdict           `json:"verdict"`
	Record    string            `json:"record"`
	Scope     string            `json:"scope"` // quick | full
	At        time.Time         `json:"at"`
	Ms        int64             `json:"ms"`
	Findings  []Finding         `json:"findings"`
	Diff      string            `json:"diff,omitempty"` // what to diff the tree against
	Behind    int               `json:"behind"`         // files that a live session changed since
	Tree      string            `json:"tree,omitempty"` // the tree that was verified
	Checks    []CheckRun        `json:"checks,omitempty"`
	Changes   []snapshot.Change `json:"changes,omitempty"`
	Edited    []EditedFile      `json:"edited,omitempty"` // since the base, where checks were run
}

// EditedFile says what the checks had to do with a file that was edited since
// the base: exercised, opened, not opened or unknown.
type EditedFile struct {
	Path  string `json:"path"`
	Check string `json:"check"`
}

// The scopes of a report.
const (
	ScopeQuick = "quick"
	ScopeFull  = "full"
)

// verifier is one verification on its way; its steps add findings.
type verifier struct {
	VerifyRequest
	rep   Report
	state snapshot.State
	moved bool // the tree isn't the record's
}

// Verify compares a workspace with its record in force, test by test and
// claim by claim. It never fails: what it couldn't find out is a finding.
func Verify(ctx context.Context, req VerifyRequest) Report {
	if req.Now == nil {
		req.Now = time.Now
	}
	started := time.Now()
	v := &verifier{VerifyRequest: req}
	v.rep = Report{Workspace: req.Workspace, Scope: ScopeFull, At: req.Now(), Findings: []Finding{}}
	if req.Quick {
		v.rep.Scope = ScopeQuick
	}
	v.steps(ctx)
	v.rep.Ms = time.Since(started).Milliseconds()
	v.settle()
	return v.rep
}

func (v *verifier) steps(ctx context.Context) {
	if !v.chain() || !v.directory() {
		return
	}
	state, err := v.Snapshots.Read(ctx, v.Workspace, v.Dir)
	if err != nil {
		v.find(Inconclusive, "tree", "", "", "the tree can't be read: "+err.Error())
		return
	}
	v.state, v.rep.Tree = state, state.Tree
	v.surroundings()
	if v.Record == nil {
		return
	}
	if !v.identity() {
		return
	}
	v.content(ctx)
	v.ownership(ctx)
	v.attempts(ctx)
	if len(v.Checks) == 0 && len(v.Record.Measured.Checks) == 0 {
		v.find(Uncovered, "checks", "", "", "nothing tests this workspace")
		return
	}
	switch {
	case !v.Quick:
		v.checks(ctx)
	case v.QuickTree != "":
		v.quickChecks(ctx)
	}
}

func (v *verifier) find(kind Verdict, subject, recorded, found, note string) {
	v.rep.Findings = append(v.rep.Findings, Finding{Kind: string(kind), Subject: subject, Recorded: recorded, Found: found, Note: note})
}

// settle derives the verdict, and orders the findings from the worst on.
func (v *verifier) settle() {
	all := []Verdict{}
	for _, f := range v.rep.Findings {
		if f.Kind != Note {
			all = append(all, Verdict(f.Kind))
		}
	}
	v.rep.Verdict = Worst(all...)
	if v.Record == nil && len(all) == 0 {
		v.rep.Verdict = Unrecorded
	}
	slices.SortStableFunc(v.rep.Findings, func(a, b Finding) int {
		return severity[Verdict(b.Kind)] - severity[Verdict(a.Kind)]
	})
	if v.Record != nil {
		v.rep.Record = v.Record.ID
		if v.Record.Measured.Snapshot != "" {
			v.rep.Diff = "snapshot:" + v.Record.Measured.Snapshot
		}
	}
}

// chain is the record's own soundness: nothing is compared with one that
// can't be trusted.
func (v *verifier) chain() bool {
	if v.DecodeErr != nil {
		v.find(Invalid, "record", "", "", v.DecodeErr.Error())
		return false
	}
	err := CheckChain(v.Encoded)
	if err == nil {
		err = v.Seal.Check(v.Encoded)
	}
	if err != nil {
		v.find(Invalid, "record", "", "", "the chain is broken: "+err.Error())
		return false
	}
	if v.Record == nil || len(v.Encoded) == 0 {
		return true
	}
	for _, data := range v.Encoded {
		if r, err := Decode(data); err == nil && r.ID == v.Record.ID {
			return true
		}
	}
	v.find(Invalid, "record", v.Record.ID, "absent", "the record in force isn't in its chain")
	return false
}

func (v *verifier) directory() bool {
	info, err := os.Stat(v.Dir)
	if err == nil && info.IsDir() {
		return true
	}
	found := "not a directory"
	if err != nil {
		found = "gone"
	}
	note := "the directory can't be used"
	if v.Record != nil && v.Record.Measured.Snapshot != "" {
		note = fmt.Sprintf("bring it back: perdure restore %s %s --to %s", v.Workspace, v.Record.Measured.Snapshot, v.Dir)
	}
	v.find(Invalid, "directory", "", found, note)
	return false
}

// surroundings are facts that never touch a verdict but must not be silent:
// a merge in progress, and what a snapshot left out.
func (v *verifier) surroundings() {
	for _, op := range v.state.Operations {
		v.find(Note, "operation", "", op, "in progress")
	}
	for _, s := range v.state.Skipped {
		v.find(Note, s.Path, "", s.Why, "not compared")
	}
}

// identity is whether the directory is still the same repository and branch.
func (v *verifier) identity() bool {
	m := v.Record.Measured
	if m.Head != "" && !v.state.IsRepo {
		v.find(Invalid, "directory", "a git repository", "none", "the directory isn't what it was")
		return false
	}
	if m.Branch != v.state.Branch {
		v.find(Drifted, "branch", orDetached(m.Branch), orDetached(v.state.Branch), "")
	}
	v.nested()
	return true
}

func orDetached(branch string) string {
	if branch == "" {
		return "(none)"
	}
	return branch
}

// flaky tells whether a person listed the test as such.
func (v *verifier) flaky(id string) bool { return Listed(v.Flaky, id) }

// Listed tells whether a list has a test's ID, or an end of it cut at a '/', '.' or ':'.
func Listed(list []string, id string) bool {
	return slices.ContainsFunc(list, func(f string) bool {
		head, ok := strings.CutSuffix(id, f)
		return ok && f != "" && (head == "" || strings.ContainsRune("/.:", rune(head[len(head)-1])))
	})
}
