// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package workgate

import (
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Activity counts the carriers of a space's work: streams' goroutines and steps of graphs.
type Activity struct {
	active  atomic.Int64 // carriers that run, or wait for the gate alone
	waiting atomic.Int64 // carriers that wait for other work
	changed func()
}

// NewActivity makes an Activity without carriers. changed is called when the first becomes active, and when the
// last is active no more.
func NewActivity(changed func()) *Activity { return &Activity{changed: changed} }

// Begin counts another active carrier.
func (a *Activity) Begin() {
	if a.active.Add(1) == 1 {
		a.changed()
	}
}

// End undoes Begin.
func (a *Activity) End() {
	if a.active.Add(-1) == 0 {
		a.changed()
	}
}

// Wait calls f, which waits for other work, for a caller that is otherwise active.
func (a *Activity) Wait(f func()) {
	a.waiting.Add(1)
	a.End()
	defer a.waiting.Add(-1)
	defer a.Begin()
	f()
}

// State is the state of all work together.
func (a *Activity) State() backend.WorkState {
	switch {
	case a.active.Load() > 0:
		return backend.Runnable
	case a.waiting.Load() > 0:
		return backend.Waiting
	}
	return backend.Idle
}
