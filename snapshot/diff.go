package snapshot

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"sort"
	"strings"
)

// Diff compares two trees of one repository, path by path, without guessing
// renames. An empty id stands for the empty tree.
func (s *Store) Diff(ctx context.Context, repo, treeA, treeB string) ([]Change, error) {
	a, b, err := s.pair(ctx, repo, treeA, treeB)
	if err != nil {
		return nil, fmt.Errorf("diff: %w", err)
	}
	out, err := s.git(repo).run(ctx, nil, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", a, b)
	if err != nil {
		return nil, fmt.Errorf("diff: %w", err)
	}
	changes := []Change{}
	parts := fields(out)
	for i := 0; i+1 < len(parts); i += 2 {
		meta := strings.Fields(strings.TrimPrefix(parts[i], ":"))
		if len(meta) != 5 {
			return nil, fmt.Errorf("diff: unexpected record %q", parts[i])
		}
		changes = append(changes, Change{Path: parts[i+1], Kind: changeKind(meta), From: existing(meta[2]), To: existing(meta[3])})
	}
	return changes, nil
}

// existing is "" for the id that stands for none.
func existing(id string) string {
	if strings.Trim(id, "0") == "" {
		return ""
	}
	return id
}

// Content writes a file's bytes, by the id that a Change has of it, to w.
func (s *Store) Content(ctx context.Context, repo, id string, w io.Writer) error {
	if !repoID(repo) || !hexID(id) {
		return fmt.Errorf("object %q: %w", id, ErrNotFound)
	}
	if err := s.git(repo).stream(ctx, strings.NewReader(""), w, "cat-file", "blob", id); err != nil {
		return fmt.Errorf("object %s: %w", id, err)
	}
	return nil
}

func changeKind(meta []string) string {
	switch meta[4][0] {
	case 'A':
		return "added"
	case 'D':
		return "deleted"
	case 'T':
		return "type"
	}
	if meta[2] == meta[3] {
		return "mode"
	}
	return "modified"
}

// pair checks two tree ids and fills in the empty tree.
func (s *Store) pair(ctx context.Context, repo, a, b string) (string, string, error) {
	if !repoID(repo) {
		return "", "", fmt.Errorf("repository %q: %w", repo, ErrNotFound)
	}
	ids := [2]string{a, b}
	for i, id := range ids {
		if id == "" {
			empty, err := s.git(repo).line(ctx, nil, "mktree")
			if err != nil {
				return "", "", err
			}
			ids[i] = empty
			continue
		}
		if s.Has(ctx, repo, id) {
			continue
		}
		// The directory may have been another repository, or none, then.
		if !hexID(id) {
			return "", "", fmt.Errorf("tree %q: %w", id, ErrNotFound)
		}
		if found, err := s.bring(ctx, repo, id); err != nil {
			return "", "", err
		} else if !found {
			return "", "", fmt.Errorf("tree %q: %w", id, ErrNotFound)
		}
	}
	return ids[0], ids[1], nil
}

// Patch writes the difference of two trees as a patch; paths limit it.
func (s *Store) Patch(ctx context.Context, repo, treeA, treeB string, w io.Writer, paths ...string) error {
	a, b, err := s.pair(ctx, repo, treeA, treeB)
	if err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	args := []string{"diff-tree", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", a, b, "--"}
	if err := s.git(repo).stream(ctx, bytes.NewReader(nil), w, append(args, paths...)...); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	return nil
}

// ChangedSince lists the files that differ between a commit of the user's
// repository and a tree of the store. It is false where the commit is gone. A
// file that differs only by what git converts on checkout (line ends, large
// file pointers) is not edited.
func (s *Store) ChangedSince(ctx context.Context, dir, repo, baseCommit, tree string) ([]string, bool, error) {
	real, err := s.checkDir(dir)
	if err != nil {
		return nil, false, fmt.Errorf("changes since base: %w", err)
	}
	p, err := locate(ctx, real)
	if err != nil {
		return nil, false, fmt.Errorf("changes since base: %w", err)
	}
	if !p.isRepo() || !hexID(baseCommit) || len(baseCommit) != len(tree) {
		return nil, false, nil
	}
	spec := baseCommit + "^{tree}"
	if p.prefix != "" {
		spec = baseCommit + ":" + strings.TrimSuffix(p.prefix, "/")
		if _, err := p.user("").run(ctx, nil, "cat-file", "-e", baseCommit+"^{commit}"); err != nil {
			return nil, false, ctx.Err()
		}
	}
	was, err := p.user("").line(ctx, nil, "rev-parse", "--quiet", "--verify", "--end-of-options", spec)
	if err != nil && p.prefix == "" || ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	if was == tree {
		return []string{}, true, nil
	}
	base, now, ok := s.differing(ctx, repo, was, tree)
	if !ok {
		base, err = listTree(ctx, p.user(""), spec)
		if err != nil && p.prefix == "" {
			return nil, false, ctx.Err()
		}
		if now, err = listTree(ctx, s.git(repo), tree); err != nil {
			return nil, false, fmt.Errorf("changes since base: %w", err)
		}
	}
	changed, err := s.edited(ctx, p, repo, base, now)
	if err != nil {
		return nil, false, fmt.Errorf("changes since base: %w", err)
	}
	return changed, true, nil
}

// differing lists, of two trees, the files that aren't the same in both, by their paths. It is false where the store
// lacks one of them: most often it has the user's, which costs far less than listing both.
func (s *Store) differing(ctx context.Context, repo, a, b string) (was, now map[string]tracked, ok bool) {
	if !hexID(a) || !hexID(b) || !repoID(repo) {
		return nil, nil, false
	}
	out, err := s.git(repo).run(ctx, nil, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", a, b)
	if err != nil {
		return nil, nil, false
	}
	was, now = map[string]tracked{}, map[string]tracked{}
	parts := fields(out)
	for i := 0; i+1 < len(parts); i += 2 {
		meta := strings.Fields(strings.TrimPrefix(parts[i], ":"))
		if len(meta) != 5 {
			return nil, nil, false
		}
		for side, files := range []map[string]tracked{was, now} {
			if mode := meta[side]; strings.Trim(mode, "0") != "" {
				files[parts[i+1]] = tracked{mode: mode, oid: meta[side+2], path: parts[i+1]}
			}
		}
	}
	return was, now, true
}

// listTree lists a tree's files. --full-tree, as the user's repository is read
// from within its working tree.
func listTree(ctx context.Context, g git, spec string) (map[string]tracked, error) {
	g.work, g.cwd = "", ""
	out, err := g.run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", spec)
	if err != nil {
		return nil, err
	}
	files := map[string]tracked{}
	for _, line := range fields(out) {
		if t, ok := parseTree(line); ok {
			files[t.path] = t
		}
	}
	return files, nil
}

func (s *Store) edited(ctx context.Context, p place, repo string, base, now map[string]tracked) ([]string, error) {
	changed := []string{}
	var store *objects
	defer func() {
		if store != nil {
			store.close()
		}
	}()
	for path, b := range base {
		n, ok := now[path]
		if ok && n.mode == b.mode && n.oid == b.oid {
			continue
		}
		if ok && n.mode == b.mode && strings.HasPrefix(n.mode, "100") {
			var err error
			if store == nil {
				if store, err = openObjects(ctx, s.git(repo)); err != nil {
					return nil, err
				}
			}
			same, err := convertedSame(store, n.oid, b.oid)
			if err != nil {
				return nil, err
			}
			if same {
				continue
			}
		}
		changed = append(changed, path)
	}
	for path := range now {
		if _, ok := base[path]; !ok {
			changed = append(changed, path)
		}
	}
	sort.Strings(changed)
	return changed, ctx.Err()
}

// convertedSame tells whether a stored file, with CRLF made LF or as the
// pointer of a large file, is the blob that the user's repository has.
func convertedSame(store *objects, stored, blob string) (bool, error) {
	var content bytes.Buffer
	if _, err := store.copy(stored, &content); err != nil {
		return false, err
	}
	raw := content.Bytes()
	if bytes.Contains(raw, []byte("\r\n")) &&
		blobID(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")), len(blob)) == blob {
		return true, nil
	}
	sum := sha256.Sum256(raw)
	pointer := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n", sum, len(raw))
	return blobID([]byte(pointer), len(blob)) == blob, nil
}

func blobID(data []byte, hexLen int) string {
	var h hash.Hash = sha1.New()
	if hexLen == 64 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}
