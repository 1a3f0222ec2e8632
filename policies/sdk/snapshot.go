// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"cmp"
	"slices"
	"time"
)

// Snapshot is the cluster at a moment, as a policy sees it. A Snapshot is never changed: plan
// makes another. Nodes are in order of their names, jobs of their ids, and everything that names
// a node by number means its place in Nodes. Jobs that have ended are left out. Check says
// whether all of that is so.
type Snapshot struct {
	Cluster string
	Number  uint64    // counts up; a gap has no meaning
	Time    time.Time // of the snapshot: the only clock that a policy has
	Rules   Rules

	Nodes        []Node
	Jobs         []Job
	Partitions   []Partition
	QOS          []QOS
	Accounts     []Account
	Reservations []Reservation
	Power        Power
}

// Rules are the rules by which plan judges every intent, so that a policy can ask for changes that plan will accept.
type Rules struct {
	Window   time.Duration  // over which GPU fractions are counted
	Promised [Tiers]float64 // GPU fraction, by tier
	MinRun   time.Duration  // a job that started more recently is left alone
	CoolDown time.Duration  // a job that was moved, resized or preempted more recently is left alone
}

// Partition is a partition of Slurm's. The nodes say in which partitions they are.
type Partition struct {
	Name     string
	Up       bool          // jobs in the partition can start
	Priority int64         // jobs of a partition with a higher number come first
	MaxTime  time.Duration // 0: no limit
}

// QOS is a quality of service.
type QOS struct {
	Name     string
	Priority int64
	Tier     Tier
	MaxGPUs  int // that its running jobs may hold together; 0: no limit
}

// Account is an account of Slurm's, to which jobs belong.
type Account struct {
	Name     string
	Fraction float64 // GPU fraction of all its jobs together, over the window
	MaxGPUs  int     // that its running jobs may hold together; 0: no limit
}

// Reservation keeps nodes for some users, or keeps them empty.
type Reservation struct {
	Name        string
	Start, End  time.Time
	Maintenance bool    // its nodes must be empty from Start on
	Nodes       []int32 // places in Snapshot.Nodes, ascending
	Users       []string
	Accounts    []string
}

// Power is how much the cluster may draw. Nodes and GPUs say how much it draws.
type Power struct {
	Caps []Cap
}

// Cap is a limit on power: of the installation, or asked for by the grid for a time.
type Cap struct {
	Name       string
	Watts      float64
	Start, End time.Time // zero Start: already begun; zero End: never ends
	Nodes      []int32   // that the cap binds, places in Snapshot.Nodes, ascending; empty: all
}

// Job finds a job by its id.
func (s *Snapshot) Job(id JobID) (*Job, bool) {
	i, ok := slices.BinarySearchFunc(s.Jobs, id, func(j Job, id JobID) int { return cmp.Compare(j.ID, id) })
	if !ok {
		return nil, false
	}
	return &s.Jobs[i], true
}

// Placing reports whether room is being made for a waiting job: idle GPUs may be a part of that
// room, and are not to be lent.
func (s *Snapshot) Placing() bool {
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == Waiting && j.Action != "" {
			return true
		}
	}
	return false
}

// MayDisturb reports whether the rules let a policy disturb a running job now: the job can be captured, no action is
// under way for it, and it has been left alone for long enough. A policy looks at the job's Budget besides.
func (s *Snapshot) MayDisturb(j *Job) bool {
	return j.State == Running && j.Preemptable && j.Action == "" &&
		s.Time.Sub(j.Started) >= s.Rules.MinRun && (j.Acted.IsZero() || s.Time.Sub(j.Acted) >= s.Rules.CoolDown)
}

// Node finds a node's place by its name.
func (s *Snapshot) Node(name string) (int32, bool) {
	i, ok := slices.BinarySearchFunc(s.Nodes, name, func(n Node, name string) int { return cmp.Compare(n.Name, name) })
	return int32(i), ok
}

// FindQOS finds a QOS by its name.
func (s *Snapshot) FindQOS(name string) (*QOS, bool) {
	i := slices.IndexFunc(s.QOS, func(q QOS) bool { return q.Name == name })
	if i < 0 {
		return nil, false
	}
	return &s.QOS[i], true
}
