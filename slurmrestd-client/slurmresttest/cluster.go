// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmresttest

import (
	"fmt"
	"slices"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// AddJob adds a job and returns its id; a job without an id gets a new id. A job without a state is
// pending.
func (s *Server) AddJob(job slurmrest.Job) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addJob(job)
}

// addJob is AddJob. Caller holds s.mu.
func (s *Server) addJob(job slurmrest.Job) int64 {
	if job.ID == 0 {
		job.ID = s.nextID
	}
	s.nextID = max(s.nextID, job.ID+1)
	if job.State.Base == "" {
		job.State.Base = slurmrest.Pending
	}
	if job.SubmitTime.IsZero() {
		job.SubmitTime = s.currentTime()
	}
	if !job.Priority.Set {
		job.Priority = slurmrest.Num(1000)
	}
	job.Cluster = s.opt.Cluster
	s.jobs[job.ID] = &job
	s.lastChange = s.currentTime()
	return job.ID
}

// Job returns a copy of a job in its present state.
func (s *Server) Job(id int64) (slurmrest.Job, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	job, ok := s.jobs[id]
	if !ok {
		return slurmrest.Job{}, false
	}
	return *job, true
}

// EditJob changes a job in any way, and panics if there is no such job.
func (s *Server) EditJob(id int64, edit func(*slurmrest.Job)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	job, ok := s.jobs[id]
	if !ok {
		panic(fmt.Sprintf("slurmresttest: no job %d", id))
	}
	edit(job)
	s.lastChange = s.currentTime()
}

// StartJob makes a job run on nodes, the first of which is its batch host.
func (s *Server) StartJob(id int64, nodes ...string) {
	s.EditJob(id, func(j *slurmrest.Job) {
		j.State = slurmrest.State{Base: slurmrest.Running}
		j.StartTime = s.currentTime()
		j.Reason = "None"
		j.NodeCount = slurmrest.Num(int64(len(nodes)))
		j.Nodes, j.Layout = "", nil
		for i, node := range nodes {
			if i > 0 {
				j.Nodes += ","
			}
			j.Nodes += node
			j.Layout = append(j.Layout, slurmrest.NodeLayout{Node: node, CPUs: 1, Memory: 100})
		}
		if len(nodes) > 0 {
			j.BatchHost = nodes[0]
		}
	})
}

// Settle ends COMPLETING, as the last epilog does: a requeued job becomes plainly
// pending, with the delay that Slurm imposes after a requeue.
func (s *Server) Settle(id int64) {
	s.EditJob(id, func(j *slurmrest.Job) {
		j.State.Flags &^= slurmrest.Completing
		if j.State.Base != slurmrest.Pending {
			return
		}
		j.Nodes, j.BatchHost, j.Layout = "", "", nil
		j.StartTime, j.EndTime = time.Time{}, time.Time{}
		j.SubmitTime = s.currentTime()
		if j.EligibleTime.Before(s.currentTime()) {
			j.EligibleTime = s.currentTime().Add(requeueDelay)
		}
	})
}

// requeueDelay is Slurm's: the life of a credential and a second.
const requeueDelay = 121 * time.Second

// EndJob ends a job, which is not requeued.
func (s *Server) EndJob(id int64, state slurmrest.BaseState, exit slurmrest.ExitCode) {
	s.EditJob(id, func(j *slurmrest.Job) {
		j.State = slurmrest.State{Base: state}
		j.EndTime = s.currentTime()
		j.ExitCode = exit
	})
}

// RemoveJob makes slurmctld forget a job, as happens MinJobAge after the end.
func (s *Server) RemoveJob(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, id)
	s.lastChange = s.currentTime()
}

// Signals returns the signals that a job got.
func (s *Server) Signals(id int64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.signals[id])
}

// OnSignal has a function called after each signal that does not end the job, with
// no lock held: a job's reaction.
func (s *Server) OnSignal(react func(id int64, signal string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onSignal = react
}

// ExitRequeue does with a job as slurmctld when it exits with RequeueExit=: the job is pending again, held if
// its priority was 0.
func (s *Server) ExitRequeue(id int64) {
	s.EditJob(id, func(j *slurmrest.Job) { requeueJob(j, false) })
}

// requeueJob puts a running job back into the queue.
func requeueJob(j *slurmrest.Job, hold bool) {
	j.State = slurmrest.State{Base: slurmrest.Pending, Flags: slurmrest.Completing}
	j.Restarts++
	j.Reason = "BeginTime"
	if hold {
		j.Held, j.Priority, j.Reason = true, slurmrest.Num(0), "JobHeldUser"
	}
}

// AddNode adds a node; a node without a state is idle.
func (s *Server) AddNode(node slurmrest.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if node.State.Base == "" {
		node.State.Base = "IDLE"
	}
	s.nodes = append(s.nodes, node)
}

// Node returns a node in its present state.
func (s *Server) Node(name string) (slurmrest.Node, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if n.Name == name {
			return n, true
		}
	}
	return slurmrest.Node{}, false
}

// AddPartition adds a partition.
func (s *Server) AddPartition(p slurmrest.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partitions = append(s.partitions, p)
}

// AddQOS adds a QOS.
func (s *Server) AddQOS(q slurmrest.QOS) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.qos = append(s.qos, q)
}

// AddReservation adds a reservation.
func (s *Server) AddReservation(r slurmrest.Reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reservations = append(s.reservations, r)
}
