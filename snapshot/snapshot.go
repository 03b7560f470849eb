// Package snapshot keeps working trees as git objects in bare repositories of
// its own, one per user repository, so that any moment of a workspace can be
// compared, printed and brought back, also after the user's repository was
// garbage collected or deleted, and with nothing but plain git.
//
// The user's repository is only ever read: its index, refs, configuration and
// objects stay as they are, and none of its hooks, filters or monitors runs.
// What a tree holds is defined by git itself: its id is the one that an
// isolated `git add -A && git write-tree` gives, with the paths of HEAD and of
// the user's index kept even where they are ignored.
//
// FORMAT.md describes the layout of the repositories and of a snapshot commit.
package snapshot

import (
	"errors"
	"time"
)

var (
	// ErrNotFound: no such snapshot, or no such path in it.
	ErrNotFound = errors.New("not found")
	// ErrAmbiguous: an id prefix fits several snapshots.
	ErrAmbiguous = errors.New("ambiguous")
	// ErrRefused: the directory is one that must not be a workspace's.
	ErrRefused = errors.New("refused")
	// ErrNotEmpty: the destination of a restore holds something already.
	ErrNotEmpty = errors.New("destination is not empty")
)

// Skip is something in the directory that a tree can't hold as it is, and why.
type Skip struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Snapshot is one captured moment of a workspace.
type Snapshot struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Commit  string    `json:"commit"`
	Tree    string    `json:"tree"`
	Head    string    `json:"head"`
	Branch  string    `json:"branch"`
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"`
	Handoff string    `json:"handoff"`
	Behind  int       `json:"behind"`
	Skipped []Skip    `json:"skipped"`

	Workspace string `json:"workspace"`
	Repo      string `json:"repo"`
	Message   string `json:"message,omitempty"`
	// Partial: something that belongs to the tree could not be read; Skipped
	// says what.
	Partial bool `json:"partial,omitempty"`
	// Nested identifies what is kept beside the tree, "" without any: the
	// content of nested repositories and of files opted in. It moves when one
	// of them does, which Tree doesn't.
	Nested string `json:"nested,omitempty"`
	// Operations in progress: merge, rebase, cherry-pick, revert, bisect.
	Operations []string `json:"operations,omitempty"`
	// Stashes are the commits of the stash, newest first.
	Stashes []string `json:"stashes,omitempty"`
	// Repositories are those within the directory.
	Repositories []Repository `json:"repositories,omitempty"`
	// Included counts the files that are kept although they are ignored.
	Included int `json:"included,omitempty"`
	// Session and Offset say how far the session's journal had got, in bytes.
	Session string `json:"session,omitempty"`
	Offset  uint64 `json:"offset,omitempty"`
}

// Repository is one within a workspace's directory, with its HEAD.
type Repository struct {
	Path   string `json:"path"`
	Head   string `json:"head"`
	Branch string `json:"branch"`
}

// State is what a directory holds now.
type State struct {
	Repo string
	Tree string
	Head string
	// Branch is "" where HEAD is detached or there is no repository.
	Branch string
	// Operations in progress: merge, rebase, cherry-pick, revert, bisect.
	Operations []string
	Skipped    []Skip
	Files      int
	Bytes      int64
	IsRepo     bool
	Partial    bool
	Nested     string
	// Inner identifies, by its path, what each nested repository holds.
	Inner map[string]string
}

// CaptureRequest asks for one snapshot. A zero At means now.
type CaptureRequest struct {
	Workspace, Dir, Reason, Message, Handoff string
	Behind                                   int
	At                                       time.Time
	// RecordTree, where given, is what Behind is counted against.
	RecordTree string
	// Include are globs, relative to Dir, of ignored files to keep.
	Include []string
	// Session and Offset are the journal's place.
	Session string
	Offset  uint64
}

// Change is one path that differs between two trees. Kind is one of added,
// modified, deleted, type and mode.
type Change struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	// From and To are the objects of the store, "" where there is none.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}
