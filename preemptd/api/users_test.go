// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestLookedUpOnce: a caller with many requests at a time does not start a process for each, and the other callers
// get their answers though a caller goes away.
func TestLookedUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		answer := make(chan struct{})
		p := newPeople(nil, Programs{}, "test")
		p.ask = func(ctx context.Context, _ string, _ ...string) (string, error) {
			asked.Add(1)
			select {
			case <-answer:
				return "alice", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		var all sync.WaitGroup
		first, leave := context.WithCancel(t.Context())
		all.Go(func() {
			if _, err := p.lookUpPerson(first, alice); !errors.Is(err, context.Canceled) {
				t.Errorf("a caller that went away: %v", err)
			}
		})
		synctest.Wait()
		for range 100 {
			all.Go(func() {
				if one, err := p.lookUpPerson(t.Context(), alice); err != nil || one.name != "alice" {
					t.Errorf("personOf(alice) = %+v, %v", one, err)
				}
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		close(answer)
		all.Wait()
	})
}
