package client

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// forwardSignals takes an interrupt to the remote command, which decides what it means. A second one ends the
// connection: a command that doesn't listen must not hold the person. The returned function ends it.
func forwardSignals(conn *ssh.Client, sess *ssh.Session) func() {
	c := make(chan os.Signal, 2)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-quit:
				return
			case s := <-c:
				if n > 0 {
					conn.Close()
					continue
				}
				name := ssh.SIGINT
				if s == syscall.SIGTERM {
					name = ssh.SIGTERM
				}
				_ = sess.Signal(name) // a session that is over needs none
			}
		}
	})
	return func() {
		signal.Stop(c)
		close(quit)
		wg.Wait()
	}
}
