package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/renameio/v2"
	"github.com/google/shlex"
	"golang.org/x/sys/unix"
)

// A drop folder takes the commands of an agent whose sandbox lets it write files but connect to nothing: one file
// asks, another answers (server/DROP.md). It lies below the folder for temporary files, which such sandboxes leave
// writable, and is ours alone.
const (
	dropAsk    = ".ask"
	dropTaken  = ".taken"
	dropAnswer = ".answer"
	dropLimit  = 8 << 20         // of a request, and of each stream of an answer, in bytes
	dropFresh  = 5 * time.Second // how long who asks waits to be heard
	dropTime   = time.Hour       // what one command may take
	dropKept   = time.Hour       // an answer that nobody fetched
)

// dropRequest is what a client writes.
type dropRequest struct {
	Command string            `json:"command"` // as an SSH exec has it
	Env     map[string]string `json:"env,omitempty"`
	Stdin   []byte            `json:"stdin,omitempty"`
}

// dropReply is what the server writes.
type dropReply struct {
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	Status int    `json:"status"`
}

// dropDir is a workspace's drop folder.
func (s *Server) dropDir(name string) string { return filepath.Join(s.dropRoot(), name) }

func (s *Server) dropRoot() string {
	sum := sha256.Sum256([]byte(s.opts.State))
	return filepath.Join(os.TempDir(), fmt.Sprintf("perdure-%d-%x", os.Getuid(), sum[:6]))
}

// drops hears the drop folders of the sessions that live.
type drops struct {
	s       *Server
	watcher *fsnotify.Watcher
	mu      sync.Mutex
	busy    map[string]bool // requests that this server works on
	lock    *os.File        // tells clients that a server lives; and systemd-tmpfiles(8) leaves a folder alone that is locked
}

// openDrops makes the folder for drop folders. Where that can't be made safely there is none, and the log says why:
// everything else works without.
func (s *Server) openDrops() *drops {
	root := s.dropRoot()
	err := privateDir(root)
	d := &drops{s: s, busy: map[string]bool{}}
	if err == nil {
		d.lock, err = os.Open(root)
	}
	if err == nil {
		err = lockShared(d.lock)
	}
	if err == nil {
		d.watcher, err = fsnotify.NewWatcher()
	}
	if err != nil {
		s.log.Warn("no drop folders: a sandboxed agent can't reach perdure", "err", err)
		return nil
	}
	return d
}

// lockShared locks a folder that a client may hold for the instant in which it looks whether a server lives.
func lockShared(f *os.File) error {
	var err error
	for range 50 {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// privateDir makes a folder that is ours alone, or says why the one that is there isn't.
func privateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !fi.IsDir() || !ok || int(st.Uid) != os.Getuid() || fi.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s is not a folder of ours alone (%s)", dir, fi.Mode())
	}
	return nil
}

// watchDrop begins to hear a workspace's folder. What was asked while nobody listened is answered if it is still waited
// for.
func (s *Server) watchDrop(name string) {
	if s.drops == nil {
		return
	}
	dir := s.dropDir(name)
	err := privateDir(dir)
	if err == nil {
		err = s.drops.watcher.Add(dir)
	}
	if err != nil {
		s.log.Warn("no drop folder", "workspace", name, "err", err)
		return
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		switch {
		case err != nil:
		case filepath.Ext(path) == dropAsk && time.Since(info.ModTime()) < dropFresh:
			s.drops.take(path)
		case filepath.Ext(path) == dropTaken && s.drops.orphan(path):
			s.drops.answer(path, dropReply{Stderr: []byte("perdure: the server ended before the command did: ask again\n"), Status: statusFailed})
		case time.Since(info.ModTime()) > dropKept || filepath.Ext(path) == dropAsk:
			_ = os.Remove(path) // left by a client that is gone
		}
	}
}

// run hears them until ctx ends. The folders stay: their sessions live on.
func (d *drops) run(ctx context.Context) {
	defer d.lock.Close()
	defer d.watcher.Close()
	defer os.Remove(d.lock.Name()) // where it is empty
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-d.watcher.Events:
			if !ok {
				return
			}
			if e.Has(fsnotify.Create) && filepath.Ext(e.Name) == dropAsk {
				d.take(e.Name)
			}
		case err, ok := <-d.watcher.Errors:
			if !ok {
				return
			}
			d.s.log.Warn("drop folders", "err", err)
		}
	}
}

// take reads a request, which tells its sender that it was heard, and answers it beside the caller.
func (d *drops) take(path string) {
	taken := strings.TrimSuffix(path, dropAsk) + dropTaken
	if os.Rename(path, taken) != nil {
		return // withdrawn, or taken already
	}
	data, err := readDrop(taken)
	name := filepath.Base(filepath.Dir(path))
	d.mu.Lock()
	d.busy[taken] = true
	d.mu.Unlock()
	d.s.wg.Go(func() {
		reply := dropReply{Status: statusFailed}
		if err == nil {
			reply = d.s.answerDrop(name, data)
		} else {
			reply.Stderr = fmt.Appendf(nil, "perdure: read the request: %v\n", err)
		}
		d.answer(taken, reply)
	})
}

// orphan says whether a request was taken by a server that is gone.
func (d *drops) orphan(taken string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.busy[taken]
}

// answer writes the answer to a request that was taken.
func (d *drops) answer(taken string, reply dropReply) {
	out, _ := json.Marshal(reply) // bytes and a number always can be
	to := strings.TrimSuffix(taken, dropTaken) + dropAnswer
	if err := renameio.WriteFile(to, out, 0o600, renameio.WithTempDir(filepath.Dir(to))); err != nil {
		d.s.log.Error("answer in the drop folder", "file", to, "err", err)
	}
	_ = os.Remove(taken)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, taken)
}

func readDrop(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, dropLimit+1))
	if err == nil && len(data) > dropLimit {
		err = fmt.Errorf("it has more than %d bytes", dropLimit)
	}
	return data, err
}

// terminalCommands show a session or speak frames: they need a connection.
var terminalCommands = []string{"attach", "relay", "next", "tui"}

// answerDrop runs the command as the session's own.
func (s *Server) answerDrop(name string, data []byte) (reply dropReply) {
	var out, errOut cappedBuffer
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("a command from the drop folder panicked", "workspace", name, "panic", v, "stack", string(debug.Stack()))
			reply = dropReply{Stderr: []byte("perdure: an internal error; the server's log has it\n"), Status: statusFailed}
		}
	}()
	say := func(err error) dropReply {
		status := report(err, false, &out, &errOut)
		return dropReply{Stdout: out.Bytes(), Stderr: errOut.Bytes(), Status: status}
	}
	var q dropRequest
	if err := json.Unmarshal(data, &q); err != nil {
		return say(usage("", "the request is not the JSON that perdure writes: %w", err))
	}
	sess := s.space(name).live()
	if sess == nil {
		return say(refused("", "no session of %s is live", quoteName(name)))
	}
	words, err := shlex.Split(q.Command)
	if err != nil || len(words) == 0 {
		return say(usage("", "the request names no command"))
	}
	follows := words[0] == "events" && (slices.Contains(words, "--follow") || slices.Contains(words, "-f"))
	if slices.Contains(terminalCommands, words[0]) || follows {
		return say(refused("leave it to the person, or run it outside the sandbox", "%s needs a connection, which this sandbox forbids", words[0]))
	}
	env := map[string]string{"PERDURE_SESSION": sess.ID, "PERDURE_WORKSPACE": name}
	for _, k := range []string{"PERDURE_CWD", "PERDURE_PATH"} {
		if v := q.Env[k]; v != "" {
			env[k] = v
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, dropTime)
	defer cancel()
	exit := s.command(ctx, &Request{User: commandUser, Local: true, Peer: "drop folder of " + name, Command: q.Command, Env: env,
		In: bytes.NewReader(q.Stdin), Out: &out, Err: &errOut, Rights: rights{}})
	reply = dropReply{Stdout: out.Bytes(), Stderr: errOut.Bytes(), Status: exit.Status}
	if out.cut || errOut.cut {
		reply.Stderr = fmt.Appendf(reply.Stderr, "perdure: the output was cut at %d bytes\n", dropLimit)
		reply.Status = max(reply.Status, statusFailed)
	}
	return reply
}

// cappedBuffer keeps what fits, and takes the rest.
type cappedBuffer struct {
	bytes.Buffer
	cut bool
}

func (b *cappedBuffer) Write(p []byte) (int, error) {
	fits := min(len(p), dropLimit-b.Len())
	b.cut = b.cut || fits < len(p)
	b.Buffer.Write(p[:fits])
	return len(p), nil
}
