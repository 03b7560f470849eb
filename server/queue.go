package server

import (
	"context"
	"sync"
)

// queue lets a bounded number in at one time, in the order of asking. The bound may change while it is in use.
type queue struct {
	mu      sync.Mutex
	max     int
	inside  int
	waiting []chan struct{}
}

// enter waits for a place and returns what gives it back. The error is ctx's.
func (q *queue) enter(ctx context.Context) (leave func(), err error) {
	q.mu.Lock()
	if q.inside < q.max && len(q.waiting) == 0 {
		q.inside++
		q.mu.Unlock()
		return sync.OnceFunc(q.leave), nil
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	q.mu.Unlock()
	select {
	case <-turn:
		return sync.OnceFunc(q.leave), nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, w := range q.waiting {
		if w == turn {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return nil, ctx.Err()
		}
	}
	q.inside-- // the turn came at the same moment
	q.admit()
	return nil, ctx.Err()
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inside--
	q.admit()
}

func (q *queue) setMax(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.max = n
	q.admit()
}

// admit gives free places to those who wait.
func (q *queue) admit() {
	for q.inside < q.max && len(q.waiting) > 0 {
		close(q.waiting[0])
		q.waiting = q.waiting[1:]
		q.inside++
	}
}

// counts says how many are inside, and how many wait.
func (q *queue) counts() (inside, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.inside, len(q.waiting)
}
