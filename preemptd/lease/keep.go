// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"time"
)

// Keep answers questions until ctx ends, or the lease is lost: then Keep returns ErrLost. failed is
// called when Slurm does not answer, once for each outage.
func (l *Lease) Keep(ctx context.Context, failed func(error)) error {
	if l.isDisabled() {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(renewInterval)
	defer tick.Stop()
	gone := false
	for ctx.Err() == nil {
		err := l.answerQuestions(ctx)
		if errors.Is(err, ErrLost) {
			l.setHeld(false, 0)
			return err
		}
		if err != nil && !gone && ctx.Err() == nil {
			failed(err)
		}
		gone = err != nil
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// answerQuestions looks at the reservations, and answers the questions among them.
func (l *Lease) answerQuestions(ctx context.Context) error {
	at := l.clock()
	v, err := l.lookAtSlurm(ctx)
	if err != nil {
		return err
	}
	return l.confirmLease(ctx, v, at)
}

// confirmLease deletes questions and looks again, until a look has seen our lease and no question.
func (l *Lease) confirmLease(ctx context.Context, v view, at time.Duration) error {
	for v.mine && len(v.asks) > 0 {
		for _, who := range v.asks {
			if err := l.deleteReservation(ctx, "waits", who); err != nil {
				return err
			}
		}
		var err error
		at = l.clock()
		if v, err = l.lookAtSlurm(ctx); err != nil {
			return err
		}
	}
	if !v.mine {
		return ErrLost
	}
	l.setHeld(true, at)
	return nil
}

// setHeld notes whether we have the lease, and since when that is sure.
func (l *Lease) setHeld(have bool, at time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.have, l.sure = have, at
	close(l.change)
	l.change = make(chan struct{})
}

// Sure waits until it is certain that no other preemptd works, or will for a while. Sure returns ErrLost if another
// may, or ctx's error.
func (l *Lease) Sure(ctx context.Context) error {
	for {
		l.mu.Lock()
		have, sure, change := l.have, l.sure, l.change
		l.mu.Unlock()
		switch {
		case l.isDisabled() || have && l.clock()-sure < certainFor:
			return nil
		case !have:
			return ErrLost
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-change:
		}
	}
}
