// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest_test

import (
	"errors"
	"slices"
	"testing"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// TestObserve: Observe is called with every request that was sent, also with a request that failed or was sent again. The
// names of endpoints contain no job ids and no names of objects, so the number of endpoints stays small.
func TestObserve(t *testing.T) {
	srv := slurmresttest.Start(t, slurmresttest.Options{})
	srv.AddQOS(slurmrest.QOS{Name: "basic"})
	id := srv.AddJob(slurmrest.Job{Batch: true})
	var told []slurmrest.Exchange
	cfg := srv.Config()
	cfg.Observe = func(e slurmrest.Exchange) { told = append(told, e) }
	c, err := slurmrest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	slurmrest.NoPauses(c)
	if _, err := c.Job(t.Context(), slurmrest.JobID(id)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.QOS(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Fail(slurmresttest.Fault{Slurm: 1800})
	if _, err := c.Nodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Job(t.Context(), slurmrest.JobID(99)); !errors.Is(err, slurmrest.ErrInvalidJobID) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range told {
		outcome := "well"
		switch {
		case errors.Is(e.Err, slurmrest.ErrController):
			outcome = "controller away"
		case e.Err != nil:
			outcome = "refused"
		}
		if e.Took <= 0 {
			t.Errorf("exchange %+v has no duration", e)
		}
		got = append(got, e.Method+" "+e.Endpoint+" "+outcome)
	}
	want := []string{"GET ping well", "GET job well", "GET slurmdb/qos well", "GET nodes controller away", "GET nodes well", "GET job refused"}
	if !slices.Equal(got, want) {
		t.Errorf("requests observed: %q, want %q", got, want)
	}
}
