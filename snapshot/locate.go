package snapshot

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// place is where a directory stands: in which repository, and where in it.
type place struct {
	dir    string // the workspace's directory, real path
	top    string // root of the working tree; dir itself without a repository
	prefix string // dir below top, "" or ending in a slash
	gitDir string // "" without a repository
	common string
	format string // sha1 or sha256
	head   string // commit id, "" if unborn
	branch string
	// broken says why a .git that is there could not be used.
	broken string
}

func (p place) isRepo() bool { return p.gitDir != "" }

// user is the user's repository, for reading only.
func (p place) user(excludes string) git {
	return git{dir: p.gitDir, work: p.top, cwd: p.top, excludes: excludes}
}

// id names the snapshot repository: linked worktrees of one repository share
// it. The format is part of it, as a repository can be made anew with another.
func (p place) id() string {
	if !p.isRepo() {
		return hashID("dir\x00" + p.dir)
	}
	if p.format == "sha1" {
		return hashID("git\x00" + p.common)
	}
	return hashID("git\x00" + p.format + "\x00" + p.common)
}

// locate never fails for what a repository is like: a broken one leaves the
// directory's files, which are what matters.
func locate(ctx context.Context, dir string) (place, error) {
	bare := place{dir: dir, top: dir, format: "sha1"}
	g := git{cwd: dir}
	out, err := g.line(ctx, nil, "rev-parse", "--show-object-format", "--absolute-git-dir",
		"--path-format=absolute", "--git-common-dir", "--show-toplevel")
	if ctx.Err() != nil {
		return bare, ctx.Err()
	}
	if err != nil {
		if _, missing := os.Stat(filepath.Join(dir, ".git")); missing == nil {
			bare.broken = brokenWhy(err)
		}
		if _, gone := exec.LookPath("git"); gone != nil {
			return bare, fmt.Errorf("snapshots need git: %w", gone)
		}
		return bare, nil
	}
	lines := strings.Split(out, "\n")
	if len(lines) != 4 {
		return bare, fmt.Errorf("directory %q: %w: a newline in the path of its repository", dir, ErrRefused)
	}
	p := place{dir: dir, format: lines[0], gitDir: lines[1], common: lines[2], top: lines[3]}
	if real, err := filepath.EvalSymlinks(p.common); err == nil {
		p.common = real
	}
	if !within(p.top, dir) || within(p.gitDir, dir) {
		return bare, nil
	}
	if dir != p.top {
		p.prefix = strings.TrimPrefix(dir, strings.TrimSuffix(p.top, "/")+"/") + "/"
	}
	return p, p.readHead(ctx)
}

func brokenWhy(err error) string {
	why := err.Error()
	if i := strings.Index(why, "fatal: "); i >= 0 {
		why = why[i+len("fatal: "):]
	}
	return "repository can't be used: " + strings.ToValidUTF8(strings.SplitN(why, "\n", 2)[0], "?")
}

// readHead finds HEAD's commit and branch: by reading the files, where they are
// plain; else git is asked.
func (p *place) readHead(ctx context.Context) error {
	if p.plainHead() {
		return nil
	}
	g := p.user("")
	if head, err := g.line(ctx, nil, "rev-parse", "-q", "--verify", "HEAD"); err == nil {
		p.head = head
	}
	if ref, err := g.line(ctx, nil, "symbolic-ref", "-q", "HEAD"); err == nil {
		p.branch = strings.TrimPrefix(ref, "refs/heads/")
	}
	return ctx.Err()
}

// plainHead reads HEAD and a loose branch. It is false for whatever else there
// is: packed refs, other formats of refs, a damaged file.
func (p *place) plainHead() bool {
	text, err := os.ReadFile(filepath.Join(p.gitDir, "HEAD"))
	if err != nil {
		return false
	}
	head := strings.TrimSuffix(string(text), "\n")
	ref, symbolic := strings.CutPrefix(head, "ref: refs/heads/")
	if !symbolic {
		if hexID(head) && len(head) == 2*idSize(p.format) {
			p.head = head
			return true
		}
		return false
	}
	if !filepath.IsLocal(ref) || strings.ContainsAny(ref, " \n") {
		return false
	}
	text, err = os.ReadFile(filepath.Join(p.common, "refs", "heads", ref))
	if err != nil {
		return false
	}
	if head = strings.TrimSuffix(string(text), "\n"); !hexID(head) || len(head) != 2*idSize(p.format) {
		return false
	}
	p.head, p.branch = head, ref
	return true
}

// ignoredWhole tells whether an enclosing repository ignores the directory as
// a whole (a home folder under git, say): then it isn't this directory's.
func (p place) ignoredWhole(ctx context.Context, excludes string) bool {
	if p.prefix == "" {
		return false
	}
	g := p.user(excludes)
	g.magic = true // check-ignore knows no literal pathspecs
	_, err := g.run(ctx, nil, "check-ignore", "-q", "./"+strings.TrimSuffix(p.prefix, "/"))
	return err == nil
}

// excludeRules gathers what the user ignores outside of .gitignore files, in
// git's order of precedence: the later line wins, so the repository's own last.
func (p place) excludeRules(ctx context.Context) []byte {
	var rules []byte
	add := func(path string) {
		if text, err := os.ReadFile(path); err == nil {
			rules = append(append(rules, text...), '\n')
		}
	}
	if path := globalExcludes(ctx, p); path != "" {
		add(path)
	}
	if p.isRepo() {
		add(filepath.Join(p.common, "info", "exclude"))
	}
	return rules
}

// globalExcludes reads core.excludesFile as the user's git would. Reading a
// value runs nothing, so here the user's own configuration is let in.
func globalExcludes(ctx context.Context, p place) string {
	cmd := exec.CommandContext(ctx, "git", "config", "--includes", "--type=path", "-z", "--get", "core.excludesFile")
	cmd.Dir = p.top
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0"}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	if p.isRepo() {
		cmd.Env = append(cmd.Env, "GIT_DIR="+p.gitDir)
	}
	if out, err := cmd.Output(); err == nil {
		path := strings.TrimSuffix(string(out), "\x00")
		if path != "" && !filepath.IsAbs(path) {
			path = filepath.Join(p.top, path)
		}
		return path
	}
	if base := os.Getenv("XDG_CONFIG_HOME"); base != "" {
		return filepath.Join(base, "git", "ignore")
	}
	if home := os.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".config", "git", "ignore")
	}
	return ""
}
