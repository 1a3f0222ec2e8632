// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Invariant is a rule that an intent must keep. The text is its name for people and metrics.
type Invariant string

// The invariants.
const (
	Sense       Invariant = "sense"       // the intent has a verb and a reason
	Known       Invariant = "known"       // the job is there
	Once        Invariant = "once"        // a single intent for a job
	Idle        Invariant = "idle"        // no action on the job is under way
	Gang        Invariant = "gang"        // components of a job stay together: the leader is named, and means all
	State       Invariant = "state"       // only a running job is preempted, only a waiting job is placed, …
	Holder      Invariant = "holder"      // a hold of a person is released by a person
	Preemptable Invariant = "preemptable" // the job can be checkpointed
	Tasks       Invariant = "tasks"       // a world size never changes
	Size        Invariant = "size"        // GPUs between the job's least and most
	Whole       Invariant = "whole"       // every capsule has a place, and every node gives the same number of GPUs
	Change      Invariant = "change"      // the intent changes the job
	MinRun      Invariant = "min-run"     // a job that has just started is left alone
	CoolDown    Invariant = "cool-down"   // so is a job that was just moved
	Guarantee   Invariant = "guarantee"   // the promise to a tier is kept
	Room        Invariant = "room"        // nodes are up and there for the job, and no GPU is given out twice
	QOS         Invariant = "qos"         // the QOS exists
	Limit       Invariant = "limit"       // of an account or a QOS is kept
)

// Rejection is an intent that will not be carried out, and why.
type Rejection struct {
	Intent    sdk.Intent
	Invariant Invariant
	Detail    string // "holds until 12:00:40, 20s from now"
}

// Error is a line for people.
func (r *Rejection) Error() string {
	return fmt.Sprintf("%v: %s: %s", r.Intent, r.Invariant, r.Detail)
}

// violation is a Rejection without its intent.
type violation struct {
	invariant Invariant
	detail    string
}

// breakInvariant says that an invariant is broken.
func breakInvariant(i Invariant, format string, args ...any) *violation {
	return &violation{i, fmt.Sprintf(format, args...)}
}
