package server

import "testing"

func TestGitPathIsTheWorkspaces(t *testing.T) {
	for in, want := range map[string]string{
		`git-upload-pack '/./'`:              `git-upload-pack './'`,
		`git-receive-pack '/./sub dir/it'`:   `git-receive-pack './sub dir/it'`,
		`git-upload-archive '/.'`:            `git-upload-archive '.'`,
		`git-upload-pack '/srv/x'`:           `git-upload-pack '/srv/x'`,
		`git-upload-pack '/.hidden'`:         `git-upload-pack '/.hidden'`,
		`git-upload-pack '/./'; rm -rf x`:    `git-upload-pack '/./'; rm -rf x`,
		`echo '/./'`:                         `echo '/./'`,
		`git-upload-pack '/./it'\''s; true'`: `git-upload-pack './it'\''s; true'`,
	} {
		if got := gitPath(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
