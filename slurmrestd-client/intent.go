// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// JobSubmit is a batch job to be. Only Script is needed. A zero field is left to
// Slurm's defaults.
type JobSubmit struct {
	Script string // begins with #!; of a heterogeneous job, the first component's only
	Name   string
	// Environment of the script. Slurm refuses an empty environment, so the client sends a PATH if
	// the map is empty. The environment of this process is not used.
	Environment map[string]string
	// SpankEnvironment are the variables that SPANK plugins would have set for prolog and epilog.
	// v0.0.38 has no such field.
	SpankEnvironment map[string]string
	WorkDir          string

	Account      string
	Partition    string
	QOS          string
	Reservation  string
	Dependency   string
	Features     string
	Array        string // "0-7%2"
	Comment      string
	AdminComment string // not over v0.0.38

	RequiredNodes string // host list expressions
	ExcludedNodes string
	MinNodes      int64
	MaxNodes      int64 // MinNodes, when 0
	Tasks         int64
	TasksPerNode  int64
	CPUsPerTask   int64
	MemoryPerNode int64 // MiB
	MemoryPerCPU  int64 // MiB
	TRESPerJob    string
	TRESPerNode   string // "gres/gpu:2"
	TRESPerTask   string

	TimeLimit Limit
	BeginTime time.Time
	Priority  int64
	Hold      bool
	Requeue   *bool // nil: the cluster's JobRequeue

	StdIn      string
	StdOut     string
	StdErr     string
	AppendLogs bool // keep the output of earlier runs; Slurm truncates by default
}

// checkSubmit refuses a job that no version can submit.
func (j JobSubmit) checkSubmit() error {
	if !strings.HasPrefix(j.Script, "#!") {
		return errors.New("submit: script does not begin with a #! line")
	}
	return j.checkFields()
}

func (j JobSubmit) checkFields() error {
	if j.MemoryPerNode > 0 && j.MemoryPerCPU > 0 {
		return errors.New("submit: memory per node and memory per cpu exclude each other")
	}
	for name := range j.Environment {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("submit: environment: %q is not a name", name)
		}
	}
	return j.TimeLimit.checkRange("submit: time limit")
}

// jobEnvironment returns the environment of the script.
func (j JobSubmit) jobEnvironment() map[string]string {
	if len(j.Environment) > 0 {
		return j.Environment
	}
	return map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}
}

// envAssignments spells an environment as the kernel does, in order of name.
func envAssignments(env map[string]string) []string {
	all := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}

// nodeCounts spells a count of nodes: "2" or "2-4".
func (j JobSubmit) nodeCounts() string {
	if j.MaxNodes > j.MinNodes {
		return fmt.Sprintf("%d-%d", max(j.MinNodes, 1), j.MaxNodes)
	}
	return fmt.Sprint(j.MinNodes)
}

// JobUpdate is an edit of a job. A nil field is left as it is; a text that points to "" is cleared.
// The fields stand in the order in which slurmctld applies them. slurmctld stops at the first field
// that it refuses and keeps the changes of the fields before: so send a hold first and alone, then
// the edit, then the release, and read the job again.
//
// Unless its comment says otherwise, a field needs a pending job (State.Editable).
type JobUpdate struct {
	Partition     *string
	QOS           *string
	Account       *string
	RequiredNodes *string // host list expression
	Reservation   *string // a running job too
	TRESPerJob    *string
	TRESPerNode   *string // "gres/gpu:2"
	TRESPerTask   *string
	ExcludedNodes *string
	Comment       *string // any unfinished job, by its owner
	AdminComment  *string // any job, by an operator; not over v0.0.38
	Name          *string // not over v0.0.38
	Features      *string
	MemoryPerNode *int64 // MiB
	CPUsPerTask   *int64
	NodeCount     *int64
	Tasks         *int64
	TasksPerNode  *int64 // operators only
	// MinCPUsPerNode is raised by Slurm with TasksPerNode, and never lowered.
	MinCPUsPerNode *int64
	TimeLimit      *Limit  // a running job too; only operators may raise the limit
	Requeue        *bool   // whether the job may be requeued; any job
	Priority       *int64  // more than 0; only operators may raise the priority
	Hold           *bool   // false releases; any unfinished job
	Dependency     *string //
	// BeginTime is the earliest start. A time that is zero or has passed means as
	// soon as possible, which removes Slurm's delay of two minutes after a requeue. The client then
	// waits until two seconds after the requeue: a job that starts sooner fails, because its
	// credential was revoked in the same second.
	BeginTime *time.Time
}

// checkFields refuses edits that no release accepts.
func (u JobUpdate) checkFields() error {
	if u == (JobUpdate{}) {
		return errors.New("update changes nothing")
	}
	if u.Priority != nil && *u.Priority <= 0 {
		return fmt.Errorf("priority %d: want more than 0 (Hold is what priority 0 does)", *u.Priority)
	}
	if u.Priority != nil && u.Hold != nil {
		return errors.New("priority and hold exclude each other: Slurm keeps both in one field")
	}
	for name, n := range map[string]*int64{
		"node count": u.NodeCount, "tasks": u.Tasks, "tasks per node": u.TasksPerNode, "least cpus per node": u.MinCPUsPerNode,
		"cpus per task": u.CPUsPerTask, "memory per node": u.MemoryPerNode,
	} {
		if n != nil && *n < 1 {
			return fmt.Errorf("%s %d: want 1 or more", name, *n)
		}
	}
	if u.TimeLimit == nil {
		return nil
	}
	if !u.TimeLimit.Set {
		return errors.New("time limit: unset is not a limit; want a duration or Unlimited")
	}
	return u.TimeLimit.checkRange("time limit")
}

// NodeUpdate is an edit of a node. A nil field is left as it is.
type NodeUpdate struct {
	State   *string // "DRAIN", "RESUME", "DOWN", "UNDRAIN", …
	Reason  *string // Slurm wants a reason with DRAIN and DOWN
	Comment *string
	Weight  *int64
}

func (u NodeUpdate) checkFields() error {
	if u == (NodeUpdate{}) {
		return errors.New("update changes nothing")
	}
	if u.State == nil {
		return nil
	}
	state := strings.ToUpper(*u.State)
	if (state == "DRAIN" || state == "DOWN" || state == "FAIL") && (u.Reason == nil || *u.Reason == "") {
		return fmt.Errorf("state %s needs a reason", state)
	}
	return nil
}
