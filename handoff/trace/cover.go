package trace

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// maxLine bounds a line of a profile.
const maxLine = 1 << 20

// Coverage is which files of a profile have lines that ran.
type Coverage map[string]bool

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
	return nil, errors.New("not a coverage profile in Go's, lcov's or Cobertura's form")
}

// Ran tells of a file, relative to the tree, whether the profile knows it, and whether a line of it ran. Profiles name
// files by import path, absolute, or relative to some folder: the longest common end decides.
func (c Coverage) Ran(file string) (ran, known bool) {
	best := 0
	for name, hit := range c {
		n := commonEnd(file, name)
		if n == 0 || n < best || n < len(strings.Split(file, "/")) && n < len(strings.Split(name, "/")) {
			continue
		}
		if n > best {
			ran = false
		}
		best, known, ran = n, true, ran || hit
	}
	return ran, known
}

// commonEnd counts the path elements that two names end with.
func commonEnd(a, b string) int {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	n := 0
	for n < len(x) && n < len(y) && x[len(x)-1-n] == y[len(y)-1-n] {
		n++
	}
	return n
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
	c := Coverage{}
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
	file = path.Clean(strings.ReplaceAll(file, `\`, "/"))
	c[file] = c[file] || err == nil && n > 0
}

func lcov(data []byte) (Coverage, error) {
	c, file := Coverage{}, ""
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
	c, file := Coverage{}, ""
	d := xml.NewDecoder(bytes.NewReader(data))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not a Cobertura file: %w", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch attr := attributes(start); start.Name.Local {
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
