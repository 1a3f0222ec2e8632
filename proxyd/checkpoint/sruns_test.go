// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
)

// countingCaller counts the sruns to start, and starts none.
type countingCaller struct{ started int }

var errCounted = errors.New("an srun would have started")

func (c *countingCaller) Start(context.Context, srun.StartSpec) (*srun.Runner, error) {
	c.started++
	return nil, errCounted
}

func (c *countingCaller) Report(string, syscall.WaitStatus) error { return nil }

// TestSrunOfEndedCaller: a caller ends before its srun is started, between any two reads by its PID. No srun is
// started: it would have the rights of the caller, and the cgroups of the process that has its PID now.
func TestSrunOfEndedCaller(t *testing.T) {
	errEnded := errors.New("the caller has ended")
	for _, tt := range []struct {
		name     string
		saysNo   int // which look finds that the caller has ended; 0: no look
		isNewKey bool
		started  int
		want     error
	}{
		{"alive", 0, true, 1, errCounted},
		{"ended while it waited", 1, false, 0, errEnded},
		{"ended while its cgroups were read", 2, true, 0, errEnded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, lc := leaseConductor(t, kindSoft)
			lc.note.WardenPIDs = map[string]int{}
			warden, err := processes.NewProcess(os.Getpid())
			noError(t, err)
			lc.note.setWarden(records.BatchProgram, warden)
			lc.j.run.BeginNext(&records.Record{Job: 7, UID: 1001, Nodes: []string{"n1"}}, 0, []string{"n1"}, nil)
			looks, caller := 0, &countingCaller{}
			err = lc.startSrun(t.Context(), srunCall{who: nodesocket.Peer{PID: os.Getpid(), UID: 1001}, caller: caller, checkAlive: func() error {
				if looks++; looks == tt.saysNo {
					return errEnded
				}
				return nil
			}})
			if !errors.Is(err, tt.want) || caller.started != tt.started {
				t.Errorf("%v, and %d sruns were started", err, caller.started)
			}
			if isNew := lc.note.SrunKeys > 0; isNew != tt.isNewKey {
				t.Errorf("a key was given: %v", isNew)
			}
		})
	}
}

// TestCallerEndedAtTheDoor: a capsule that was found by the PID of a caller counts only if the caller is alive after
// that.
func TestCallerEndedAtTheDoor(t *testing.T) {
	c, _ := leaseConductor(t, kindSoft)
	c.jobs.findJob(7).capsules = nil
	err := c.SrunRequests().Admit(nodesocket.Peer{PID: os.Getpid(), UID: 1001}) // a Peer without a pidfd has ended
	if err == nil || !strings.Contains(err.Error(), "the caller has ended") {
		t.Error(err)
	}
}
