package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"strings"
)

// loosely is how many copied objects are kept as single files; more are kept
// as the pack they came in.
const loosely = 200

// copyObjects copies into to what it lacks of ids, and returns those that from
// doesn't hold either.
func copyObjects(ctx context.Context, from, to git, ids []string) (map[string]bool, error) {
	want, err := lacking(ctx, to, ids)
	if err != nil || len(want) == 0 {
		return nil, err
	}
	gone, err := lacking(ctx, from, want)
	if err != nil {
		return nil, err
	}
	missing := map[string]bool{}
	for _, id := range gone {
		missing[id] = true
	}
	var list bytes.Buffer
	count := 0
	for _, id := range want {
		if !missing[id] {
			list.WriteString(id + "\n")
			count++
		}
	}
	if count == 0 {
		return missing, nil
	}
	pack, err := from.run(ctx, list.Bytes(), "pack-objects", "-q", "--stdout", "--threads=1")
	if err != nil {
		return nil, fmt.Errorf("copy objects: %w", err)
	}
	into := []string{"unpack-objects", "-q"}
	if count > loosely {
		into = []string{"index-pack", "--stdin"}
	}
	if _, err := to.run(ctx, pack, into...); err != nil {
		return nil, fmt.Errorf("copy objects: %w", err)
	}
	return missing, nil
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
