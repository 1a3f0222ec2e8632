// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// TestNotRunning: a job that cannot be captured is told apart from one without protection.
func TestNotRunning(t *testing.T) {
	for _, tt := range []struct {
		job        slurm.Job
		text, hint string
	}{
		{slurm.Job{State: "COMPLETED"}, "job 7 has ended: COMPLETED", "singctl checkpoints 7 lists what is left of it"},
		{slurm.Job{State: "CANCELLED", Restarts: 1}, "job 7 has ended: CANCELLED", "singctl checkpoints 7 lists what is left of it"},
		{slurm.Job{State: "PENDING"}, "job 7 has not begun yet: PENDING", ""},
		{slurm.Job{State: "PENDING", Restarts: 1}, "job 7 is not running: PENDING", ""},
		{slurm.Job{State: "COMPLETING"}, "job 7 is not running: COMPLETING", "it is about to end"},
	} {
		err := notRunning("7", &tt.job)
		var e *rpc.Error
		if !errors.As(err, &e) || !errors.Is(err, rpc.ErrNotRunning) || e.Text != tt.text || e.Hint != tt.hint {
			t.Errorf("%+v: %+v", tt.job, e)
		}
	}
}

func TestFill(t *testing.T) {
	at := time.Unix(1, 0)
	out := &rpc.Job{Id: "49"}
	fillJob(out, &checkpoint.View{
		Record:    records.Record{Slurm: "48_3"},
		Obstacles: []processes.Obstacle{{What: "x", Node: "n2", Since: at}, {What: "y"}},
		Events:    []records.Event{{At: at, What: "started", Where: "n1,n2"}},
	})
	if out.Id != "48_3" || out.Obstacles[0].Node != "n2" || out.Obstacles[0].Since.AsTime() != at.UTC() || out.Obstacles[1].Since != nil || out.Timeline[0].Where != "n1,n2" {
		t.Errorf("%v", out)
	}
}

// TestStored: what the store says reaches people as what it is.
func TestStored(t *testing.T) {
	for _, tt := range []struct{ err, kind error }{
		{&store.DamagedError{Object: "manifest a/1/1", Reason: "not a manifest"}, rpc.ErrDamaged},
		{fmt.Errorf("open: %w", &store.RefusedError{Object: "manifest a/1/1", Why: store.ErrMAC}), rpc.ErrDamaged},
		{fmt.Errorf("collect: %w", store.ErrBusy), rpc.ErrBusy},
		{fmt.Errorf("manifest a/1/1: %w", fs.ErrNotExist), rpc.ErrNoCheckpoint},
		{context.Canceled, context.Canceled},
	} {
		if got := withStoreKind(tt.err); !errors.Is(got, tt.kind) || got.Error() != tt.err.Error() {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}
