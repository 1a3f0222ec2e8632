// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"syscall"
	"testing"
)

// TestNextRun: how a run that has ended is followed by another.
func TestNextRun(t *testing.T) {
	const exit0, exit123 = syscall.WaitStatus(0), syscall.WaitStatus(123 << 8)
	term, kill := syscall.WaitStatus(syscall.SIGTERM), syscall.WaitStatus(syscall.SIGKILL)
	for _, c := range []struct {
		name string
		end  RunEnd
		want NextRun
	}{
		{"captured and released", RunEnd{Left: true, Ended: true, Status: kill}, Resumes},
		{"captured after its own request", RunEnd{Left: true}, Resumes},
		{"killed before its script was brought back", RunEnd{}, Resumes},
		{"killed when Slurm lost its patience", RunEnd{Ended: true, Status: kill}, Resumes},
		{"no memory", RunEnd{Ended: true, Status: kill, Resumed: true}, Resumes},
		{"could not be captured, and was told to end", RunEnd{Ended: true, Status: term, Told: true}, Resumes},
		{"the same, and ended well", RunEnd{Ended: true, Status: exit0, Told: true}, Resumes},
		{"failed with a node", RunEnd{Ended: true, Status: exit123, NodeLost: true}, Resumes},
		{"could not be restored", RunEnd{Ended: true, Status: exit0, GaveUp: true}, Resumes},
		{"RequeueExit", RunEnd{Ended: true, Status: exit123}, BeginsAnew},
		{"ended well while Slurm requeued it", RunEnd{Ended: true, Status: exit0}, BeginsAnew},
		{"ended by a signal of its own", RunEnd{Ended: true, Status: term}, BeginsAnew},
		{"requeued itself and exited", RunEnd{Ended: true, Status: exit0, Itself: true}, BeginsAnew},
		{"requeued itself from a step, and was killed", RunEnd{Ended: true, Status: kill, Itself: true}, BeginsAnew},
		{"requeued itself from a step, and was killed with its warden", RunEnd{Itself: true}, BeginsAnew},
		{"went on after its own request, and ended well", RunEnd{Ended: true, Status: exit0, Resumed: true}, BeginsAnew},
		{"went on in its handler, which fails", RunEnd{Ended: true, Status: exit123, Resumed: true}, IsRequeued},
	} {
		if got := c.end.Next(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
