// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package mandate

import (
	"context"
	"errors"
	"time"
)

// Keep answers questions until ctx ends, or the mandate is lost: then Keep returns ErrLost. failed is
// called when Slurm does not answer, once for each outage.
func (m *Mandate) Keep(ctx context.Context, failed func(error)) error {
	if m.isDisabled() {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(renewInterval)
	defer tick.Stop()
	gone := false
	for ctx.Err() == nil {
		err := m.answerQuestions(ctx)
		if errors.Is(err, ErrLost) {
			m.setHeld(false, 0)
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
func (m *Mandate) answerQuestions(ctx context.Context) error {
	at := m.clock()
	v, err := m.lookAtSlurm(ctx)
	if err != nil {
		return err
	}
	return m.confirmMandate(ctx, v, at)
}

// confirmMandate deletes questions and looks again, until a look has seen our mandate and no question.
func (m *Mandate) confirmMandate(ctx context.Context, v view, at time.Duration) error {
	for v.mine && len(v.asks) > 0 {
		for _, who := range v.asks {
			if err := m.deleteReservation(ctx, "waits", who); err != nil {
				return err
			}
		}
		var err error
		at = m.clock()
		if v, err = m.lookAtSlurm(ctx); err != nil {
			return err
		}
	}
	if !v.mine {
		return ErrLost
	}
	m.setHeld(true, at)
	return nil
}

// setHeld notes whether we have the mandate, and since when that is sure.
func (m *Mandate) setHeld(have bool, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.have, m.sure = have, at
	close(m.change)
	m.change = make(chan struct{})
}

// Sure waits until it is certain that no other preemptd works, or will for a while. Sure returns ErrLost if another
// may, or ctx's error.
func (m *Mandate) Sure(ctx context.Context) error {
	for {
		m.mu.Lock()
		have, sure, change := m.have, m.sure, m.change
		m.mu.Unlock()
		switch {
		case m.isDisabled() || have && m.clock()-sure < certainFor:
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
