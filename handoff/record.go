package handoff

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"perdure/handoff/results"
)

// The authors of a record.
const (
	AuthorAgent   = "agent"
	AuthorPerdure = "perdure"
	AuthorPerson  = "person"
)

// CheckRun is one run of one check.
type CheckRun struct {
	Label   string                     `json:"label"`
	Cmd     string                     `json:"cmd"`
	Cwd     string                     `json:"cwd"`
	How     *How                       `json:"how,omitempty"` // nil in records from before it was kept
	Where   string                     `json:"where"`         // tree | scratch
	Exit    int                        `json:"exit"`          // -1 if a signal ended it
	Ms      int64                      `json:"ms"`
	Tool    string                     `json:"tool"`
	Results map[string]results.Outcome `json:"results"`
	Opened  int                        `json:"opened"` // files of the tree that it opened
	Trace   string                     `json:"trace"`  // complete | partial | off
	// Inputs are hashes of the files that it opened and that are no part of the tree's content, by path: ignored
	// ones, and those that a link of the tree leads to. Nil where nobody looked.
	Inputs map[string]string `json:"inputs,omitzero"`
	// Problem says why the run gave no answer; see the Problem constants.
	Problem string `json:"problem,omitempty"`
	// Tail is the end of what it printed, kept where something went wrong.
	Tail string `json:"tail,omitempty"`
	// Note tells what else happened, such as processes that had to be ended.
	Note string `json:"note,omitempty"`

	seen seen // what it read, for this run only
}

// How is by which settings a check was run. With others the same command may say more, or less.
type How struct {
	Results string   `json:"results"`    // where its results came from, as Specs of package results has it
	Env     []string `json:"env"`        // names of the variables that it got besides the usual ones, sorted
	Timeout int64    `json:"timeout_ms"` // how long it might run
}

// The problems of a run. Each makes a verification inconclusive, never failed.
const (
	ProblemTimeout     = "timeout"
	ProblemMissing     = "missing"
	ProblemNoTests     = "no tests"
	ProblemStale       = "no result file written now"
	ProblemUnreadable  = "unreadable results"
	ProblemOutput      = "output limit"
	ProblemEdits       = "edits files"
	ProblemKilled      = "killed"
	ProblemEnvironment = "environment"
	ProblemCancelled   = "cancelled"
	ProblemConsent     = "needs consent"
	ProblemProcesses   = "process limit"
	ProblemMemory      = "memory limit"
)

// Measured is what perdure itself found.
type Measured struct {
	At          time.Time  `json:"at"`
	Head        string     `json:"head"`
	Branch      string     `json:"branch"`
	Tree        string     `json:"tree"`
	Snapshot    string     `json:"snapshot"`
	Checks      []CheckRun `json:"checks"`
	Uncommitted int        `json:"uncommitted"` // files that differ from Head
	// Nested identifies what each nested repository held, by its path; nil
	// where that wasn't measured.
	Nested map[string]string `json:"nested,omitzero"`
}

// Failure is a test that fails, with the reason as the agent knows it.
type Failure struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// Next is the next step; DoneWhen, if set, is a command that exits 0 once it
// is done.
type Next struct {
	Do       string `json:"do"`
	DoneWhen string `json:"done_when,omitempty"`
}

// Claim is what the agent says about its work.
type Claim struct {
	Passed       []string  `json:"passed"`
	Failed       []Failure `json:"failed"`
	NotAttempted []string  `json:"not_attempted"`
	Questions    []string  `json:"questions"`
	Next         *Next     `json:"next,omitempty"`
	Finished     bool      `json:"finished"`
}

// Record is one handoff. Claim is nil in an observation, which is never in
// force.
type Record struct {
	ID        string   `json:"id"`
	Seq       int      `json:"seq"`
	Prev      string   `json:"prev,omitempty"`
	Author    string   `json:"author"`
	Workspace string   `json:"workspace"`
	Measured  Measured `json:"measured"`
	Claim     *Claim   `json:"claim,omitempty"`
	Repairs   string   `json:"repairs,omitempty"`
	Explain   []string `json:"explain,omitempty"`
	Broken    string   `json:"broken,omitempty"`
}

// Encode gives the bytes to store, and to hash; a record that Decode would
// refuse is an error.
func (r Record) Encode() ([]byte, error) {
	if r.Measured.Checks == nil {
		r.Measured.Checks = []CheckRun{}
	}
	if r.Claim != nil {
		c := r.Claim.filled()
		r.Claim = &c
	}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	if _, err := Decode(data); err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return data, nil
}

// filled turns nil lists into empty ones, so that JSON shows [].
func (c Claim) filled() Claim {
	if c.Passed == nil {
		c.Passed = []string{}
	}
	if c.Failed == nil {
		c.Failed = []Failure{}
	}
	if c.NotAttempted == nil {
		c.NotAttempted = []string{}
	}
	if c.Questions == nil {
		c.Questions = []string{}
	}
	return c
}

// Decode reads a record strictly (see FORMAT.md). The error says where.
func Decode(data []byte) (Record, error) {
	var r Record
	if err := strict(data, &r); err != nil {
		return Record{}, fmt.Errorf("record: %w", err)
	}
	if err := r.valid(); err != nil {
		return Record{}, fmt.Errorf("record: %w", err)
	}
	return r, nil
}

func (r Record) valid() error {
	switch {
	case r.ID == "":
		return errors.New("id is missing")
	case r.Seq < 1:
		return fmt.Errorf("seq is %d, want 1 or more", r.Seq)
	case r.Author != AuthorAgent && r.Author != AuthorPerdure && r.Author != AuthorPerson:
		return fmt.Errorf("author is %q, want agent, perdure or person", r.Author)
	case r.Measured.At.IsZero():
		return errors.New("measured.at is missing")
	}
	for i, c := range r.Measured.Checks {
		for id, o := range c.Results {
			if !o.Valid() {
				return fmt.Errorf("measured.checks[%d].results: %q is %q, want pass, fail, skip or notrun", i, id, o)
			}
		}
		if c.How != nil && (!results.ValidSpec(c.How.Results) || c.How.Results == "" || c.How.Timeout < 1) {
			return fmt.Errorf("measured.checks[%d].how: results %q and timeout_ms %d, want known ones", i, c.How.Results, c.How.Timeout)
		}
		if err := validInputs(c.Inputs); err != nil {
			return fmt.Errorf("measured.checks[%d].%w", i, err)
		}
	}
	if r.Claim != nil {
		return r.Claim.valid()
	}
	return nil
}

// valid checks what a claim must hold wherever it comes from.
func (c Claim) valid() error {
	seen := map[string]string{}
	mark := func(id, list string) error {
		if id == "" {
			return fmt.Errorf("claim.%s has an empty id", list)
		}
		if other, ok := seen[id]; ok && other != list {
			return fmt.Errorf("claim has %q both as %s and as %s", id, other, list)
		}
		seen[id] = list
		return nil
	}
	for _, id := range c.Passed {
		if err := mark(id, "passed"); err != nil {
			return err
		}
	}
	for _, f := range c.Failed {
		if err := mark(f.ID, "failed"); err != nil {
			return err
		}
	}
	if c.Next != nil && c.Next.Do == "" {
		return errors.New("claim.next.do is empty")
	}
	if c.Next != nil && c.Finished {
		return errors.New("claim has a next step and is finished")
	}
	return nil
}

// ParseClaim reads a claim given as JSON, as strictly as a record. It must
// name a next step or be finished.
func ParseClaim(data []byte) (Claim, error) {
	var c Claim
	if err := strict(data, &c); err != nil {
		return Claim{}, fmt.Errorf("claim: %w", err)
	}
	if err := c.valid(); err != nil {
		return Claim{}, err
	}
	if c.Next == nil && !c.Finished {
		return Claim{}, errors.New("claim: needs a next step, or finished")
	}
	return c.filled(), nil
}

// Hash names a record's bytes, as the next record's Prev does.
func Hash(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ChainError says which record of a chain can't be trusted.
type ChainError struct {
	Seq int // as the record says, or its place counted from 1
	Why string
}

func (e *ChainError) Error() string {
	return fmt.Sprintf("record %d: %s", e.Seq, e.Why)
}

// CheckChain checks a workspace's records, oldest first, from the newest that
// replaces a broken chain. The error is a *ChainError.
func CheckChain(encoded [][]byte) error {
	start := 0
	for i := len(encoded) - 1; i >= 0; i-- {
		if r, err := Decode(encoded[i]); err == nil && r.Broken != "" && r.Prev == "" && r.Seq == 1 {
			start = i
			break
		}
	}
	seq, prev := 0, ""
	for i, data := range encoded[start:] {
		r, err := Decode(data)
		if err != nil {
			return &ChainError{Seq: i + 1, Why: err.Error()}
		}
		if r.Seq != seq+1 {
			return &ChainError{Seq: r.Seq, Why: fmt.Sprintf("follows record %d: one is missing or out of order", seq)}
		}
		if r.Prev != prev {
			return &ChainError{Seq: r.Seq, Why: fmt.Sprintf("prev is %s, but the record before it is %s: it was edited", orNone(r.Prev), orNone(prev))}
		}
		seq, prev = r.Seq, Hash(data)
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
