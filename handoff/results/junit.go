package results

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxDepth bounds nested suites; real files nest two or three deep.
const maxDepth = 64

// parseJUnit reads every file; one that isn't JUnit XML is an error, because
// its tests are unknown, not absent.
func parseJUnit(files map[string][]byte) (Set, error) {
	set := newSet("junit")
	if len(files) == 0 {
		set.Note = "no result file written now"
		return set, nil
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		if len(bytes.TrimSpace(files[name])) == 0 {
			set.Note = name + " is empty"
			continue
		}
		if err := (&junit{set: &set}).read(files[name]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return set, errors.Join(errs...)
}

type junitSuite struct {
	name   string
	broken int // failures and errors that the suite counts
	failed int // failures that its cases show
}

type junit struct {
	set    *Set
	suites []junitSuite
	id     string // of the open test case
	state  Outcome
}

func (j *junit) read(data []byte) error {
	d := xml.NewDecoder(bytes.NewReader(data))
	d.CharsetReader = latin
	seen := false
	depth := 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			if !seen {
				return errors.New("no test suite")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("not JUnit XML: %w", err)
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return errors.New("nested too deep")
			}
			if !seen && t.Name.Local != "testsuites" && t.Name.Local != "testsuite" {
				return fmt.Errorf("root element is %q, want testsuites", t.Name.Local)
			}
			seen = true
			j.open(t)
		case xml.EndElement:
			depth--
			j.close(t.Name.Local)
		}
	}
}

func attr(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (j *junit) open(t xml.StartElement) {
	switch t.Name.Local {
	case "testsuite":
		f, _ := strconv.Atoi(attr(t, "failures"))
		e, _ := strconv.Atoi(attr(t, "errors"))
		j.suites = append(j.suites, junitSuite{name: attr(t, "name"), broken: f + e})
	case "testcase":
		j.id = caseID(attr(t, "classname"), attr(t, "name"))
		j.state = Pass
	case "failure", "error", "rerunFailure", "rerunError":
		// A rerunFailure stands for a test that failed again when re-run.
		if j.id != "" {
			j.state = Fail
		} else if len(j.suites) > 0 {
			j.suites[len(j.suites)-1].broken++
		}
	case "skipped":
		if j.id != "" && j.state != Fail {
			j.state = Skip
		}
	}
}

// caseID is classname.name; a class that could not be set up has a case without a name.
func caseID(class, name string) string {
	class, name = clip(class), clip(name)
	if class == "" || name == "" {
		return class + name
	}
	return class + "." + name
}

func (j *junit) close(name string) {
	switch name {
	case "testcase":
		if j.id == "" {
			return
		}
		j.set.addNew(j.id, j.state)
		if j.state == Fail {
			for i := range j.suites {
				j.suites[i].failed++
			}
		}
		j.id = ""
	case "testsuite":
		if len(j.suites) == 0 {
			return
		}
		s := j.suites[len(j.suites)-1]
		j.suites = j.suites[:len(j.suites)-1]
		// A suite may count an error that no case shows (a collection error).
		if s.broken > 0 && s.failed == 0 {
			j.set.add(clip(s.name), Fail)
		}
	}
}

// latin reads ISO-8859-1, which older tools declare; others are refused.
func latin(label string, in io.Reader) (io.Reader, error) {
	switch strings.ToLower(label) {
	case "utf-8", "us-ascii":
		return in, nil
	case "iso-8859-1", "latin1", "windows-1252":
	default:
		return nil, fmt.Errorf("charset %q", label)
	}
	raw, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	out := make([]rune, len(raw))
	for i, b := range raw {
		out[i] = rune(b)
	}
	return strings.NewReader(string(out)), nil
}
