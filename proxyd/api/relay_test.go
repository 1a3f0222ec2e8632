// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestShared: requests at the same time share an answer, and no answer is kept for later requests.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers sharedCall[int]
		calls := 0
		ask := func(context.Context) int {
			time.Sleep(time.Second)
			calls++
			return calls
		}
		for round := 1; round <= 2; round++ {
			var all sync.WaitGroup
			for range 6 {
				all.Go(func() {
					if got, err := answers.freshAnswer(t.Context(), ask); err != nil || got != round {
						t.Errorf("round %d: answer = %d, %v; want the number of the round", round, got, err)
					}
				})
			}
			all.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := answers.freshAnswer(ctx, ask); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("answer after the caller's deadline: %v; want DeadlineExceeded", err)
		}
		time.Sleep(2 * time.Second)
	})
}
