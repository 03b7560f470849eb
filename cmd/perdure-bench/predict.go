package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"perdure/cmd/perdure-bench/wan"
	"perdure/workspace/screen"
)

// runPredict measures how soon a typed character shows.
func runPredict(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("predict", flag.ContinueOnError)
	rtt := set.Duration("rtt", 100*time.Millisecond, "the link's round trip")
	loss := set.Float64("loss", 0, "packets lost in each direction, 0 to 1")
	lines := set.Int("lines", 5, "lines typed at each peer")
	every := set.Duration("every", 120*time.Millisecond, "time between two keys")
	if err := set.Parse(args); err != nil {
		return err
	}
	fmt.Printf("a typed character shows, at a shell over a round trip of %v, loss %.0f %% each way, a key every %v, TCP congestion control %s\n", *rtt, 100**loss, *every, congestionControl())
	for _, peer := range havePeers() {
		times, wrong, err := types(ctx, peer, *lines, *every, wan.Shape{Delay: *rtt / 2, Loss: *loss})
		note := fmt.Sprintf("wrong characters: %d", wrong)
		if err != nil {
			note = err.Error()
		}
		quantiles(peer, times, note)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

const (
	prompt    = "bench$"
	benchLine = "echo the quick brown fox jumps over the lazy dog"
)

// types types lines at a shell. A character that shows where another was typed is wrong.
func types(ctx context.Context, peer string, lines int, every time.Duration, shape wan.Shape) (times []time.Duration, wrong int, err error) {
	p, err := newPeers(ctx, "p")
	if err != nil {
		return nil, 0, err
	}
	defer p.close()
	p.net.Set(wan.Shape{Delay: shape.Delay})
	v, err := p.view(peer, "PS1='"+prompt+" ' exec bash --norc --noprofile -i")
	if err != nil {
		return nil, 0, err
	}
	defer v.close()
	if _, err := v.until(ctx, time.Minute, func(s screen.View) bool { return current(s) == prompt }); err != nil {
		return nil, 0, err
	}
	p.net.Set(shape)
	for range lines {
		for i := range benchLine {
			next := time.After(every)
			if _, err := io.WriteString(v.tty, benchLine[i:i+1]); err != nil {
				return times, wrong, err
			}
			want := strings.TrimRight(prompt+" "+benchLine[:i+1], " ")
			took, err := v.until(ctx, time.Minute, func(s screen.View) bool {
				if text := current(s); strings.HasPrefix(text, prompt) && !strings.HasPrefix(want, text) {
					wrong++
				}
				return current(s) == want
			})
			if err != nil {
				return times, wrong, err
			}
			if benchLine[i] != ' ' { // a blank can't be seen
				times = append(times, took)
			}
			<-next
		}
		if _, err := io.WriteString(v.tty, "\r"); err != nil {
			return times, wrong, err
		}
		if _, err := v.until(ctx, time.Minute, func(s screen.View) bool { return current(s) == prompt }); err != nil {
			return times, wrong, err
		}
	}
	return times, wrong, nil
}

// current is the row of the cursor.
func current(s screen.View) string {
	if s.Cursor.Row >= len(s.Rows) {
		return ""
	}
	return strings.TrimRight(s.Rows[s.Cursor.Row], " ")
}
