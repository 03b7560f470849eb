package handoff

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"perdure/handoff/results"
)

// resultGlobs are the result files that a check says it writes, relative to
// its directory: by its spec, or by its command.
func (s CheckSpec) resultGlobs() []string {
	if glob, ok := strings.CutPrefix(s.Results, "junit:"); ok {
		return []string{glob}
	}
	if s.Results != "" && s.Results != "auto" {
		return nil
	}
	var globs []string
	for _, f := range results.Named(s.Cmd) {
		globs = append(globs, f.Path)
	}
	return globs
}

// named tells whether the result files are named by the command alone.
func (c *run) named() bool { return !strings.HasPrefix(c.spec.Results, "junit:") }

// resultStamps are the result files as they are now.
func (c *run) resultStamps() map[string]fileStamp {
	if c.named() && c.spec.Printed {
		return nil
	}
	found := map[string]fileStamp{}
	for _, glob := range c.spec.resultGlobs() {
		for name, stamp := range stamps(c.dir, glob) {
			found[name] = stamp
		}
	}
	return found
}

// resultFiles reads the declared files that this run wrote. Those of an
// earlier run beside them are said: their tests are missing now.
func (c *run) resultFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	var old []string
	now := c.resultStamps()
	for _, name := range sortedStamps(now) {
		stamp := now[name]
		if before, ok := c.before[name]; ok && before == stamp {
			old = append(old, name)
			continue
		}
		if stamp.size > outputLimit {
			return nil, fmt.Errorf("%s is larger than %d MiB", name, outputLimit>>20)
		}
		data, err := os.ReadFile(filepath.Join(c.dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("result file: %w", err)
		}
		files[name] = data
	}
	if len(old) > 0 && len(files) > 0 {
		shown := old[:min(len(old), 3)]
		c.note(fmt.Sprintf("%d of %d result files are of an earlier run, and left out: %s", len(old), len(now), strings.Join(shown, ", ")))
	}
	return files, nil
}

func sortedStamps(all map[string]fileStamp) []string {
	names := map[string]string{}
	for name := range all {
		names[name] = ""
	}
	return sortedKeys(names)
}

// parseResults reads the results of the run, names of files within its
// directory relative to it: the same test has the same name in a checkout.
func (c *run) parseResults(output []byte, files map[string][]byte) (results.Set, error) {
	var set results.Set
	var err error
	if c.named() && len(files) > 0 {
		var printed []string
		for _, f := range results.Named(c.spec.Cmd) {
			if _, ok := files[f.Path]; ok {
				printed = append(printed, f.Printed...)
			}
		}
		set, err = results.ParseNamed(output, files, printed, c.result.Exit, c.spec.Label)
	} else {
		set, err = results.Parse(c.spec.Results, output, files, c.result.Exit, c.spec.Label)
	}
	for _, dir := range []string{c.dir, realPath(c.dir)} {
		for id, o := range set.Tests {
			if rel, ok := strings.CutPrefix(id, dir+"/"); ok && rel != "" {
				if _, taken := set.Tests[rel]; !taken {
					delete(set.Tests, id)
					set.Tests[rel] = o
				}
			}
		}
	}
	return set, err
}

func realPath(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// stale tells whether the run should have written a result file and wrote
// none. Where only the command names one, what it printed may serve.
func (c *run) stale(set results.Set, files map[string][]byte) bool {
	if len(files) > 0 {
		return false
	}
	return !c.named() || len(c.before) > 0 && set.Tool == "exit"
}
