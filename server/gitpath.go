package server

import (
	"slices"
	"strings"

	"github.com/google/shlex"
)

// gitServices are what git runs at the far end (gitprotocol-pack(5)).
var gitServices = []string{"git-upload-pack", "git-receive-pack", "git-upload-archive"}

// gitPath has `ssh://NAME@box:2222/./` mean the workspace's directory. Such an address can only name absolute paths,
// and `/./` is one that nobody means; what follows it is relative. Any other command is as it was.
func gitPath(command string) string {
	words, err := shlex.Split(command)
	if err != nil || len(words) != 2 || !slices.Contains(gitServices, words[0]) {
		return command
	}
	if words[1] != "/." && !strings.HasPrefix(words[1], "/./") {
		return command
	}
	return words[0] + " " + quote("."+strings.TrimPrefix(words[1], "/."))
}
