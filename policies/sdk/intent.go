// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"fmt"
	"strings"
)

// Intent is a change that a policy wants, and why. Intents are tried in their order on the snapshot, each on the
// cluster as the intents before leave it; an intent that breaks an invariant is rejected and the rest go on. At most
// one intent may name a job.
type Intent struct {
	Verb   Verb
	Job    JobID  // the leader, if the job is of a gang
	Reason string // for people, required: "gives 4 GPUs to premium job 812"

	// For is the job that gains by the intent; 0: none. A job of a tier may fall below its promise only for a job of a
	// higher tier that is below its own promise.
	For JobID

	// Where the job goes. Migrate, Resize, Place, Resume. Without places Slurm chooses. All of
	// the job's capsules must be in the places, and every node gives the same number of GPUs, for
	// that is all that Slurm can be asked for.
	Where []Spot
	// Avoid names nodes that the job must leave or not get. Migrate, Resume.
	Avoid []string
	// GPUs of all capsules together from now on. Resize.
	GPUs int
	// Tasks must be the job's own number or 0: a world size never changes.
	Tasks int
	// QOS that the job has from now on. Requeue.
	QOS string
	// Park holds the job until a Resume. Preempt, Requeue.
	Park bool
}

// Spot is a node with the capsules and GPUs that a job gets there.
type Spot struct {
	Node     string
	Capsules int // at least 1
	GPUs     int // of all these capsules together
}

// Verb is the kind of change that an intent wants.
type Verb uint8

// The verbs.
const (
	Preempt Verb = 1 + iota // checkpoint a running job and requeue it; the job waits, or is parked
	Resume                  // let a job go on that was parked
	Migrate                 // checkpoint a running job and start it elsewhere, at once
	Resize                  // the same, on more or fewer GPUs; or another size for a job that does not run
	Hold                    // hold a job that waits
	Release                 // the reverse
	Requeue                 // preempt a running job and give it another QOS; only the QOS, if the job waits
	Place                   // start a waiting job, on these nodes
)

var verbNames = [...]string{
	Preempt: "preempt", Resume: "resume", Migrate: "migrate", Resize: "resize",
	Hold: "hold", Release: "release", Requeue: "requeue", Place: "place",
}

func (v Verb) String() string {
	if v >= Preempt && int(v) < len(verbNames) {
		return verbNames[v]
	}
	return fmt.Sprintf("verb %d", uint8(v))
}

// ParseVerb is the reverse of String.
func ParseVerb(name string) (Verb, error) {
	for v := Preempt; int(v) < len(verbNames); v++ {
		if verbNames[v] == name {
			return v, nil
		}
	}
	return 0, fmt.Errorf("there is no verb %q: %s", name, strings.Join(verbNames[Preempt:], ", "))
}

// String is a line for people, without the reason.
func (i Intent) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s job %d", i.Verb, i.Job)
	if i.GPUs != 0 {
		b.WriteString(" to " + CountOf(i.GPUs, "GPU"))
	}
	for n, p := range i.Where {
		sep := ", "
		if n == 0 {
			sep = " on "
		}
		fmt.Fprintf(&b, "%s%s (%s)", sep, p.Node, CountOf(p.GPUs, "GPU"))
	}
	if len(i.Avoid) > 0 {
		fmt.Fprintf(&b, " away from %s", strings.Join(i.Avoid, ", "))
	}
	if i.QOS != "" {
		fmt.Fprintf(&b, " with QOS %s", i.QOS)
	}
	if i.Park {
		b.WriteString(", parked")
	}
	return b.String()
}
