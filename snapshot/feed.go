package snapshot

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// feedable bounds the files that are read into memory, one at a time.
const feedable = 4 << 20

// feed writes the content of many new files as one pack before git adds them:
// as single objects they take several times as long. It is only for speed: a
// file that it misses, or that changes meanwhile, git writes by itself.
func (j *job) feed(ctx context.Context, old *cache, w *walk) {
	var paths []string
	for path, st := range w.files {
		if !st.link() && st.Size <= feedable && (old == nil || !old.fresh(path, st)) {
			paths = append(paths, path)
		}
	}
	if len(paths) <= loosely {
		return
	}
	in, out := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		out.CloseWithError(j.feedBlobs(ctx, out, paths))
	}()
	_ = j.store.stream(ctx, in, io.Discard, "fast-import", "--quiet", "--done")
	in.Close()
	<-done
}

func (j *job) feedBlobs(ctx context.Context, to io.Writer, paths []string) error {
	b := bufio.NewWriterSize(to, 256<<10)
	for _, path := range paths {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		data, err := readPlain(filepath.Join(j.place.top, path))
		if err != nil {
			continue
		}
		fmt.Fprintf(b, "blob\ndata %d\n", len(data))
		_, _ = b.Write(data) // bufio keeps the error for the next write
		if err := b.WriteByte('\n'); err != nil {
			return err
		}
	}
	if _, err := b.WriteString("done\n"); err != nil {
		return err
	}
	return b.Flush()
}

// readPlain reads a regular file that may have become anything since it was
// listed: opening a FIFO must not hang, nor a file that grows fill the memory.
func readPlain(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	return io.ReadAll(io.LimitReader(f, feedable+1))
}
