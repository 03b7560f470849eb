package server

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"perdure/workspace"
)

// typing sends keys one by one, each after a time.
func typing(k *keys, every time.Duration, text string) {
	for _, b := range []byte(text) {
		time.Sleep(every)
		k.c <- chunk{data: []byte{b}, at: time.Now()}
	}
}

// The keys of a word that is typed by hand are no answers, nor is what was typed before the prompt.
func TestOnlyAKeyTypedAloneAfterThePromptIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keys{c: make(chan chunk, keysAhead)}
		typing(k, 0, "c")
		time.Sleep(time.Second)
		drawn := time.Now()
		go func() {
			typing(k, 200*time.Millisecond, "cargo\r")
			typing(k, time.Second, "d")
			close(k.c)
		}()
		for _, want := range []byte{0, 'd'} {
			if got, err := k.answer(t.Context(), drawn); got != want || err != nil {
				t.Errorf("answered %q, %v; want %q", got, err, want)
			}
		}
		if _, err := k.answer(t.Context(), drawn); err != io.EOF {
			t.Errorf("%v", err)
		}
	})
}

// A word that begins with a key of the progress screen is the session's; the key alone is not.
func TestTheProgressScreenLeavesWordsToTheSession(t *testing.T) {
	for _, c := range []struct {
		keys, held string
		every      time.Duration
		stays      bool
	}{
		{"break\r", "break\r", 200 * time.Millisecond, true},
		{"b", "", time.Millisecond, false},
		{"q", "", time.Millisecond, false},
		{"make\rq", "", time.Second, false}, // at the start of a line, and alone
		{"mq", "mq", time.Second, true},
		{"make\rl", "make\rl", time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &attachment{d: workspace.Definition{Name: "app"}, r: &Request{Out: io.Discard, Term: &Terminal{Cols: 80}}, keys: &keys{c: make(chan chunk, keysAhead)}}
			v := &verification{done: make(chan struct{})}
			go func() {
				time.Sleep(time.Second)
				typing(a.keys, c.every, c.keys)
				time.Sleep(2 * time.Second)
				close(v.done)
			}()
			stay, err := a.await(context.Background(), v, "verifying", "verification")
			if stay != c.stays || string(a.keys.held) != c.held || err != nil {
				t.Errorf("%q: stays %v with %q, %v", c.keys, stay, a.keys.held, err)
			}
			<-v.done
		})
	}
}
