// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"fmt"
	"time"
)

// JobID is Slurm's number of a job, unique in the cluster. A started task of an array has a
// number of its own; the tasks that have not started are a single job.
type JobID int64

// Job is a job that has not ended.
type Job struct {
	ID        JobID
	Label     string // as people name the job: "812", "812_3", "812+1"
	Name      string
	User      string
	Account   string
	Partition string
	QOS       string
	// Reservation that the job runs in: on its nodes only, and no other's. Empty: no reservation.
	Reservation string
	Priority    int64 // Slurm's
	// Gang is the leader of the jobs that only run together: the components of a heterogeneous
	// job. 0: the job is alone. An intent names the leader and means all.
	Gang JobID

	State    JobState
	HeldBy   Holder
	Action   string // preemptd's action under way on the job: "preempt", "migrate", …; empty: none
	Restarts int    // how often the job was requeued
	// Comment tells a person about the job. A policy decides nothing by a comment.
	Comment string

	Tier     Tier
	Promised float64       // GPU fraction
	Fraction float64       // GPU fraction over the window, so far; 1 while no time has counted yet
	Counted  time.Duration // of the window in which the job could have run

	// Preemptable says that the job has a capsule: it can be checkpointed, and loses no work.
	Preemptable bool
	Obstacle    string // why the job is not preemptable

	// The job's request. A capsule is never split and has the same CPUs and memory for life; several may share a node.
	Tasks    int      // world size; never changes
	Capsules int      // nodes that its user asked for
	CPUs     int      // of each capsule
	Memory   int64    // MiB of each capsule
	Kind     string   // of GPU; empty: any
	Features []string // that each of its nodes must have
	Request  int      // GPUs that its user asked for, of all capsules: its fraction is counted by them
	GPUs     int      // that the job holds or, while it does not run, waits for
	Leased   int      // of GPUs, those that leases lend to the job: jobs of its user that hold them for it
	MinGPUs  int      // the bounds of a resize; the same if the job cannot be resized, or a person chose its size
	MaxGPUs  int
	// Fullest is for 1, 2, … GPUs of each capsule, up to one for each rank, which part of a GPU's memory the fullest of
	// them would need by the newest checkpoint. State that ranks hold alike counts once. Above 1 the ranks there would
	// be swapped. Empty: not known.
	Fullest  []float64
	Required []int32 // nodes that the job must have, places in Snapshot.Nodes
	Excluded []int32 // nodes that the job must not have
	// Shares are what the job holds, in order of nodes, and the shares that an Action in progress keeps for the job.
	Shares []Share

	Submitted time.Time
	Eligible  time.Time     // since when, or from when on, the job could run
	Started   time.Time     // this run; zero unless the job holds something
	Limit     time.Duration // of this run; 0: none
	Acted     time.Time     // when the job was last preempted, moved or resized; zero: never

	Checkpoint Checkpoint
	// PauseInPlace is for how long the job stands still while leases give it more GPUs of its nodes, or take GPUs back
	// that they lent it. 0: no job can lend it GPUs, and each resize takes a checkpoint and a restore.
	PauseInPlace time.Duration
}

// JobState is the state of a job.
type JobState uint8

// The states of a job.
const (
	Waiting   JobState = iota // would run if there was room
	Deferred                  // waits for something else than room: a dependency, a time
	Held                      // HeldBy says by which holder
	Running                   //
	Suspended                 // Slurm has stopped the job, which keeps its shares
	Leaving                   // is being requeued or ends: the job holds its shares until it has gone
	JobStates = 6             // how many states there are
)

var jobStateNames = [JobStates]string{"waiting", "deferred", "held", "running", "suspended", "leaving"}

func (s JobState) String() string {
	if int(s) < len(jobStateNames) {
		return jobStateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Holder is the kind of user or program that holds a job.
type Holder uint8

// The holders of a job.
const (
	HeldByNobody   Holder = iota
	HeldByUser            // the job's owner: only people release the hold
	HeldByOperator        // likewise
	HeldByPreemptd        // parked by an intent: Resume or Release ends the hold
	Holders        = 4    // how many holders there are
)

var holderNames = [Holders]string{"", "user", "operator", "preemptd"}

// String is empty for HeldByNobody.
func (h Holder) String() string {
	if int(h) < len(holderNames) {
		return holderNames[h]
	}
	return fmt.Sprintf("holder %d", uint8(h))
}

// Tier is the promise that a job has.
type Tier uint8

// The tiers, lowest first: a higher tier is a larger number.
const (
	Basic    Tier = iota // best effort
	Standard             // 0.70 of its GPU time
	Premium              // 0.95 of its GPU time
	Tiers    = 3         // how many there are
)

var tierNames = [Tiers]string{"basic", "standard", "premium"}

func (t Tier) String() string {
	if int(t) < len(tierNames) {
		return tierNames[t]
	}
	return fmt.Sprintf("tier %d", uint8(t))
}

// ParseTier is the reverse of String.
func ParseTier(name string) (Tier, error) {
	for t, n := range tierNames {
		if n == name {
			return Tier(t), nil
		}
	}
	return 0, fmt.Errorf("there is no tier %q: premium, standard or basic", name)
}

// Share is the part of a node that a job holds.
type Share struct {
	Node     int32 // place in Snapshot.Nodes
	Capsules int32 // that stand there
	GPUs     GPUSet
	CPUs     int32
	Memory   int64 // MiB
}

// Checkpoint describes a job's checkpoints and their cost.
type Checkpoint struct {
	At       time.Time     // of the newest; zero: the job has no checkpoint
	Bytes    int64         // that the checkpoint takes
	Dump     time.Duration // for which the job stands still during a checkpoint
	Restore  time.Duration // from the start of a run until the program goes on
	Measured bool          // Dump and Restore were measured on this job; else they are estimates
}

// Budget is for how long the job can stand still in this window before the promise to the job is broken: negative
// when it is broken already, and a very long time if the job has no promise.
func (j *Job) Budget(r Rules) time.Duration {
	if j.Promised <= 0 {
		return 1<<63 - 1
	}
	allowed := (1 - j.Promised) * float64(r.Window)
	lost := (1 - j.Fraction) * float64(min(j.Counted, r.Window))
	return time.Duration(allowed - lost)
}

// Pause is for how long the job stands still when it leaves its nodes and comes back: for a dump and a restore.
func (j *Job) Pause() time.Duration { return j.Checkpoint.Dump + j.Checkpoint.Restore }

// ResizePause is for how long the job stands still to have so many GPUs in all on the nodes that it has now. It keeps
// its nodes if leases can give or take the difference: its own GPUs are only taken by a requeue.
func (j *Job) ResizePause(gpus int) time.Duration {
	if j.PauseInPlace > 0 && j.Holds() && gpus >= j.GPUs-j.Leased && gpus <= j.MaxGPUs {
		return j.PauseInPlace
	}
	return j.Pause()
}

// LeastSize is the smallest size of a job, from least up to wanted GPUs, at which the ranks that share a GPU fit there;
// wanted if there is no such size. fits is asked for sizes of which each of so many nodes can have the same part, and
// for sizes that are on fewer nodes.
func LeastSize(least, wanted, nodes int, fits func(gpus int) bool) int {
	for gpus := least; gpus < wanted; gpus++ {
		if (gpus < nodes || gpus%nodes == 0) && fits(gpus) {
			return gpus
		}
	}
	return wanted
}

// Holds reports whether the job has nodes.
func (j *Job) Holds() bool { return len(j.Shares) > 0 }

// Leader is the job that an intent must name to mean this job.
func (j *Job) Leader() JobID {
	if j.Gang != 0 {
		return j.Gang
	}
	return j.ID
}
