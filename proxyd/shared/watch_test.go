// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package shared_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
)

// TestWatch has many callers look at a folder of a file system that does not answer: a single system call
// hangs, no caller hangs, and all callers get the answer once the file system answers.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w shared.Watch
		var calls atomic.Int32
		away := errors.New("away")
		answers := make(chan struct{}) // closed when the file system shall answer
		check := func() error { calls.Add(1); <-answers; return away }
		ask := func() []error {
			errs := make([]error, 20)
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() { errs[i] = w.CheckNow(t.Context(), check) })
			}
			all.Wait()
			return errs
		}
		for range 3 {
			for _, err := range ask() {
				if !errors.Is(err, shared.ErrSilent) {
					t.Fatalf("while the file system does not answer: %v", err)
				}
			}
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls hang, want 1", n)
		}
		close(answers)
		synctest.Wait()
		for _, err := range ask() {
			if !errors.Is(err, away) {
				t.Errorf("the file system answers: %v", err)
			}
		}
	})
}
