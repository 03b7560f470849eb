package trace

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxLine bounds a line of a profile.
const maxLine = 1 << 20

// Coverage is which files of a profile have lines that ran, by the names that the profile has.
type Coverage struct {
	ran     map[string]bool
	modules bool     // names are import paths, as in Go's form
	sources []string // folders that the names are relative to, where the profile says so
}

// Profile reads a coverage profile in Go's, lcov's or Cobertura's form.
func Profile(data []byte) (Coverage, error) {
	trimmed := bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(trimmed, []byte("mode: ")):
		return goProfile(trimmed)
	case bytes.HasPrefix(trimmed, []byte("<")):
		return cobertura(trimmed)
	case bytes.HasPrefix(trimmed, []byte("TN:")), bytes.HasPrefix(trimmed, []byte("SF:")):
		return lcov(trimmed)
	}
	return Coverage{}, errors.New("not a coverage profile in Go's, lcov's or Cobertura's form")
}

// Files gives, by path relative to the tree at root, whether a line ran. Profiles name files by import path, absolute,
// or relative to some folder; dirs are the folders by import path, and at the absolute folders that names may be
// relative to. A name that is none of the tree's files, or may be several, is left out.
func (c Coverage) Files(root string, dirs map[string]string, at ...string) map[string]bool {
	out := map[string]bool{}
	for name, hit := range c.ran {
		if file, ok := c.file(name, root, dirs, at); ok {
			out[file] = out[file] || hit
		}
	}
	return out
}

// Packages are the import paths that a profile in Go's form names.
func (c Coverage) Packages() []string {
	seen := map[string]bool{}
	for name := range c.ran {
		if c.modules && !path.IsAbs(name) && !strings.HasPrefix(name, "./") {
			seen[path.Dir(name)] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func (c Coverage) file(name, root string, dirs map[string]string, at []string) (string, bool) {
	var may []string
	switch {
	case path.IsAbs(name):
		may = []string{name}
	case c.modules && !strings.HasPrefix(name, "./"):
		// Only go's own name counts: another package may have a file of the same name.
		dir, ok := dirs[path.Dir(name)]
		if !ok {
			return "", false
		}
		may = []string{filepath.Join(root, dir, path.Base(name))}
	default:
		for _, dir := range append(slices.Clone(c.sources), at...) {
			if filepath.IsAbs(dir) {
				may = append(may, filepath.Join(dir, name))
			}
		}
	}
	found := map[string]bool{}
	for _, file := range may {
		rel, err := filepath.Rel(root, file)
		if info, serr := os.Lstat(file); err == nil && filepath.IsLocal(rel) && serr == nil && info.Mode().IsRegular() {
			found[rel] = true
		}
	}
	if len(found) != 1 {
		return "", false
	}
	for rel := range found {
		name = rel
	}
	return name, true
}

// goLine is FILE:L.C,L.C STATEMENTS COUNT, as golang.org/x/tools/cover has it.
var goLine = regexp.MustCompile(`^(.+):\d+\.\d+,\d+\.\d+ (\d+) (\d+)$`)

func lines(data []byte, each func(string) error) error {
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, maxLine)
	for sc.Scan() {
		if err := each(strings.TrimSpace(sc.Text())); err != nil {
			return err
		}
	}
	return sc.Err()
}

func goProfile(data []byte) (Coverage, error) {
	c := Coverage{ran: map[string]bool{}, modules: true}
	err := lines(data, func(line string) error {
		if line == "" || strings.HasPrefix(line, "mode: ") {
			return nil
		}
		m := goLine.FindStringSubmatch(line)
		if m == nil {
			return fmt.Errorf("not a line of a Go profile: %q", line)
		}
		c.see(m[1], m[3])
		return nil
	})
	return c, err
}

func (c Coverage) see(file, count string) {
	n, err := strconv.ParseUint(count, 10, 64)
	file = strings.ReplaceAll(file, `\`, "/")
	if !strings.HasPrefix(file, "./") {
		file = path.Clean(file)
	}
	c.ran[file] = c.ran[file] || err == nil && n > 0
}

func lcov(data []byte) (Coverage, error) {
	c, file := Coverage{ran: map[string]bool{}}, ""
	err := lines(data, func(line string) error {
		if name, ok := strings.CutPrefix(line, "SF:"); ok {
			file = name
			c.see(file, "0")
		}
		if text, ok := strings.CutPrefix(line, "DA:"); ok {
			parts := strings.Split(text, ",")
			if file == "" || len(parts) < 2 {
				return fmt.Errorf("not a line of an lcov file: %q", line)
			}
			c.see(file, parts[1])
		}
		if line == "end_of_record" {
			file = ""
		}
		return nil
	})
	return c, err
}

func cobertura(data []byte) (Coverage, error) {
	c, file := Coverage{ran: map[string]bool{}}, ""
	d := xml.NewDecoder(bytes.NewReader(data))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Coverage{}, fmt.Errorf("not a Cobertura file: %w", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch attr := attributes(start); start.Name.Local {
		case "source":
			var dir string
			if d.DecodeElement(&dir, &start) == nil {
				c.sources = append(c.sources, strings.TrimSpace(dir))
			}
		case "class":
			file = attr["filename"]
			if file != "" {
				c.see(file, "0")
			}
		case "line":
			if file != "" {
				c.see(file, attr["hits"])
			}
		}
	}
	return c, nil
}

func attributes(e xml.StartElement) map[string]string {
	out := map[string]string{}
	for _, a := range e.Attr {
		out[a.Name.Local] = a.Value
	}
	return out
}
