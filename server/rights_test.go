package server

import (
	"context"
	"errors"
	"testing"

	gossh "golang.org/x/crypto/ssh"
)

// What the key's options say about workspaces holds for every way in.
func TestRightsOfAKeyInWorkspaces(t *testing.T) {
	d := openDoor(t, coreFunc(func(_ context.Context, r *Request) Exit {
		if r.Rights.check(r) != nil {
			return Exit{Status: statusRefused}
		}
		return Exit{}
	}), nil)
	for options, want := range map[string][]int{
		// exec in auth, in docs-2, in other, of perdure; relay of auth, of other, of none
		"":                                 {0, 0, 0, 0, 0, 0, 0},
		`perdure-workspaces="auth,docs-*"`: {0, 0, 4, 4, 0, 4, 4},
		`PERDURE-workspaces=" auth "`:      {0, 4, 4, 4, 0, 4, 4},
		"perdure-no-commands":              {4, 4, 4, 4, 0, 0, 0},
		"perdure-read-only":                {4, 4, 4, 4, 0, 0, 0},
		`perdure-read-only,perdure-workspaces="auth"`: {4, 4, 4, 4, 0, 4, 4},
	} {
		key := newTestKey(t)
		d.authorize(key.line(options))
		got := make([]int, 0, len(want))
		for _, ask := range [][2]string{
			{"auth", "id"}, {"docs-2", "id"}, {"other", "id"}, {"perdure", "ls"},
			{"auth", "perdure relay auth"}, {"auth", "perdure relay other"}, {"auth", "perdure relay"},
		} {
			_, err := run(t, d.enter(ask[0], key), ask[1])
			var exit *gossh.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if err == nil {
				got = append(got, 0)
				continue
			}
			got = append(got, exit.ExitStatus())
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", options, got, want)
				break
			}
		}
	}
	for _, options := range []string{`perdure-workspaces=""`, `perdure-workspaces="a,,b"`, `perdure-workspaces="[a"`, "perdure-workspaces",
		`perdure-workspaces="a",perdure-workspaces="b"`, `perdure-read-only="no"`, "perdure-owner"} {
		key := newTestKey(t)
		d.authorize(key.line(options))
		if c, err := d.dial("auth", key); err == nil {
			c.Close()
			t.Error(options, "was believed")
		}
	}
}

// One who only watches forwards nothing, whatever else the line says; nor does one who is held to workspaces reach
// sockets, since the server's own would let them out.
func TestRightsAndForwards(t *testing.T) {
	for _, options := range [][]string{{"perdure-read-only"}, {"restrict", "perdure-read-only", "port-forwarding"}, {"perdure-no-commands"}, {`perdure-workspaces="a"`}} {
		g, err := parseGrant(options)
		check(t, err)
		id := &identity{rights: g.rights, forward: g.forward}
		if id.forward.mayUnix(id) || (g.rights.readOnly && (id.forward.mayOpen("h", 1) || id.forward.mayListen("localhost", 1))) {
			t.Error(options)
		}
	}
}
