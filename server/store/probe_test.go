package store

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perdure/workspace"
)

func probeMe(t *testing.T, dir string) error {
	t.Helper()
	return Probe(context.Background(), []string{os.Args[0], probeArg}, dir)
}

// filled is a store with data in a table and in its log, closed or as a kill leaves it.
func filled(t *testing.T, killed bool) string {
	t.Helper()
	dir := storeDir(t)
	s := open(t, dir)
	for i := range 40 {
		must(t, s.PutRecord("auth", fmt.Sprint(i), i, bytes.Repeat([]byte{byte(i)}, 30<<10)))
	}
	must(t, s.PutWorkspace(workspace.Definition{Name: "auth"}))
	for range 20 {
		_, err := s.AppendEvent(Event{Workspace: "auth", Kind: "bell"})
		must(t, err)
	}
	must(t, s.Close())
	if !killed {
		return dir
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerDir+"="+dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	_, err = io.ReadFull(out, make([]byte, 60))
	must(t, err)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	return dir
}

func TestProbeOfWhatIsSound(t *testing.T) {
	must(t, probeMe(t, storeDir(t)))
	for _, killed := range []bool{false, true} {
		dir := filled(t, killed)
		must(t, probeMe(t, dir))
		s := open(t, dir)
		all, err := s.Records("auth")
		must(t, err)
		if len(all) < 40 {
			t.Errorf("killed %v: %d records after the probe", killed, len(all))
		}
		must(t, s.Close())
	}
}

// Whatever byte is wrong in a table or the manifest, the server's own process never meets it.
func TestProbeFindsDamage(t *testing.T) {
	whole := filled(t, false)
	for _, name := range []string{"*.sst", "MANIFEST"} {
		for _, cut := range []bool{false, true} {
			for part := 1; part < 8; part += 2 {
				dir := storeDir(t)
				must(t, os.CopyFS(filepath.Dir(dir), os.DirFS(filepath.Dir(whole))))
				files, err := filepath.Glob(filepath.Join(dir, name))
				must(t, err)
				damageFile(t, files[0], part, cut)
				if err := probeMe(t, dir); !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s cut %v at %d/8: %v", name, cut, part, err)
				}
			}
		}
	}
}

// damageFile flips a byte of a file at part eighths of it, or cuts it there.
func damageFile(t *testing.T, path string, part int, cut bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	at := len(data) * part / 8
	if cut {
		must(t, os.Truncate(path, int64(at)))
		return
	}
	data[at] ^= 0x40
	must(t, os.WriteFile(path, data, 0o600))
}

// A child that dies is damage, one that never began is not.
func TestProbeThatDies(t *testing.T) {
	dir := filled(t, false)
	if err := Probe(context.Background(), []string{"sh", "-c", "kill -BUS $$"}, dir); !errors.Is(err, ErrCorrupt) {
		t.Errorf("SIGBUS: %v", err)
	}
	if err := Probe(context.Background(), []string{"/does/not/exist"}, dir); err == nil || errors.Is(err, ErrCorrupt) {
		t.Errorf("no such program: %v", err)
	}
}

func TestBackups(t *testing.T) {
	dir := filled(t, false)
	s := open(t, dir)
	for range 4 {
		must(t, s.Backup(3))
	}
	id := s.id
	must(t, s.PutWorkspace(workspace.Definition{Name: "late"}))
	must(t, s.Close())
	all, err := Backups(dir)
	must(t, err)
	if len(all) != 3 || !strings.HasPrefix(all[0], dir+".backups/") || all[0] < all[1] {
		t.Fatalf("kept %q", all)
	}
	if err := Restore(dir, all[0]); err == nil {
		t.Fatal("a store was restored over one that is there")
	}
	must(t, os.RemoveAll(dir))
	must(t, Restore(dir, all[0]))
	s = open(t, dir)
	records, err := s.Records("auth")
	must(t, err)
	events, err := s.Events("", 0, 0)
	must(t, err)
	if _, err := s.Workspace("late"); s.id != id || len(records) != 40 || len(events) != 20 || !errors.Is(err, ErrNotFound) {
		t.Fatalf("id %s, %d records, %d events, %v", s.id, len(records), len(events), err)
	}
}

func TestDamagedBackupIsNeverRestored(t *testing.T) {
	dir := filled(t, false)
	s := open(t, dir)
	must(t, s.Backup(1))
	must(t, s.Close())
	all, err := Backups(dir)
	must(t, err)
	whole, err := os.ReadFile(all[0])
	must(t, err)
	must(t, os.RemoveAll(dir))
	for part := range 8 {
		for _, cut := range []bool{false, true} {
			must(t, os.WriteFile(all[0], whole, 0o600))
			damageFile(t, all[0], part, cut)
			if err := Restore(dir, all[0]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("cut %v at %d/8: %v", cut, part, err)
			}
		}
	}
	left, err := filepath.Glob(dir + ".restoring*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// An old store in this folder is what a person has who updates: it comes up whole, after a backup.
func TestStoreOfSchema1(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	untar(t, "testdata/store-v1.tar.gz", filepath.Dir(dir))
	must(t, probeMe(t, dir))
	for range 2 { // the second time as its own
		s := open(t, dir)
		for _, name := range []string{"auth", "web"} {
			d, err := s.Workspace(name)
			must(t, err)
			records, err := s.Records(name)
			must(t, err)
			snaps, err := s.Snapshots(name)
			must(t, err)
			events, err := s.Events(name, 0, 0)
			must(t, err)
			ended, err := s.Told(name, "ended", "01S"+name)
			must(t, err)
			other, err := s.Told(name, "ended", "01S")
			must(t, err)
			if d.Goal != "goal of "+name || len(records) != 1 || len(snaps) != 1 || len(events) != 4 || !ended || other {
				t.Errorf("%+v: %d records, %d snapshots, %d events, told %v, %v", d, len(records), len(snaps), len(events), ended, other)
			}
		}
		if h, err := s.Halt("auth"); err != nil || h == nil || h.Reason != "edited" {
			t.Errorf("halt %+v, %v", h, err)
		}
		must(t, s.Close())
	}
	if mark, err := readSentinel(dir); err != nil || mark.Schema != Schema {
		t.Errorf("sentinel %+v, %v", mark, err)
	}
	if all, err := Backups(dir); err != nil || len(all) != 1 {
		t.Errorf("backups %q, %v", all, err)
	}
}

func untar(t *testing.T, path, to string) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		must(t, err)
		name := filepath.Join(to, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			must(t, os.MkdirAll(name, 0o700))
			continue
		}
		data, err := io.ReadAll(r)
		must(t, err)
		must(t, os.WriteFile(name, data, 0o600))
	}
}

func TestFilesAreTheirOwnersAlone(t *testing.T) {
	dir := filled(t, true)
	s := open(t, dir)
	must(t, s.Backup(2))
	must(t, s.Tend())
	must(t, filepath.Walk(filepath.Dir(dir), func(path string, fi os.FileInfo, err error) error {
		if err == nil && path != filepath.Dir(dir) && fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, fi.Mode())
		}
		return err
	}))
}

// A disk that fills is an error and no crash: first what can wait is refused, then, when the ballast is used up,
// everything; and with room again all that was acknowledged is there.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(smallDisk(t, 96<<20), "store")
	s := open(t, dir)
	must(t, s.Room())
	must(t, s.PutRecord("auth", "before", 1, []byte("before")))
	filler := filepath.Join(filepath.Dir(dir), "filler")
	fill(t, filler, minFree-1<<20)
	must(t, s.PutRecord("auth", "ballast", 2, []byte("ballast")))
	if err := s.Room(); !errors.Is(err, ErrNoSpace) {
		t.Errorf("room for what can wait: %v", err)
	}
	fill(t, filler+"2", 0)
	if err := s.PutRecord("auth", "full", 3, []byte("full")); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("on a full disk: %v", err)
	}
	if err := s.Close(); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("closed on a full disk: %v", err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("opened on a full disk: %v", err)
	}
	if err := probeMe(t, dir); err != nil {
		t.Fatalf("a full disk is no damage: %v", err)
	}
	must(t, os.Remove(filler))
	must(t, os.Remove(filler+"2"))
	must(t, s.Close())
	s = open(t, dir)
	all, err := s.Records("auth")
	must(t, err)
	if got := fmt.Sprintf("%s", all); got != "[before ballast]" {
		t.Errorf("got %s", got)
	}
	must(t, s.Room())
	must(t, s.Close())
}

// smallDisk is a file system of its own, which root can make.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		t.Skipf("needs a file system of its own: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fill takes room until only leave bytes are free.
func fill(t *testing.T, path string, leave uint64) {
	t.Helper()
	free, err := Free(filepath.Dir(path))
	must(t, err)
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	if free > leave {
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(free-leave)); err != nil {
			t.Skipf("can't fill the disk: %v", err)
		}
	}
}
