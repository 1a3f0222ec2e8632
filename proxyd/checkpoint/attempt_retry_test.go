// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/steps"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// TestAttemptIsRepeated: an attempt is repeated after each failure that another way avoids, in any order; another failure ends the attempt.
func TestAttemptIsRepeated(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails []error // of each try
		want  error
	}{
		{"the stage is full, then the base is gone", []error{upload.ErrStageFull, upload.ErrBaseUnusable}, nil},
		{"a step begins, then the base is gone", []error{steps.ErrTasksMissing, upload.ErrBaseUnusable}, nil},
		{"a step begins, then the stage is full", []error{steps.ErrTasksMissing, upload.ErrStageFull, steps.ErrTasksMissing}, nil},
		{"devices were just restored", []error{fmt.Errorf("device server 0: %w", cut.ErrBusy)}, nil},
		{"a client logged in to the job's sshd", []error{
			fmt.Errorf("node n2: %w", markDumpError("batch", &criu.Error{Op: "dump", Err: criu.ErrNotNow})),
		}, nil},
		{"slurmctld was away when the address of a node was looked up", []error{fmt.Errorf("node n4: %w", slurm.ErrSilent)}, nil},
		{"there was no base", []error{upload.ErrBaseUnusable, upload.ErrBaseUnusable}, upload.ErrBaseUnusable},
		{"the stage is full twice", []error{upload.ErrStageFull, upload.ErrStageFull}, upload.ErrStageFull},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			c := l.bootNode("n1", t.TempDir()+"/s", nil)
			j := c.jobFor(7)
			j.mu.Lock()
			j.run.BeginNext(recordOf(7), 0, nil, nil)
			j.mu.Unlock()
			before := phases
			defer func() { phases = before }()
			left := tt.fails
			phases = []phase{{calls.PhaseDump, finishDeadline, func(*attempt, context.Context) error {
				if len(left) == 0 {
					return nil
				}
				err := left[0]
				left = left[1:]
				return err
			}, nil}}
			a, late := c.startOrJoinAttempt(j, decisions.Request{After: decisions.StaysOnNodes, Reason: "test"})
			<-a.done
			if late || len(left) > 0 || !errors.Is(a.captureErr, tt.want) {
				t.Errorf("late %v, error %v, failures not used up: %v", late, a.captureErr, left)
			}
		})
	}
}
