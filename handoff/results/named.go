package results

import (
	"path"
	"regexp"
	"strings"
)

// NamedFile is a JUnit file that a command says it writes. Path is relative to where the command runs, and Printed are
// the tools whose printed results it stands for.
type NamedFile struct {
	Path    string
	Printed []string
}

const fileWord = `['"]?([^\s'";|&<>()$*?]+)`

// namers are the options that name a JUnit file; where needs is given, only beside it.
var namers = []struct {
	option, needs *regexp.Regexp
	printed       []string
}{
	{regexp.MustCompile(`--junit-?xml[= ]` + fileWord), nil, []string{"pytest"}},
	{regexp.MustCompile(`--junitfile[= ]` + fileWord), nil, []string{"go"}},
	{regexp.MustCompile(`--outputFile(?:\.junit)?[= ]` + fileWord), regexp.MustCompile(`--reporter[s]?[= ]['"]?junit`), nil},
	{regexp.MustCompile(`--test-reporter-destination[= ]` + fileWord), regexp.MustCompile(`--test-reporter[= ]['"]?junit`), []string{"node", "tap"}},
	{regexp.MustCompile(`\bJEST_JUNIT_OUTPUT_FILE=` + fileWord), nil, nil},
	{regexp.MustCompile(`(?:^|[\s'"=])([^\s'";|&<>()$*?]*nextest/[^\s'";|&<>()$*?]+\.xml)`), regexp.MustCompile(`\bnextest\b`), []string{"cargo"}},
}

var changesTo = regexp.MustCompile(`(?:^|[;&|(\n]\s*)cd\s+` + fileWord)

// Named gives the JUnit files that a command names, in the folder it runs in and in those that it changes to.
func Named(command string) (out []NamedFile) {
	folders := []string{"."}
	for _, m := range changesTo.FindAllStringSubmatch(command, -1) {
		folders = append(folders, m[1])
	}
	for _, n := range namers {
		if n.needs != nil && !n.needs.MatchString(command) {
			continue
		}
		for _, m := range n.option.FindAllStringSubmatch(command, -1) {
			for _, dir := range folders {
				if name := path.Join(dir, m[1]); !path.IsAbs(m[1]) && !path.IsAbs(dir) && name != ".." && !strings.HasPrefix(name, "../") && m[1] != "stdout" && m[1] != "stderr" {
					out = append(out, NamedFile{name, n.printed})
				}
			}
		}
	}
	return out
}

// ParseNamed is Parse for files that a command names: the tests are those of the files, and what was printed by tools
// other than those that wrote them.
func ParseNamed(output []byte, files map[string][]byte, printed []string, exit int, label string) (Set, error) {
	set, err := parseJUnit(files)
	set.Stopped = stoppedBy(output)
	if rest := recognise(output, exit, label, printed...); rest.Tool != "exit" {
		set.merge(rest)
	}
	return finish(set, exit, label), err
}
