// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// handlerWithin is how long a program that had its own job requeued may take to end by itself
// before it is captured. Slurm's KillWait is 30 s by default.
const handlerWithin = 10 * time.Second

// NoteRequeue remembers that a program of a capsule is about to have Slurm requeue a job. A requeue that a person types
// in a shell, as in a session, is not noted: it counts like a requeue from elsewhere. The daemon does not wait for the
// end of such a shell, because it is no handler, and its exit status is the person's.
func (s SrunRequests) NoteRequeue(ctx context.Context, who nodesocket.Peer) error {
	c := s.c
	j, lc, err := s.callerCapsule(who)
	if err != nil {
		return err
	}
	program, err := findProgram(ctx, lc.capsule, who.PID)
	var typed bool
	if err == nil {
		typed, err = processes.HasTerminal(who.PID)
	}
	if err == nil {
		err = who.Alive() // else the PID may be another process's
	}
	if err != nil {
		return err
	}
	if typed {
		j.log.Info("a person asks Slurm for a requeue, on a terminal of the job", "capsule", lc.index, "program", program)
		return nil
	}
	j.log.Info("a program asks Slurm for a requeue", "capsule", lc.index, "program", program)
	asked := runs.Requester{Node: c.Node, Capsule: lc.index, Program: program, At: time.Now()}
	_, err = callNode(ctx, c, j.leaderNode(), j.id, 0, calls.AsksRequeue, asked)
	return err
}

// noteRequesterHere notes, on the leader, that a program of the job asks for a requeue.
func (j *job) noteRequesterHere(_ context.Context, _ store.ID, r runs.Requester) (calls.Empty, error) {
	r.At = time.Now() // clocks of nodes differ
	j.termination.NoteRequester(&r)
	return calls.Empty{}, nil
}

// programRunsHere tells whether a program of this node still runs.
func (j *job) programRunsHere(ctx context.Context, _ store.ID, r runs.Requester) (bool, error) {
	j.mu.Lock()
	lc := j.capsules[r.Capsule]
	j.mu.Unlock()
	if lc == nil {
		return false, nil
	}
	all, err := processes.RunningPrograms(ctx, lc.capsule)
	return slices.ContainsFunc(all, func(p capsule.Program) bool { return p.Name == r.Program }), err
}

// findProgram finds the program of a capsule that a process belongs to.
func findProgram(ctx context.Context, c *capsule.Capsule, pid int) (string, error) {
	all, err := processes.RunningPrograms(ctx, c)
	if err != nil {
		return "", err
	}
	for pid > 1 {
		for _, p := range all {
			if p.HostPID == pid {
				return p.Name, nil
			}
		}
		if pid, err = processes.ParentPID(pid); err != nil {
			return "", err
		}
	}
	return "", errNoProgram
}

// endsItself waits until a program that had its own job requeued has ended, or the batch script has ended. It returns false if
// that program goes on for handlerWithin.
func (j *job) endsItself(ctx context.Context, r *runs.Requester) bool {
	j.mu.Lock()
	lc := j.capsules[0]
	j.mu.Unlock()
	if lc == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, handlerWithin)
	defer cancel()
	for {
		stillRuns, err := callNode(ctx, j.c, r.Node, j.id, 0, calls.ProgramRuns, *r)
		if err != nil {
			return false
		}
		if !stillRuns || !runsBatchScript(ctx, lc) {
			return ctx.Err() == nil
		}
		if !waits.SleepUnlessDone(ctx, pollInterval) {
			return false
		}
	}
}
