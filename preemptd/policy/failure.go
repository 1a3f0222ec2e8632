// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"time"
)

// Kind is a kind of a policy's failure. The text is its name for people and metrics.
type Kind string

// The kinds of failures.
const (
	Refusal  Kind = "refusal"  // the policy said that it cannot decide, or not with these settings
	Nonsense Kind = "nonsense" // its answer is no list of intents
	Crash    Kind = "crash"    // the process ended, or never began
	Hang     Kind = "hang"     // the process did not answer in time
	Flood    Kind = "flood"    // its answer is too large
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Refusal, Nonsense, Crash, Hang, Flood} }

// Failure is a failure of a policy.
type Failure struct {
	Kind   Kind
	Detail string
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Kind, f.Detail) }

// RestingError says that a policy is not asked because of a failure a moment ago.
type RestingError struct {
	Until time.Time
	Last  error // the failure
}

func (r *RestingError) Error() string {
	return fmt.Sprintf("not asked until %s: %v", r.Until.Format(time.TimeOnly), r.Last)
}

// Unwrap is the failure.
func (r *RestingError) Unwrap() error { return r.Last }
