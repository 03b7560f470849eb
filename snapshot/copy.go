package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
)

// copyObjects copies what the store lacks of ids out of the user's repository
// into the pack. It returns those that could not be had there, with the reason.
func (m *measurer) copyObjects(ctx context.Context, from git, ids []string) (missing map[string]string, err error) {
	missing = map[string]string{}
	var src *objects
	defer func() {
		if src != nil {
			src.close()
		}
	}()
	c := newCompressor()
	seen := map[string]bool{}
	for _, text := range ids {
		id, ok := parseID(text)
		if !ok || seen[text] || len(text) != 2*m.size {
			continue
		}
		seen[text] = true
		held, err := m.pack.has(id)
		if err != nil {
			return nil, err
		}
		if held {
			continue
		}
		if src == nil {
			if src, err = openObjects(ctx, from); err != nil {
				return nil, err
			}
		}
		if why, err := m.copyOne(c, src, text, id); err != nil {
			return nil, err
		} else if why != "" {
			missing[text] = why
			// An answer that broke off leaves the stream anywhere.
			src.close()
			src = nil
		}
	}
	return missing, ctx.Err()
}

// copyOne copies one object; why says what is wrong with it over there.
func (m *measurer) copyOne(c *compressor, src *objects, text string, id objectID) (why string, err error) {
	typ, size, err := src.ask(text)
	if errors.Is(err, errMissing) {
		return "not in the repository", nil
	}
	if err != nil {
		return cause(err), nil
	}
	if size > m.budget.perFile {
		return fmt.Sprintf("larger than the cap of %s per file", byteCount(m.budget.perFile)), nil
	}
	if size > inMemory && typ == typeBlob {
		if err := m.pack.stream(id, size, src.out); errors.Is(err, errChanged) {
			return "damaged", nil
		} else if err != nil {
			return "", err
		}
		return "", src.end()
	}
	var data bytes.Buffer
	if err := src.content(size, &data); err != nil {
		return cause(err), nil
	}
	got := objectHash(m.size, typ, size)
	got.Write(data.Bytes())
	if sumID(got) != id {
		return "damaged", nil
	}
	body, err := c.deflate(data.Bytes())
	if err != nil {
		return "", err
	}
	return "", m.pack.add(id, typ, size, body)
}

// lacking returns those of ids, each once, that g doesn't hold.
func lacking(ctx context.Context, g git, ids []string) ([]string, error) {
	seen := map[string]bool{}
	var list bytes.Buffer
	for _, id := range ids {
		if hexID(id) && !seen[id] {
			seen[id] = true
			list.WriteString(id + "\n")
		}
	}
	if len(seen) == 0 {
		return nil, nil
	}
	out, err := g.run(ctx, list.Bytes(), "cat-file", "--batch-check=%(objectname)")
	if err != nil {
		return nil, fmt.Errorf("look up objects: %w", err)
	}
	var missing []string
	for _, line := range strings.Split(string(out), "\n") {
		if id, ok := strings.CutSuffix(line, " missing"); ok {
			missing = append(missing, id)
		}
	}
	return missing, nil
}
