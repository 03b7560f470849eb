// Package wire holds the frames between client, server and host. FORMAT.md beside this file describes them byte
// by byte; the numbers there are a promise.
package wire
