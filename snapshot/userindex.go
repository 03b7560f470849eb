package snapshot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// userIndex lists the user's index, all stages. Git reads it: an index may be
// split, sparse, or of a version to come.
func userIndex(ctx context.Context, p place) ([]tracked, error) {
	defer keepTimes(filepath.Join(p.gitDir, "sharedindex.*"))()
	// Without --sparse git would expand a sparse index, and write trees for it.
	list, err := listIndex(ctx, p, "ls-files", "--sparse", "-s", "-v", "-z", "--debug")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 129 { // of before sparse indexes
		list, err = listIndex(ctx, p, "ls-files", "-s", "-v", "-z", "--debug")
	}
	if err != nil {
		return nil, fmt.Errorf("user's index: %w", err)
	}
	return list, nil
}

// listIndex reads the listing as it comes: it is many times the index's size.
func listIndex(ctx context.Context, p place, args ...string) ([]tracked, error) {
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := p.user("").stream(ctx, strings.NewReader(""), out, args...)
		out.CloseWithError(err)
		ended <- err
	}()
	list, err := parseIndex(ctx, p, bufio.NewReaderSize(in, 64<<10))
	in.Close()
	if e := <-ended; e != nil && !errors.Is(e, io.ErrClosedPipe) {
		return nil, e
	}
	return list, err
}

func parseIndex(ctx context.Context, p place, r *bufio.Reader) ([]tracked, error) {
	var list []tracked
	for {
		line, err := r.ReadString(0)
		if errors.Is(err, io.EOF) && line == "" {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		meta, name, named := strings.Cut(strings.TrimSuffix(line, "\x00"), "\t")
		part := strings.Fields(meta)
		if !named || len(part) != 4 {
			return nil, fmt.Errorf("unexpected line %q", line)
		}
		flags, err := debugFlags(r)
		if err != nil {
			return nil, err
		}
		if part[1] == "040000" {
			if list, err = appendSparse(ctx, p, list, part[2], name); err != nil {
				return nil, err
			}
			continue
		}
		list = append(list, tracked{mode: part[1], oid: part[2], stage: part[3], path: name,
			sparse: strings.EqualFold(part[0], "s"), assumed: part[0] == "h" || part[0] == "s", intent: flags&(1<<29) != 0})
	}
}

// appendSparse adds the files of a folder that a sparse index has as one entry.
func appendSparse(ctx context.Context, p place, list []tracked, tree, dir string) ([]tracked, error) {
	out, err := p.user("").run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", tree)
	if err != nil {
		return nil, fmt.Errorf("user's index: %w", err)
	}
	for _, line := range fields(out) {
		if t, ok := parseTree(line); ok {
			t.path, t.stage, t.sparse = dir+t.path, "0", true
			list = append(list, t)
		}
	}
	return list, nil
}

// keepTimes gives files their times back when the returned function is called:
// git touches the shared part of a split index whenever it reads it.
func keepTimes(pattern string) func() {
	names, _ := filepath.Glob(pattern)
	times := map[string]fs.FileInfo{}
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil {
			times[name] = info
		}
	}
	return func() {
		for name, info := range times {
			_ = os.Chtimes(name, time.Time{}, info.ModTime()) // a zero time is left as it is
		}
	}
}

// debugFlags reads the five lines that --debug adds; the last ends in the
// entry's flags.
func debugFlags(r *bufio.Reader) (flags uint64, err error) {
	var line string
	for range 5 {
		if line, err = r.ReadString('\n'); err != nil {
			return 0, fmt.Errorf("unexpected end: %w", err)
		}
	}
	_, hex, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "flags: ")
	if ok {
		flags, err = strconv.ParseUint(hex, 16, 64)
	}
	if !ok || err != nil {
		return 0, fmt.Errorf("unexpected flags %q", line)
	}
	return flags, nil
}
