// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmresttest_test

import (
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// TestExample is how another package's test uses the fake: a job that is requeued
// and held, edited, and released.
func TestExample(t *testing.T) {
	s := slurmresttest.Start(t, slurmresttest.Options{Release: "26.05.3"})
	id := s.AddJob(slurmrest.Job{Name: "train", Batch: true, Requeueable: true})
	s.StartJob(id, "n1", "n2")

	c := s.Client(t)
	ref := slurmrest.JobID(id)
	if _, err := c.RequeueHold(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	s.Settle(id) // the last epilog has ended
	nodes := "n3"
	if err := c.Update(t.Context(), ref, slurmrest.JobUpdate{RequiredNodes: &nodes}); err != nil {
		t.Fatal(err)
	}
	if err := c.Release(t.Context(), ref, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	job, _ := s.Job(id)
	if job.Held || job.Restarts != 1 || job.RequiredNodes != "n3" || job.Nodes != "" {
		t.Errorf("the job after its release = %+v", job)
	}
}
