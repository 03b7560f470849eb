package snapshot

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/zlib"
)

// What makes it worth while to link the user's objects instead of writing our own.
const (
	adoptLoose = 20000 // single objects, at most
	// adoptRatio bounds the packs by the bytes of the files to be read: a long
	// history is not taken in for the sake of one tree.
	adoptRatio = 4
)

// adoptFrom is how many files there have to be to read at least.
var adoptFrom = 5000

// adopt links the objects of the user's repository into the store, where there
// is much to be read and most of it may be there. Links are as good as copies:
// what the user's git removes later stays here. Each pack and each object is
// checked against its own checksum first, and where anything is odd (a partial
// clone, another file system, damage) nothing is linked.
func (j *making) adopt(ctx context.Context, jobs []job) {
	p := j.place
	if len(jobs) < adoptFrom || !p.isRepo() || idSize(p.format) != j.size {
		return
	}
	var bytes int64
	for _, job := range jobs {
		bytes += job.e.st.Size
	}
	dirs, err := objectDirs(filepath.Join(p.common, "objects"))
	if err != nil {
		return
	}
	a := &adoption{size: j.size, to: filepath.Join(j.store.dir, "objects"), left: adoptRatio*bytes + 1<<20}
	for _, dir := range dirs {
		if err := a.list(dir); err != nil {
			return
		}
	}
	if a.link(ctx) != nil {
		return
	}
	if text, err := os.ReadFile(filepath.Join(p.common, "shallow")); err == nil {
		j.shallow = strings.Fields(string(text))
	}
	j.pack.forget()
}

// objectDirs are a repository's objects folder and those that it borrows from.
func objectDirs(dir string) ([]string, error) {
	dirs := []string{dir}
	for i := 0; i < len(dirs); i++ {
		text, err := os.ReadFile(filepath.Join(dirs[i], "info", "alternates"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if strings.HasPrefix(line, "\"") || len(dirs) > 5 {
				return nil, fmt.Errorf("alternates of %s: %w", dirs[i], errors.ErrUnsupported)
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(dirs[i], line)
			}
			dirs = append(dirs, line)
		}
	}
	return dirs, nil
}

// adoption is what is to be linked.
type adoption struct {
	size  int
	to    string
	left  int64 // bytes of packs that may be taken yet
	packs []string
	loose []string
}

var errOdd = errors.New("not a repository to link from")

func (a *adoption) list(dir string) error {
	packs, err := filepath.Glob(filepath.Join(dir, "pack", "*"))
	if err != nil {
		return err
	}
	for _, path := range packs {
		switch filepath.Ext(path) {
		case ".promisor":
			return errOdd
		case ".pack":
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if a.left -= info.Size(); a.left < 0 {
				return errOdd
			}
			a.packs = append(a.packs, strings.TrimSuffix(path, ".pack"))
		}
	}
	loose, err := filepath.Glob(filepath.Join(dir, "[0-9a-f][0-9a-f]", "*"))
	if err != nil {
		return err
	}
	for _, path := range loose {
		if !strings.HasPrefix(filepath.Base(path), "tmp_obj") {
			a.loose = append(a.loose, path)
		}
	}
	if len(a.loose) > adoptLoose {
		return errOdd
	}
	return nil
}

// link checks all that was listed, and only then links it: indexes last, as
// git takes a pack to be there once its index is.
func (a *adoption) link(ctx context.Context) error {
	var bad atomic.Bool
	parallel(len(a.packs)+len(a.loose), func() func(int) {
		return func(i int) {
			if bad.Load() || ctx.Err() != nil {
				return
			}
			var err error
			if i < len(a.packs) {
				err = a.checkPack(a.packs[i])
			} else {
				err = a.checkLoose(a.loose[i-len(a.packs)])
			}
			if err != nil {
				bad.Store(true)
			}
		}
	})
	if bad.Load() {
		return errOdd
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, path := range a.loose {
		if err := linkInto(path, filepath.Join(a.to, filepath.Base(filepath.Dir(path)))); err != nil {
			return err
		}
	}
	for _, ext := range []string{".pack", ".idx"} {
		for _, base := range a.packs {
			if err := linkInto(base+ext, filepath.Join(a.to, "pack")); err != nil {
				return err
			}
		}
	}
	return syncDir(filepath.Join(a.to, "pack"))
}

func linkInto(path, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	err := os.Link(path, filepath.Join(dir, filepath.Base(path)))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// checkPack compares a pack with the checksum at its end, and looks at its index.
func (a *adoption) checkPack(base string) error {
	if _, err := readPackIDs(base+".idx", a.size); err != nil {
		return err
	}
	f, err := os.Open(base + ".pack")
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < int64(a.size)+12 {
		return errOdd
	}
	h := newHash(a.size)
	if _, err := io.CopyBuffer(onlyWriter{h}, io.LimitReader(f, info.Size()-int64(a.size)), make([]byte, 256<<10)); err != nil {
		return err
	}
	sum := make([]byte, a.size)
	if _, err := io.ReadFull(f, sum); err != nil || !bytes.Equal(sum, h.Sum(nil)) {
		return errOdd
	}
	return nil
}

// checkLoose compares an object with its name.
func (a *adoption) checkLoose(path string) error {
	want := filepath.Base(filepath.Dir(path)) + filepath.Base(path)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zlib.NewReader(f)
	if err != nil {
		return err
	}
	h := newHash(a.size)
	if _, err := io.Copy(h, z); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != want {
		return errOdd
	}
	return nil
}
