package snapshot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// errMissing: the repository doesn't hold the object.
var errMissing = errors.New("object is missing")

// objects reads many objects through one git process.
type objects struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func openObjects(ctx context.Context, g git) (*objects, error) {
	cmd := g.command(ctx, "cat-file", "--batch")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return &objects{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 64<<10)}, nil
}

// copy writes the object's content to w and returns its size.
func (o *objects) copy(id string, w io.Writer) (int64, error) {
	_, size, err := o.ask(id)
	if err != nil {
		return 0, err
	}
	if err := o.content(size, w); err != nil {
		return 0, fmt.Errorf("object %s: %w", id, err)
	}
	return size, nil
}

// ask asks for an object and reads the head of the answer: the content is to
// be read next.
func (o *objects) ask(id string) (typ int, size int64, err error) {
	if !hexID(id) {
		return 0, 0, fmt.Errorf("object %q: not an object id", id)
	}
	if _, err := io.WriteString(o.in, id+"\n"); err != nil {
		return 0, 0, fmt.Errorf("object %s: %w", id, err)
	}
	return o.head(id)
}

// head reads the head of the answer to a request for id.
func (o *objects) head(id string) (typ int, size int64, err error) {
	header, err := o.out.ReadString('\n')
	if err != nil {
		return 0, 0, fmt.Errorf("object %s: %w", id, err)
	}
	parts := strings.Fields(header)
	if len(parts) != 3 {
		return 0, 0, fmt.Errorf("object %s: %w", id, errMissing)
	}
	for n, name := range typeNames {
		if name == parts[1] {
			typ = n
		}
	}
	if size, err = strconv.ParseInt(parts[2], 10, 64); err != nil || typ == 0 {
		return 0, 0, fmt.Errorf("object %s: unexpected answer %q", id, header)
	}
	return typ, size, nil
}

// content copies the content that ask announced.
func (o *objects) content(size int64, w io.Writer) error {
	content := &io.LimitedReader{R: o.out, N: size}
	_, err := io.Copy(w, content)
	// Also after a failed write the next answer must start where it should.
	if _, e := io.Copy(io.Discard, content); err == nil {
		err = e
	}
	if e := o.end(); err == nil {
		err = e
	}
	if err == nil && content.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// end reads the newline after a content.
func (o *objects) end() error {
	_, err := o.out.ReadByte()
	return err
}

func (o *objects) close() {
	o.in.Close()
	// What wasn't read is not wanted; a full pipe must not keep git alive.
	_, _ = io.Copy(io.Discard, o.out)
	o.cmd.Wait()
}
