package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// attributes turns off every conversion: what is stored is what is on disk.
const attributes = "* -text !eol -crlf -ident -filter !working-tree-encoding\n"

// Store is the folder that holds the snapshot repositories. It is safe for
// concurrent use, also by several processes.
type Store struct {
	// Limits bound what snapshots take in; set them before the first, or by SetLimits.
	Limits   Limits
	limitsMu sync.Mutex

	root  string
	state string // the folder above root, which no workspace may be or hold

	caches caches
	mu     sync.Mutex
	locks  map[string]chan struct{}
}

// Open makes the store's folder where it is missing. root is an absolute path;
// the folder above it counts as perdure's own, which is never captured.
func Open(root string) (*Store, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("snapshot store: %w", err)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("snapshot store: %w", err)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, fmt.Errorf("snapshot store: %w", err)
	}
	return &Store{Limits: DefaultLimits, root: root, state: filepath.Dir(root), locks: map[string]chan struct{}{}}, nil
}

// RepoPath is the bare git repository that holds the snapshots of repo.
func (s *Store) RepoPath(repo string) string {
	return filepath.Join(s.root, repo+".git")
}

func (s *Store) git(repo string) git { return git{dir: s.RepoPath(repo)} }

// checkDir returns the real path of a workspace's directory, or ErrRefused.
func (s *Store) checkDir(dir string) (string, error) {
	real, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("directory %q: %w", dir, err)
	}
	if real, err = filepath.EvalSymlinks(real); err != nil {
		return "", fmt.Errorf("directory %q: %w", dir, err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", fmt.Errorf("directory %q: %w", dir, err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("directory %q: not a directory", dir)
	}
	if real == "/" {
		return "", fmt.Errorf("directory %q: %w: it is the root of the file system", dir, ErrRefused)
	}
	if home, err := os.UserHomeDir(); err == nil {
		if home, err = filepath.EvalSymlinks(home); err == nil && home == real {
			return "", fmt.Errorf("directory %q: %w: it is the home folder", dir, ErrRefused)
		}
	}
	if real == s.state || within(s.root, real) {
		return "", fmt.Errorf("directory %q: %w: it is perdure's own state", dir, ErrRefused)
	}
	return real, nil
}

// within tells whether path is dir or lies below it.
func within(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// lock takes the named lock, in this process and among processes. Release it
// by the returned function.
func (s *Store) lock(ctx context.Context, name string) (func(), error) {
	s.mu.Lock()
	gate := s.locks[name]
	if gate == nil {
		gate = make(chan struct{}, 1)
		s.locks[name] = gate
	}
	s.mu.Unlock()
	select {
	case gate <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("lock of %s: %w", name, ctx.Err())
	}
	dir := filepath.Join(s.root, "locks")
	err := os.MkdirAll(dir, 0o700)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	}
	if err == nil {
		// A dead process's lock is released by the kernel: never stale.
		if err = flock(int(f.Fd())); err != nil {
			f.Close()
		}
	}
	if err != nil {
		<-gate
		return nil, fmt.Errorf("lock of %s: %w", name, err)
	}
	return func() { f.Close(); <-gate }, nil
}

// share takes the named lock together with others that share it: one that
// takes it alone has to wait for all of them, and they for it.
func (s *Store) share(ctx context.Context, name string) (func(), error) {
	return s.flockFile(ctx, name, unix.LOCK_SH)
}

// alone takes a lock that others share.
func (s *Store) alone(ctx context.Context, name string) (func(), error) {
	return s.flockFile(ctx, name, unix.LOCK_EX)
}

func (s *Store) flockFile(ctx context.Context, name string, how int) (func(), error) {
	dir := filepath.Join(s.root, "locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock of %s: %w", name, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of %s: %w", name, err)
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock of %s: %w", name, err)
		}
		select { // the kernel has no wait that a context can end
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock of %s: %w", name, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func flock(fd int) error {
	for {
		err := unix.Flock(fd, unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// ensure makes the bare repository where it is missing, whole or not at all.
func (s *Store) ensure(ctx context.Context, repo, format string) error {
	path := s.RepoPath(repo)
	if _, err := os.Stat(filepath.Join(path, "HEAD")); err == nil {
		return nil
	}
	unlock, err := s.lock(ctx, "repo."+repo)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(filepath.Join(path, "HEAD")); err == nil {
		return nil
	}
	temp, err := os.MkdirTemp(s.root, "new-*")
	if err != nil {
		return fmt.Errorf("make repository: %w", err)
	}
	defer os.RemoveAll(temp)
	g := git{cwd: temp}
	if _, err := g.run(ctx, nil, "init", "-q", "--bare", "--template=", "--object-format="+format, temp); err != nil {
		return fmt.Errorf("make repository: %w", err)
	}
	for _, d := range []string{"info", "perdure"} {
		if err := os.Mkdir(filepath.Join(temp, d), 0o700); err != nil && !os.IsExist(err) {
			return fmt.Errorf("make repository: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(temp, "info", "attributes"), []byte(attributes), 0o600); err != nil {
		return fmt.Errorf("make repository: %w", err)
	}
	if err := configure(filepath.Join(temp, "config")); err != nil {
		return fmt.Errorf("make repository: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("make repository: %w", err)
	}
	return syncDir(s.root)
}

// configure adds to a new repository's configuration what plain git needs in
// it: names are kept as they are on disk, old histories have mistakes that are
// not ours, and nothing is thrown away but by prune.
func configure(path string) error {
	text := "[core]\n\tprotectNTFS = false\n\tprotectHFS = false\n\tlogAllRefUpdates = false\n[tar]\n\tumask = 0022\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[fsck]\n"
	for _, id := range []string{"hasDotgit", "zeroPaddedFilemode", "missingEmail", "missingNameBeforeEmail", "missingSpaceBeforeEmail", "missingSpaceBeforeDate",
		"badEmail", "badName", "badDate", "badDateOverflow", "badTimezone", "zeroPaddedDate", "multipleAuthors", "nulInCommit", "nullSha1", "gitmodulesBlob", "gitmodulesLarge", "gitmodulesName",
		"gitmodulesParse", "gitmodulesPath", "gitmodulesSymlink", "gitmodulesUpdate", "gitmodulesUrl", "gitattributesSymlink", "gitattributesLarge", "gitattributesLineLength", "gitattributesBlob", "gitignoreSymlink", "mailmapSymlink"} {
		text += "\t" + id + " = ignore\n"
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// repos lists the ids of the snapshot repositories.
func (s *Store) repos() ([]string, error) {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return nil, fmt.Errorf("snapshot store: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".git"); ok && e.IsDir() && id != ledgerID {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Has tells whether the repository holds the object.
func (s *Store) Has(ctx context.Context, repo, object string) bool {
	if !hexID(object) || !repoID(repo) {
		return false
	}
	_, err := s.git(repo).run(ctx, nil, "cat-file", "-e", object)
	return err == nil
}

// hexID keeps anything but an object id away from git's revision parser.
func hexID(id string) bool {
	if len(id) != 40 && len(id) != 64 {
		return false
	}
	_, err := hex.DecodeString(id)
	return err == nil
}

func repoID(id string) bool {
	return id != "" && !strings.ContainsAny(id, "/\x00") && id[0] != '.' && id[0] != '-'
}

func hashID(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:10])
}

// refPart makes any text one component of a ref name; ordinary names stay as
// they are.
func refPart(text string) (string, error) {
	if text == "" || len(text) > 200 {
		return "", fmt.Errorf("name %q: must have 1 to 200 bytes", text)
	}
	odd := strings.HasPrefix(text, ".") || strings.HasSuffix(text, ".") ||
		strings.Contains(text, "..") || strings.Contains(text, ".lock")
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == '_' || c == '-' && i > 0 || c == '.' && !odd
		if plain {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String(), nil
}

func unrefPart(part string) string {
	text, err := url.PathUnescape(part)
	if err != nil {
		return part
	}
	return text
}
