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
		{"captured and released", RunEnd{Released: true, ScriptEnded: true, Status: kill}, Resumes},
		{"captured after its own request", RunEnd{Released: true}, Resumes},
		{"killed before its script was brought back", RunEnd{}, Resumes},
		{"killed when Slurm lost its patience", RunEnd{ScriptEnded: true, Status: kill}, Resumes},
		{"no memory", RunEnd{ScriptEnded: true, Status: kill, ResumedOwnRequeue: true}, Resumes},
		{"could not be captured, and was told to end", RunEnd{ScriptEnded: true, Status: term, Terminated: true}, Resumes},
		{"the same, and ended well", RunEnd{ScriptEnded: true, Status: exit0, Terminated: true}, Resumes},
		{"failed with a node", RunEnd{ScriptEnded: true, Status: exit123, NodeLost: true}, Resumes},
		{"could not be restored", RunEnd{ScriptEnded: true, Status: exit0, GivenUp: true}, Resumes},
		{"RequeueExit", RunEnd{ScriptEnded: true, Status: exit123}, BeginsAnew},
		{"ended well while Slurm requeued it", RunEnd{ScriptEnded: true, Status: exit0}, BeginsAnew},
		{"ended by a signal of its own", RunEnd{ScriptEnded: true, Status: term}, BeginsAnew},
		{"requeued itself and exited", RunEnd{ScriptEnded: true, Status: exit0, RequeuedItself: true}, BeginsAnew},
		{"requeued itself from a step, and was killed", RunEnd{ScriptEnded: true, Status: kill, RequeuedItself: true}, BeginsAnew},
		{"requeued itself from a step, and was killed with its warden", RunEnd{RequeuedItself: true}, BeginsAnew},
		{"went on after its own request, and ended well", RunEnd{ScriptEnded: true, Status: exit0, ResumedOwnRequeue: true}, BeginsAnew},
		{"went on in its handler, which fails", RunEnd{ScriptEnded: true, Status: exit123, ResumedOwnRequeue: true}, IsRequeued},
	} {
		if got := c.end.Next(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestDescribeOwnRequeue: a run that asked for its requeue, and ended, says why the next run begins anew.
func TestDescribeOwnRequeue(t *testing.T) {
	const anew = "after it had asked for its requeue: the next run begins anew"
	for _, c := range []struct {
		end  RunEnd
		want string
	}{
		{RunEnd{ScriptEnded: true, RequeuedItself: true}, "by itself (exit 0) " + anew},
		{RunEnd{ScriptEnded: true, RequeuedItself: true, Status: 3 << 8}, "by itself (exit 3) " + anew},
		{RunEnd{ScriptEnded: true, RequeuedItself: true, Status: syscall.WaitStatus(syscall.SIGTERM)}, "by a signal (terminated) " + anew},
		{RunEnd{RequeuedItself: true}, anew},
		{RunEnd{ScriptEnded: true}, ""},
		{RunEnd{RequeuedItself: true, Released: true}, ""},
	} {
		if got := c.end.DescribeOwnRequeue(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.end, got, c.want)
		}
	}
}

// TestCutRun: in which runs a script was killed, or did not come to its end, although neither the job nor this software has
// ended the run.
func TestCutRun(t *testing.T) {
	kill := syscall.WaitStatus(syscall.SIGKILL)
	for _, c := range []struct {
		name string
		end  RunEnd
		want bool
	}{
		{"its script was killed", RunEnd{ScriptEnded: true, Status: kill}, true},
		{"its script was killed after its own requeue", RunEnd{ScriptEnded: true, Status: kill, ResumedOwnRequeue: true}, true},
		{"its script had not begun", RunEnd{}, true},
		{"its script failed", RunEnd{ScriptEnded: true, Status: 1 << 8}, false},
		{"its script failed with a node", RunEnd{ScriptEnded: true, Status: 1 << 8, NodeLost: true}, false},
		{"its script ended by SIGTERM", RunEnd{ScriptEnded: true, Status: syscall.WaitStatus(syscall.SIGTERM)}, false},
		{"captured", RunEnd{ScriptEnded: true, Status: kill, Released: true}, false},
		{"given up", RunEnd{GivenUp: true}, false},
		{"told to end", RunEnd{ScriptEnded: true, Status: kill, Terminated: true}, false},
		{"requeued itself", RunEnd{ScriptEnded: true, Status: kill, RequeuedItself: true}, false},
	} {
		if got := c.end.IsCut(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
