package snapshot

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sort"
)

// Applied is what a restore in place did.
type Applied struct {
	Written, Deleted int
	// Notes say what was left as it is, and why.
	Notes []string
}

// Apply carries out a plan. A path that changed since it was made is left as
// it is, and said.
func (s *Store) Apply(ctx context.Context, p *Plan, progress func(done, total int)) (Applied, error) {
	var out Applied
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return out, fmt.Errorf("restore: %w", err)
	}
	defer root.Close()
	write := map[string]bool{}
	var modes, deletions []Step
	for _, step := range p.Steps {
		if step.Action == StepKeep {
			continue
		}
		if why := moved(root, step); why != "" {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: %s: left as it is", shown(step.Path), why))
			continue
		}
		switch step.Action {
		case StepDelete:
			deletions = append(deletions, step)
		case StepMode:
			modes = append(modes, step)
		default:
			write[step.Path] = true
		}
	}
	// Deletions first: a file may have to give way to a folder.
	for _, step := range deletions {
		if err := root.Remove(step.Path); err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: %v", shown(step.Path), err))
			continue
		}
		out.Deleted++
	}
	p.removeEmptied(root, deletions)
	hook("restore-deleted")
	r := &restorer{root: root, git: s.git(p.Snapshot.Repo), dirs: map[string]bool{}, opened: map[string]fs.FileMode{}, progress: progress}
	err = r.run(ctx, p.parts, RestoreOptions{Only: p.only, write: write})
	out.Written = int(r.count.Load())
	perms := p.perms()
	// The deepest first: a folder's mode may forbid the change of what is in it.
	sort.Slice(modes, func(a, b int) bool { return len(modes[a].Path) > len(modes[b].Path) })
	for _, step := range modes {
		if e := root.Chmod(step.Path, fileMode(perms[step.Path])); e != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: %v", shown(step.Path), e))
			continue
		}
		out.Written++
	}
	if err != nil {
		return out, fmt.Errorf("restore: %w", err)
	}
	return out, nil
}

func (p *Plan) perms() map[string]uint32 {
	out := map[string]uint32{}
	for _, part := range p.parts {
		for _, f := range part.files {
			out[path.Join(part.at, f.path)] = part.perm(f)
			for _, dir := range parents(f.path) {
				out[path.Join(part.at, dir)] = part.folderPerm(dir)
			}
		}
		for dir, perm := range part.dirs {
			out[path.Join(part.at, dir)] = perm
		}
	}
	return out
}

// moved says why a path is no longer as the plan saw it, "" if it is.
func moved(root *os.Root, step Step) string {
	st, err := rootStat(root, step.Path)
	switch {
	case step.was == fileStat{}:
		if err == nil && kindOf(st.Mode) != kindFolder {
			return "it was made meanwhile"
		}
	case err != nil:
		return "it went away meanwhile"
	case kindOf(st.Mode) == kindFolder && kindOf(step.was.Mode) == kindFolder:
	case st != step.was:
		return "it changed meanwhile"
	}
	return ""
}

// removeEmptied removes the folders that deletions left empty, unless the
// snapshot has them.
func (p *Plan) removeEmptied(root *os.Root, deletions []Step) {
	keep := map[string]bool{}
	for _, part := range p.parts {
		for dir := range part.dirs {
			keep[path.Join(part.at, dir)] = true
		}
		for dir := part.at; dir != "" && dir != "."; dir = path.Dir(dir) {
			keep[dir] = true
		}
	}
	for _, step := range deletions {
		for dir := path.Dir(step.Path); dir != "." && !keep[dir]; dir = path.Dir(dir) {
			if root.Remove(dir) != nil { // not empty
				break
			}
		}
	}
}
