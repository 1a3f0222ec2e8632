// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
)

// hold keeps a job that waits from starting.
var hold = kind{
	participle: "held", mustWait: true,
	steps: func(Args) []step { return []step{checkJob, announce, holdStep, report} },
}

// HoldAfter says which hold a job has, if any, when an action on the job is done.
type HoldAfter int

// The values of HoldAfter.
const (
	NotHeld      HoldAfter = iota
	HeldByAction           // the hold is its own
	HeldBefore             // the job was held already, by another user
)

// HoldLeftBy says with which hold an action left the job.
func HoldLeftBy(a *journal.Action) (HoldAfter, error) {
	var args Args
	var m memo
	if err := errors.Join(json.Unmarshal(a.Args, &args), json.Unmarshal(a.Memo, &m)); err != nil {
		return NotHeld, fmt.Errorf("action %d: %w", a.ID, err)
	}
	switch {
	case a.Kind != "hold" && !args.Hold && (!m.WasHeld || kinds[a.Kind].releasesHold):
		return NotHeld, nil
	case m.WasHeld:
		return HeldBefore, nil
	}
	return HeldByAction, nil
}

// LastHolder returns which of a job's actions, newest first, has left the job with its present
// hold: actions that found a hold left the hold as it was. The result is nil if no action has.
func LastHolder(history []journal.Action) (*journal.Action, error) {
	for i := range history {
		if history[i].State != journal.Done {
			continue
		}
		switch left, err := HoldLeftBy(&history[i]); {
		case err != nil:
			return nil, err
		case left == HeldByAction:
			return &history[i], nil
		case left == NotHeld:
			return nil, nil
		}
	}
	return nil, nil
}
