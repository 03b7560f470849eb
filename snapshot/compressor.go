package snapshot

import (
	"bytes"

	"github.com/klauspost/compress/zlib"
)

// compressor deflates objects, one at a time.
type compressor struct {
	z   *zlib.Writer
	out bytes.Buffer
}

func newCompressor() *compressor {
	c := &compressor{}
	// The level only fails to be valid by a mistake here.
	c.z, _ = zlib.NewWriterLevel(&c.out, zlib.BestSpeed)
	return c
}

func (c *compressor) deflate(data []byte) ([]byte, error) {
	c.out.Reset()
	c.z.Reset(&c.out)
	if _, err := c.z.Write(data); err != nil {
		return nil, err
	}
	if err := c.z.Close(); err != nil {
		return nil, err
	}
	return c.out.Bytes(), nil
}
