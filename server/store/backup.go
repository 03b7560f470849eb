package store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
)

const (
	backupEnding = ".backup"
	backupMagic  = "perdure-store-backup-1\n"
	backupTime   = "20060102T150405.000000000Z"
)

// backupsDir is where the backups of a store lie: beside it, since what ruins the folder may take all of it.
func backupsDir(dir string) string { return dir + ".backups" }

// Backups are the paths of a store's backups, newest first.
func Backups(dir string) ([]string, error) {
	entries, err := os.ReadDir(backupsDir(filepath.Clean(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	var out []string
	for _, e := range slices.Backward(entries) {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), backupEnding) {
			out = append(out, filepath.Join(backupsDir(filepath.Clean(dir)), e.Name()))
		}
	}
	return out, nil
}

// LastBackup is when the newest backup was begun, zero where there is none.
func LastBackup(dir string) (time.Time, error) {
	all, err := Backups(dir)
	if err != nil || len(all) == 0 {
		return time.Time{}, err
	}
	at, err := time.Parse(backupTime, strings.TrimSuffix(filepath.Base(all[0]), backupEnding))
	if err != nil {
		return time.Time{}, nil // named by someone else: as good as none
	}
	return at, nil
}

// Backup writes the whole store as it is now to a new file, on disk when it returns, and then deletes all but the
// newest keep of them.
func (s *Store) Backup(keep int) (err error) {
	defer func() { err = wrap(err, "back up the store") }()
	folder := backupsDir(s.dir)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := s.Room(); err != nil {
		return err
	}
	to := filepath.Join(folder, time.Now().UTC().Format(backupTime)+backupEnding)
	if err := s.backupTo(to); err != nil {
		return err
	}
	if err := s.writeSentinel(); err != nil {
		return err
	}
	all, err := Backups(s.dir)
	if err != nil {
		return err
	}
	for _, old := range all[min(max(keep, 1), len(all)):] {
		if err := os.Remove(old); err != nil {
			return err
		}
	}
	return syncFolder(folder)
}

// backupTo writes the magic line, BadgerDB's stream and the SHA-256 of both.
func (s *Store) backupTo(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it was renamed
	defer f.Close()
	sum := sha256.New()
	w := io.MultiWriter(f, sum)
	if _, err := io.WriteString(w, backupMagic); err != nil {
		return err
	}
	if _, err := s.db.Backup(w, 0); err != nil {
		return err
	}
	if _, err := f.Write(sum.Sum(nil)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// Restore makes the store in the folder dir, which must not exist, out of a backup, and forgets the sentinel of the
// one that was there. A backup that isn't whole is ErrCorrupt, and leaves nothing behind.
func Restore(dir, backup string) (err error) {
	dir = filepath.Clean(dir)
	defer func() { err = wrap(err, "restore the store from %s", backup) }()
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is in the way", dir)
	}
	if err := checkSpace(filepath.Dir(dir)); err != nil {
		return err
	}
	fresh := dir + ".restoring"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	defer os.RemoveAll(fresh) // gone once it was renamed
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	if err := load(fresh, backup); err != nil {
		return err
	}
	if err := os.Remove(sentinelPath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(dir))
}

// load reads a backup into a new database, after its checksum was seen to be right.
func load(dir, backup string) (err error) {
	f, err := os.Open(backup)
	if err != nil {
		return err
	}
	defer f.Close()
	body, err := checkBackup(f)
	if err != nil {
		return err
	}
	db, err := openBadger(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Load(body, 16); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	err = db.View(func(t *badger.Txn) error {
		_, err := readIdentity(t)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: it doesn't know which store it is of: %w", ErrCorrupt, err)
	}
	return nil
}

// checkBackup reads a backup once for its checksum and gives BadgerDB's part of it.
func checkBackup(f *os.File) (io.Reader, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	body := fi.Size() - int64(len(backupMagic)) - sha256.Size
	head := make([]byte, len(backupMagic))
	if _, err := f.ReadAt(head, 0); body < 0 || err != nil || string(head) != backupMagic {
		return nil, fmt.Errorf("%w: it is no backup, or one that was cut", ErrCorrupt)
	}
	end := int64(len(backupMagic)) + body
	want := make([]byte, sha256.Size)
	if _, err := f.ReadAt(want, end); err != nil {
		return nil, err
	}
	var sum hash.Hash = sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, end)); err != nil {
		return nil, err
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrCorrupt)
	}
	return io.NewSectionReader(f, int64(len(backupMagic)), body), nil
}
