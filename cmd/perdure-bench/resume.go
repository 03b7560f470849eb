package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"perdure/cmd/perdure-bench/wan"
	"perdure/workspace/screen"
)

// runResume measures how soon something new shows after a link that was black is back.
func runResume(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("resume", flag.ContinueOnError)
	rounds := set.Int("rounds", 5, "blackholes for each peer")
	black := set.Duration("black", 20*time.Second, "how long the link is black")
	rtt := set.Duration("rtt", 20*time.Millisecond, "the link's round trip")
	if err := set.Parse(args); err != nil {
		return err
	}
	fmt.Printf("new output after a blackhole of %v, round trip %v, TCP congestion control %s\n", *black, *rtt, congestionControl())
	for _, peer := range havePeers() {
		times, err := resumes(ctx, peer, *rounds, *black, *rtt)
		note := ""
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

// counter prints a number twenty times a second.
const counter = `i=0; while :; do i=$((i+1)); echo n=$i.; sleep 0.05; done`

func resumes(ctx context.Context, peer string, rounds int, black, rtt time.Duration) (times []time.Duration, err error) {
	p, err := newPeers(ctx, "r")
	if err != nil {
		return nil, err
	}
	defer p.close()
	shape := wan.Shape{Delay: rtt / 2}
	p.net.Set(shape)
	v, err := p.view(peer, counter)
	if err != nil {
		return nil, err
	}
	defer v.close()
	for range rounds {
		before := newest(v.screen())
		if _, err := v.until(ctx, time.Minute, func(s screen.View) bool { return newest(s) > before+20 }); err != nil {
			return times, err
		}
		p.net.Set(wan.Shape{Cut: true})
		select {
		case <-time.After(black): // the measured condition itself
		case <-ctx.Done():
			return times, ctx.Err()
		}
		seen := newest(v.screen())
		p.net.Set(shape)
		took, err := v.until(ctx, 2*time.Minute, func(s screen.View) bool { return newest(s) > seen })
		if err != nil {
			return times, err
		}
		times = append(times, took)
	}
	return times, nil
}

// newest is the highest number on the screen.
func newest(s screen.View) (n int) {
	for _, row := range s.Rows {
		if text, ok := strings.CutPrefix(row, "n="); ok {
			if text, ok = strings.CutSuffix(text, "."); ok {
				if i, err := strconv.Atoi(text); err == nil {
					n = max(n, i)
				}
			}
		}
	}
	return n
}
