// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
)

// admitting is a conductor that admits each task.
type admitting struct{ nodesocket.SrunRequests }

func (admitting) Join(context.Context, nodesocket.Join) (nodesocket.Admission, error) {
	return nodesocket.Admission{Mode: nodesocket.Plain}, nil
}

func (admitting) End(context.Context, uint32) error { return nil }

// TestGate: a task that comes while the store is away waits, its job's comment has the reason, and the task is admitted
// when the store is back. The comment has the reason no longer then.
func TestGate(t *testing.T) {
	type comment struct {
		job uint32
		why error
	}
	told := make(chan comment, 2)
	g := newConductorWait(t.Context().Done(), func(job uint32, why error) { told <- comment{job, why} })
	placed := make(chan error, 1)
	go func() {
		p, err := g.Join(t.Context(), nodesocket.Join{Job: 7})
		if err == nil && p.Mode != nodesocket.Plain {
			err = errors.New("the task is not admitted")
		}
		placed <- err
	}()
	g.setReason(shared.ErrNoStore)
	if c := <-told; c.job != 7 || !errors.Is(c.why, shared.ErrNoStore) {
		t.Errorf("the comment of job %d has %v, want that of job 7 with %v", c.job, c.why, shared.ErrNoStore)
	}
	if err := g.End(t.Context(), 8); !errors.Is(err, shared.ErrNoStore) {
		t.Errorf("an epilog meanwhile: %v", err)
	}
	select {
	case err := <-placed:
		t.Fatalf("the task does not wait: %v", err)
	default:
	}
	g.open(admitting{}, nil)
	if err := <-placed; err != nil {
		t.Error(err)
	}
	if c := <-told; c.job != 7 || c.why != nil {
		t.Errorf("after open the comment of job %d has %v, want that of job 7 without a reason", c.job, c.why)
	}
	if err := g.End(t.Context(), 8); err != nil {
		t.Error(err)
	}
	if _, err := g.Join(t.Context(), nodesocket.Join{Job: 9}); err != nil || len(told) != 0 {
		t.Errorf("Join after open: %v, and %d comments; want success without a comment", err, len(told))
	}
}

// TestWaitEnds: a request that waits ends with its task, or with the daemon.
func TestWaitEnds(t *testing.T) {
	stopped := make(chan struct{})
	g := newConductorWait(stopped, func(uint32, error) {})
	task, end := context.WithCancel(t.Context())
	end()
	if _, err := g.Join(task, nodesocket.Join{Job: 7}); !errors.Is(err, context.Canceled) {
		t.Errorf("Join of a task that has ended: %v; want Canceled", err)
	}
	g.setReason(shared.ErrNoStore)
	terminated := make(chan struct{})
	close(terminated)
	if _, err := g.Join(t.Context(), nodesocket.Join{Job: 7, Terminated: terminated}); !errors.Is(err, errEndedWhileAway) {
		t.Errorf("Slurm ends the task while the store is away: %v", err)
	}
	close(stopped)
	if _, err := g.Join(t.Context(), nodesocket.Join{Job: 7}); !errors.Is(err, errStopping) {
		t.Errorf("the daemon has ended: %v", err)
	}
	if err := g.Admit(nodesocket.Peer{}); !errors.Is(err, errStopping) {
		t.Errorf("the daemon has ended: %v", err)
	}
}
