// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// jobHistory is what a look at Slurm has shown of a job, to be compared with the next look.
type jobHistory struct {
	restarts  int64
	ours      bool      // an action of preemptd's is under way
	preempted time.Time // last, by Slurm
	failed    string    // the node that failed last
	nodes     string    // where the job ran, or "" if the job did not run
	began     time.Time // the run on these nodes
	lost      string    // the work that is lost, by the job's comment
	lostRun   int64     // the newest run of which that is in the journal
}

// maxLostText limits what is recorded of a comment, which the job's user can write.
const maxLostText = 300

// lostWork matches proxyd's part of the comment of a job that lost work with the run before: how the present run began,
// and how much is lost.
var lostWork = regexp.MustCompile(`singularity: ([^;]*); ((?:at most )?[0-9hms.]+ of work are lost)`)

// findLostWork returns what a job's comment says about lost work, or "".
func findLostWork(comment string) string {
	found := lostWork.FindStringSubmatch(comment)
	if found == nil {
		return ""
	}
	return found[2] + ": " + found[1]
}

// recordForeign records events by other users and programs: a job that was requeued without an action of ours was
// requeued by Slurm, by a person or by itself. Work that a job has lost is recorded when the next run has begun: the nodes
// say so then.
func (l *Loop) recordForeign(ctx context.Context, settings Settings, seen cluster.Observation, k cluster.BuildParameters) error {
	now := make(map[int64]jobHistory, len(seen.Jobs))
	lately := seen.Time.Add(-2 * settings.Interval)
	for i := range seen.Jobs {
		j := &seen.Jobs[i]
		was, met := l.lastSeen[j.ID]
		h := historyOf(j, k.Action[j.ID] != "")
		h.lostRun = was.lostRun
		if met && !l.DryRun {
			if err := l.recordLostWork(ctx, j, was, &h, seen.Time); err != nil {
				return err
			}
			requeued, recent := j.Restarts > was.restarts, k.Acted[j.ID].After(lately)
			if requeued && !recent && !was.ours && !h.ours {
				if err := l.Journal.Note(ctx, foreignEvent(j, was, seen)); err != nil {
					return err
				}
			}
		}
		now[j.ID] = h
	}
	l.lastSeen = now
	return nil
}

// recordLostWork records the work that a job has lost when the job's comment says so for the first time, and once for
// each run: the job's user can write the comment.
func (l *Loop) recordLostWork(ctx context.Context, j *slurmrest.Job, was jobHistory, h *jobHistory, at time.Time) error {
	if h.lost == "" || h.lost == was.lost || j.Restarts <= was.lostRun {
		return nil
	}
	h.lostRun = j.Restarts
	lost := journal.Event{Job: j.ID, User: j.User, Restarts: j.Restarts, What: "work lost", At: at, Text: action.ClipText(h.lost, maxLostText)}
	return l.Journal.Note(ctx, lost)
}

func historyOf(j *slurmrest.Job, ours bool) jobHistory {
	h := jobHistory{restarts: j.Restarts, ours: ours, preempted: j.PreemptTime, failed: j.FailedNode, lost: findLostWork(j.Comment)}
	switch j.State.Base {
	case slurmrest.Running, slurmrest.Suspended:
		h.nodes, h.began = j.Nodes, j.StartTime
	}
	return h
}

// foreignEvent is an event by another user or program. Slurm keeps the time of the last preemption, and the node that
// failed last, through later requeues.
func foreignEvent(j *slurmrest.Job, was jobHistory, seen cluster.Observation) journal.Event {
	e := journal.Event{Job: j.ID, User: j.User, Restarts: j.Restarts, What: "requeued", At: seen.Time, Text: "by Slurm, a person or itself"}
	restarted, down := restartedNode(j, was, seen), downNode(was, seen)
	switch {
	case !j.PreemptTime.IsZero() && !j.PreemptTime.Equal(was.preempted):
		e.What, e.At, e.Text = "preempted", j.PreemptTime, "by Slurm"
	case j.FailedNode != "" && j.FailedNode != was.failed:
		e.What, e.Text = "node failed", j.FailedNode
	case restarted != "":
		e.What, e.Text = "node failed", restarted+", which was back at once"
	case down != "":
		e.What, e.Text = "node failed", down
	}
	return e
}

// restartNoticed bounds the time from the restart of a node until Slurm requeues the node's jobs, if Slurm has not
// missed the node.
const restartNoticed = 5 * time.Minute

// restartedNode returns the node that a requeued job has lost though Slurm names no failed node: Slurm names none if
// the node is back before Slurm misses it. The slurmd of such a node has started during the run, shortly before the
// requeue. A slurmd that was only restarted keeps its jobs: if a person requeues such a job later, the job has a
// checkpoint made since. "": there is no such node.
func restartedNode(j *slurmrest.Job, was jobHistory, seen cluster.Observation) string {
	if was.nodes == "" {
		return ""
	}
	nodes := jobrequest.HostNames(was.nodes)
	for i := range seen.Nodes {
		n := &seen.Nodes[i]
		started := n.SlurmdStartTime
		capturedSince := false
		for _, c := range seen.Checkpoints[j.Label()] {
			capturedSince = capturedSince || c.GetCreated().AsTime().After(started)
		}
		if started.After(was.began) && seen.Time.Sub(started) < restartNoticed && !capturedSince && slices.Contains(nodes, n.Name) {
			return n.Name
		}
	}
	return ""
}

// downNode returns a node on which a requeued job ran and that is down now. Slurm keeps only the name of the node
// that failed last, which does not change when the same node fails again. "": there is no such node.
func downNode(was jobHistory, seen cluster.Observation) string {
	nodes := jobrequest.HostNames(was.nodes)
	for i := range seen.Nodes {
		n := &seen.Nodes[i]
		if n.State.Base == "DOWN" && slices.Contains(nodes, n.Name) {
			return n.Name
		}
	}
	return ""
}
