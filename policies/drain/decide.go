// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// drainingNode is a node that is to be empty.
type drainingNode struct {
	why string
	// by is when jobs that have nowhere to go are stopped; zero: they run to their end.
	by time.Time
}

// departingJob is a job that has to leave a node.
type departingJob struct {
	job  *sdk.Job
	node string // the most urgent
	drainingNode
}

// decideOn moves jobs off the nodes that are going, the most urgent first.
func decideOn(s *sdk.Snapshot, set Settings) []sdk.Intent {
	nodes := goingNodes(s, set)
	room := sdk.NewRoom(s)
	var intents []sdk.Intent
	moving := 0
	for i := range s.Jobs {
		if s.Jobs[i].Action != "" {
			moving++ // an action under way counts as a move already
		}
	}
	for _, l := range jobsToMove(s, nodes) {
		if moving+len(intents) >= set.Most {
			break
		}
		leaveOut := func(n int32) bool { return nodes[n].why != "" || hasSickGPU(s, l.job, n) }
		if intent, ok := moveJob(s, room, l, leaveOut); ok {
			intents = append(intents, intent)
		} else if !l.by.IsZero() && !s.Time.Before(l.by) {
			room.Give(l.job.Shares)
			intents = append(intents, sdk.Intent{Verb: sdk.Preempt, Job: l.job.Leader(), Reason: fmt.Sprintf(
				"node %s %s, and there is no room elsewhere: the job waits with its checkpoint", l.node, l.why)})
		}
	}
	return intents
}

// goingNodes says for each node whether the node is to be empty; a node that is not has no why.
func goingNodes(s *sdk.Snapshot, set Settings) []drainingNode {
	nodes := make([]drainingNode, len(s.Nodes))
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.State == sdk.NodeDraining {
			nodes[i].why = "is drained"
			if n.Reason != "" {
				nodes[i].why += " (" + n.Reason + ")"
			}
			if !n.Since.IsZero() {
				nodes[i].by = n.Since.Add(time.Duration(set.Wait))
			}
		}
	}
	for _, r := range s.Reservations {
		over := !r.End.IsZero() && !r.End.After(s.Time)
		if !r.Maintenance || over || s.Time.Before(r.Start.Add(-time.Duration(set.Lead))) {
			continue
		}
		for _, n := range r.Nodes {
			by := r.Start.Add(-time.Duration(set.Last))
			if g := &nodes[n]; g.why == "" || g.by.IsZero() || by.Before(g.by) {
				*g = drainingNode{fmt.Sprintf("closes at %s for %s", r.Start.Format(time.DateTime), r.Name), by}
			}
		}
	}
	return nodes
}

// jobsToMove is the jobs that can leave nodes which are going, the most urgent first.
func jobsToMove(s *sdk.Snapshot, nodes []drainingNode) []departingJob {
	var all []departingJob
	stay := map[sdk.JobID]bool{} // gangs of which a job cannot move
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Gang != 0 && j.Holds() && !canMove(j) {
			stay[j.Gang] = true
		}
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if !canMove(j) || stay[j.Gang] {
			continue
		}
		if l, ok := leaverOf(s, j, nodes); ok {
			all = append(all, l)
		}
	}
	slices.SortStableFunc(all, func(a, b departingJob) int {
		return cmp.Or(compareTimes(a.by, b.by), cmp.Compare(b.job.Tier, a.job.Tier), cmp.Compare(b.job.GPUs, a.job.GPUs), cmp.Compare(a.job.ID, b.job.ID))
	})
	named := map[sdk.JobID]bool{}
	return slices.DeleteFunc(all, func(l departingJob) bool { // a gang is moved once, for the first of its jobs
		again := named[l.job.Leader()]
		named[l.job.Leader()] = true
		return again
	})
}

func canMove(j *sdk.Job) bool { return j.State == sdk.Running && j.Preemptable && j.Action == "" }

// leaverOf says why the job has to leave, if it has to.
func leaverOf(s *sdk.Snapshot, j *sdk.Job, nodes []drainingNode) (l departingJob, ok bool) {
	for _, share := range j.Shares {
		g := nodes[share.Node]
		if g.why == "" && hasSickGPU(s, j, share.Node) {
			g = drainingNode{why: "has a sick GPU under the job"}
		}
		if g.why != "" && (!ok || compareTimes(g.by, l.by) < 0) {
			l, ok = departingJob{j, s.Nodes[share.Node].Name, g}, true
		}
	}
	return l, ok
}

// hasSickGPU reports whether the job holds a sick GPU of a node that is up. Slurm does not know of
// that, and might give the same GPU again: the whole node is left.
func hasSickGPU(s *sdk.Snapshot, j *sdk.Job, node int32) bool {
	n := &s.Nodes[node]
	for _, share := range j.Shares {
		if share.Node == node && n.State == sdk.NodeUp && share.GPUs&^n.Usable() != 0 {
			return true
		}
	}
	return false
}

// compareTimes orders times; the zero time comes last.
func compareTimes(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b)
}

// moveJob finds a place for the job on nodes that stay: with all its GPUs, or with fewer if the job can be shrunk,
// but not with so few that its ranks would be swapped. A gang has no places: Slurm finds them when the gang starts
// again.
func moveJob(s *sdk.Snapshot, room *sdk.Room, l departingJob, leaveOut func(int32) bool) (sdk.Intent, bool) {
	j := l.job
	if j.Gang != 0 || j.GPUs < 0 {
		return sdk.Intent{}, false
	}
	room.Give(j.Shares)
	for gpus := j.GPUs; gpus == j.GPUs || gpus >= max(j.MinGPUs, 1); gpus-- {
		if gpus < j.GPUs && j.Swaps(gpus) {
			continue
		}
		shares := room.Find(j, gpus, leaveOut)
		if shares == nil {
			continue
		}
		room.Take(shares)
		intent := sdk.Intent{Verb: sdk.Migrate, Job: j.ID, Where: s.Spots(shares), Reason: fmt.Sprintf("node %s %s", l.node, l.why)}
		if gpus != j.GPUs {
			intent.Verb, intent.GPUs = sdk.Resize, gpus
			intent.Reason += fmt.Sprintf("; elsewhere there is room for %d of its %s", gpus, sdk.CountOf(j.GPUs, "GPU"))
		}
		return intent, true
	}
	room.Take(j.Shares)
	return sdk.Intent{}, false
}
