// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// RunEnd says how this run of a job has ended. Only the leader knows. It must be called while
// the run's capsules are there.
func (e runEnding) runEnd(ctx context.Context) decisions.RunEnd {
	j := e.j
	j.mu.Lock()
	lc := j.capsules[0]
	j.mu.Unlock()
	snap := j.run.Snapshot()
	end := decisions.RunEnd{
		Released: snap.HasBeen(runs.Released), Terminated: snap.HasBeen(runs.Terminated), GivenUp: snap.HasBeen(runs.GivenUp), RequeuedItself: snap.HasBeen(runs.RequeuedItself),
		ResumedOwnRequeue: snap.Point != nil && snap.Point.Meta.Itself,
	}
	if lc == nil {
		return end
	}
	all, err := lc.capsule.Ended(ctx)
	if err != nil {
		return end
	}
	end.Status, end.ScriptEnded = all[records.BatchProgram]
	if end.ScriptEnded && end.Next() != decisions.Resumes {
		end.NodeLost = e.lostNode(ctx)
	}
	return end
}

// lostNode says whether a node of the run stays without an answer. A script that lost a node may have
// ended for that, which is none of its own doing. A daemon that is restarting has not lost its job.
func (e runEnding) lostNode(ctx context.Context) bool {
	j := e.j
	for _, node := range j.run.Snapshot().Placement.ThisRun {
		if node == j.c.Node {
			continue
		}
		err := j.c.callNodeRetrying(ctx, unreachableTimeout, node, j.id, calls.Unrestored, calls.Empty{}, nil)
		if errors.Is(err, ErrAway) {
			return true
		}
	}
	return false
}

// noteEnd remembers that the next run is to begin anew, before Slurm can begin it.
func (e runEnding) noteEnd(n decisions.NextRun) error {
	j := e.j
	if n == decisions.Resumes {
		return nil
	}
	return j.run.ChangeRecord(j.c.records.Save, func(rec *records.Record) bool {
		changed := !rec.BeginAnew
		rec.BeginAnew = true
		return changed
	})
}

// handlerWithin is how long a program that had its own job requeued may take to end by itself
// before it is captured. Slurm's KillWait is 30 s by default.
const handlerWithin = 10 * time.Second

// NoteRequeue remembers that a program of a capsule is about to have Slurm requeue a job. What a person types in a shell,
// as in a session, is not noted: it counts like a requeue from elsewhere. Such a shell is no handler of which the end
// would be waited for, and its exit status is the person's.
func (s SrunRequests) NoteRequeue(ctx context.Context, who nodesocket.Peer) error {
	c := s.c
	j, lc, err := s.callerCapsule(who)
	if err != nil {
		return err
	}
	program, err := programOf(ctx, lc.capsule, who.PID)
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
	return c.callNode(ctx, j.leaderNode(), j.id, 0, calls.AsksRequeue, asked, nil)
}

// asksThere is told, on the leader, that a program of the job asks for a requeue.
func (j *job) asksThere(_ context.Context, _ store.ID, r runs.Requester) (calls.Empty, error) {
	r.At = time.Now() // clocks of nodes differ
	j.termination.NoteRequester(&r)
	return calls.Empty{}, nil
}

// runsHere says whether a program of this node still runs.
func (j *job) runsHere(ctx context.Context, _ store.ID, r runs.Requester) (bool, error) {
	j.mu.Lock()
	lc := j.capsules[r.Capsule]
	j.mu.Unlock()
	if lc == nil {
		return false, nil
	}
	all, err := processes.RunningPrograms(ctx, lc.capsule)
	return slices.ContainsFunc(all, func(p capsule.Program) bool { return p.Name == r.Program }), err
}

// programOf finds the program of a capsule that a process belongs to.
func programOf(ctx context.Context, c *capsule.Capsule, pid int) (string, error) {
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

// endsItself waits until a program that had its own job requeued has ended, or the BatchProgram
// script has. It says no when that program goes on.
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
		var runs bool
		if err := j.c.callNode(ctx, r.Node, j.id, 0, calls.ProgramRuns, *r, &runs); err != nil {
			return false
		}
		if !runs || !runsBatchScript(ctx, lc) {
			return ctx.Err() == nil
		}
		if !sleepUnlessDone(ctx, pollInterval) {
			return false
		}
	}
}
