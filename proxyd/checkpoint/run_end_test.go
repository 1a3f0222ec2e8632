// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNextRun: how a run that has ended is followed by another.
func TestNextRun(t *testing.T) {
	const exit0, exit123 = syscall.WaitStatus(0), syscall.WaitStatus(123 << 8)
	term, kill := syscall.WaitStatus(syscall.SIGTERM), syscall.WaitStatus(syscall.SIGKILL)
	for _, c := range []struct {
		name string
		end  runEnd
		want nextRun
	}{
		{"captured and released", runEnd{left: true, ended: true, status: kill}, resumes},
		{"captured after its own request", runEnd{left: true}, resumes},
		{"killed before its script was brought back", runEnd{}, resumes},
		{"killed when Slurm lost its patience", runEnd{ended: true, status: kill}, resumes},
		{"no memory", runEnd{ended: true, status: kill, resumed: true}, resumes},
		{"could not be captured, and was told to end", runEnd{ended: true, status: term, told: true}, resumes},
		{"the same, and ended well", runEnd{ended: true, status: exit0, told: true}, resumes},
		{"failed with a node", runEnd{ended: true, status: exit123, nodeLost: true}, resumes},
		{"could not be restored", runEnd{ended: true, status: exit0, gaveUp: true}, resumes},
		{"RequeueExit", runEnd{ended: true, status: exit123}, beginsAnew},
		{"ended well while Slurm requeued it", runEnd{ended: true, status: exit0}, beginsAnew},
		{"ended by a signal of its own", runEnd{ended: true, status: term}, beginsAnew},
		{"requeued itself and exited", runEnd{ended: true, status: exit0, itself: true}, beginsAnew},
		{"requeued itself from a step, and was killed", runEnd{ended: true, status: kill, itself: true}, beginsAnew},
		{"requeued itself from a step, and was killed with its warden", runEnd{itself: true}, beginsAnew},
		{"went on after its own request, and ended well", runEnd{ended: true, status: exit0, resumed: true}, beginsAnew},
		{"went on in its handler, which fails", runEnd{ended: true, status: exit123, resumed: true}, isRequeued},
	} {
		if got := c.end.next(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestLeadsBeforeFirstTask: Slurm may end a run while its first task still waits for a place. No
// node is known to lead the job then.
func TestLeadsBeforeFirstTask(t *testing.T) {
	c := newLab(t).boot("n1", filepath.Join(t.TempDir(), "stage"), nil)
	if c.jobFor(7).leads() {
		t.Error("a node leads a job of which nothing is known")
	}
}

// TestStatesToRequeue: which ends of a run are none of the job's own doing.
func TestStatesToRequeue(t *testing.T) {
	for _, c := range []struct {
		name     string
		released bool
		had      progress
		next     nextRun
		limit    string
		want     string
	}{
		{"ran", false, ran, beginsAnew, "requeue", ""},
		{"captured", true, ran, resumes, "requeue", "COMPLETED FAILED NODE_FAIL"},
		{"its handler failed", false, ran, isRequeued, "requeue", "FAILED"},
		{"not restored yet", false, unrestored, resumes, "requeue", "FAILED NODE_FAIL TIMEOUT"},
		{"not restored yet, and the limit ends jobs", false, unrestored, resumes, "end", "FAILED NODE_FAIL"},
		{"not started yet", false, unstarted, resumes, "hold", "TIMEOUT"},
		{"not started yet, and the limit ends jobs", false, unstarted, resumes, "end", ""},
	} {
		if got := strings.Join(statesToRequeue(c.released, c.had, c.next, c.limit), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
