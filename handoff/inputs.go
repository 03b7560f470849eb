package handoff

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"perdure/handoff/trace"
)

// Bounds of a run's inputs: how many are kept, and how large one may be.
const (
	maxInputs     = 200
	maxInputBytes = 16 << 20
)

// takeInputs keeps, of the files that the check opened and that are no part of the tree's content, what they held: the
// results may change with them, and no tree shows it. Only hashes are kept, for they may hold secrets.
func (c *run) takeInputs() {
	if c.Content == nil || len(c.Key) == 0 {
		return
	}
	c.result.Inputs = map[string]string{}
	names := []string{}
	for name := range c.result.seen.Opened {
		if utf8.ValidString(name) && c.input(name) { // a record is text
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), maxInputs)] {
		if sum, ok := hashInput(c.Key, c.Dir, name); ok {
			c.result.Inputs[name] = sum
		}
	}
}

// input tells whether an opened file decides results from outside of the tree: what the run wrote itself doesn't.
func (c *run) input(name string) bool {
	if c.Content[name] && !leadsOut(c.Dir, name) || trace.Cache(name) {
		return false
	}
	return c.older(name) && !c.inner(name)
}

// leadsOut tells of a symbolic link that its file is outside of the tree.
func leadsOut(root, name string) bool {
	info, err := os.Lstat(filepath.Join(root, name))
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		return false
	}
	return !trace.Within(root, filepath.Join(root, name))
}

// keyedInput begins the hash of an input: an HMAC by a key of this store's, so that a record can be shown and exported
// without telling what a short secret is. sha256Input is how older records have it, without a key.
const (
	keyedInput  = "hmac-sha256:"
	sha256Input = "sha256:"
)

// inputHash is the hash that names what a file of this path holds; the path is hashed too, so that equal secrets of two
// files don't look equal.
func inputHash(key []byte, name string, content io.Reader) (string, error) {
	h, prefix := sha256.New(), sha256Input
	if len(key) > 0 {
		h, prefix = hmac.New(sha256.New, key), keyedInput+keyID(key)+":"
	}
	fmt.Fprintf(h, "%s\x00", name)
	if _, err := io.Copy(h, content); err != nil {
		return "", err
	}
	return prefix + hex.EncodeToString(h.Sum(nil)), nil
}

// keyID tells by which key a hash was made: those of another can't be compared.
func keyID(key []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("perdure input key"))
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// hashInput names what a file holds; false if it can't be read, or is too large.
func hashInput(key []byte, root, name string) (string, bool) {
	f, err := os.Open(filepath.Join(root, name))
	if err != nil {
		return "", false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxInputBytes {
		return "", false
	}
	sum, err := inputHash(key, name, f)
	return sum, err == nil
}

// inputNow hashes a file as a recorded hash was made. Where the key of that one is gone, there is no answer.
func (v *verifier) inputNow(was, name string) (string, bool) {
	key := v.Runner.Key
	switch {
	case strings.HasPrefix(was, sha256Input):
		key = nil
	case len(key) == 0 || !strings.HasPrefix(was, keyedInput+keyID(key)+":"):
		return "", false
	}
	return hashInput(key, v.Runner.Dir, name)
}

var inputForm = regexp.MustCompile(`^(sha256:|hmac-sha256:[0-9a-f]{8}:)[0-9a-f]{64}$`)

// validInputs checks the inputs of a decoded run.
func validInputs(inputs map[string]string) error {
	if len(inputs) > maxInputs {
		return fmt.Errorf("%d inputs, want at most %d", len(inputs), maxInputs)
	}
	for name, sum := range inputs {
		if !inputForm.MatchString(sum) {
			return fmt.Errorf("inputs: %q is %q, want hmac-sha256: with 8 and 64 hexadecimal digits, or sha256: with 64", name, sum)
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("inputs: %q is no path within the tree", name)
		}
	}
	return nil
}

// inputs notes what changed of the files that a check opens beside the tree. Results decide; this may be why they differ.
func (v *verifier) inputs(m measuredCheck) {
	if m.recorded == nil || m.recorded.Inputs == nil || m.run.Inputs == nil {
		return
	}
	changed := map[string]string{}
	for name, was := range m.recorded.Inputs {
		_, err := os.Stat(filepath.Join(v.Runner.Dir, name))
		now, ok := v.inputNow(was, name)
		switch {
		case ok && now != was:
			changed[name] = "changed"
		case os.IsNotExist(err) && v.Runner.Dir == v.Dir:
			changed[name] = "gone"
		}
	}
	for name := range m.run.Inputs {
		if _, known := m.recorded.Inputs[name]; !known && v.writtenSince(name) {
			changed[name] = "new"
		}
	}
	note := "no part of the tree, and opened by the check: its results are as recorded"
	if m.run.Problem != "" || len(v.differing(m)) > 0 {
		note = "no part of the tree, and opened by the check: its results may differ for this"
	}
	for _, name := range sortedKeys(changed) {
		v.find(Note, name, "", changed[name], note)
	}
}

// writtenSince tells whether a file was written after the record was measured.
func (v *verifier) writtenSince(name string) bool {
	info, err := os.Stat(filepath.Join(v.Runner.Dir, name))
	return err == nil && changeTime(info).After(v.Record.Measured.At)
}
