package server

import (
	"context"
	"fmt"
	"io"

	"github.com/pkg/sftp"
)

// runSFTP serves the sftp protocol (draft-ietf-secsh-filexfer-02) over the request's streams, with relative paths
// below dir. It ends when the client does, or with ctx.
func runSFTP(ctx context.Context, r *Request, dir string) Exit {
	stream := &sftpStream{Reader: r.In, Writer: r.Out, cancelled: ctx.Done()}
	srv, err := sftp.NewServer(stream, sftp.WithServerWorkingDirectory(dir))
	if err != nil {
		_, _ = fmt.Fprintf(r.Err, "perdure: serve sftp: %v\n", err) // the client may be gone
		return Exit{Status: 1}
	}
	if err := srv.Serve(); err != nil {
		return Exit{Status: 1}
	}
	return Exit{}
}

// sftpStream joins the two directions. Closing it takes nothing away: the channel is its owner's, whose end also
// ends a Read; after a malformed packet the library stops reading by itself.
type sftpStream struct {
	io.Reader
	io.Writer
	cancelled <-chan struct{}
}

func (s *sftpStream) Read(p []byte) (int, error) {
	select {
	case <-s.cancelled:
		return 0, io.EOF
	default:
		return s.Reader.Read(p)
	}
}

func (s *sftpStream) Close() error { return nil }
