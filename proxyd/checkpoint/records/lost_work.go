// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"fmt"
	"slices"
	"time"
)

// LostWork returns how long the earlier runs of a job had worked after the state from which the new
// run goes on: the checkpoint of this number, or with 0 the script's beginning. ended is when Slurm had noticed the end of
// the last run. Where the nodes have not noted the end (a node died), the work is less than that, and exact is false.
func LostWork(events []Event, number uint32, ended time.Time) (lost time.Duration, exact bool) {
	since := slices.IndexFunc(events, func(e Event) bool { return e.What == EventStarted })
	if number > 0 {
		for i, e := range events {
			made := e.What == EventCheckpoint && e.Checkpoint == number
			if made || e.What == EventRestored {
				since = i
			}
		}
	} else {
		for i, e := range events {
			if e.What == EventStarted {
				since = i
			}
		}
	}
	if since < 0 {
		return 0, true
	}
	for _, e := range events[since:] {
		switch e.What {
		case EventReleased: // captured, and then ended
			return 0, true
		case EventEnded, EventRequeued:
			ended, exact = e.At, true
		}
	}
	return max(ended.Sub(events[since].At), 0), exact
}

// LeftWith tells whether a job left its nodes with the checkpoint of this number, and no program of the job has run since:
// the run that begins is the first after that.
func LeftWith(events []Event, number uint32) bool {
	made, left, starts := uint32(0), false, 0
	for _, e := range events {
		switch e.What {
		case EventCheckpoint:
			made, left = e.Checkpoint, false
		case EventReleased:
			left, starts = true, 0
		case EventRestored:
			left = false
		case EventStarted:
			starts++
		}
	}
	return left && made == number && starts <= 1
}

// DescribeLostWork returns the end of a sentence about lost work; "" for less than a second.
func DescribeLostWork(lost time.Duration, exact bool) string {
	switch {
	case lost < time.Second:
		return ""
	case exact:
		return fmt.Sprintf("; %s of work are lost", lost.Round(time.Second))
	}
	return fmt.Sprintf("; at most %s of work are lost", lost.Round(time.Second))
}

// LastFailure returns the reason of the newest failed checkpoint of a job's last run, if no checkpoint succeeded after
// it; else "".
func LastFailure(events []Event) string {
	why := ""
	for _, e := range events {
		switch e.What {
		case EventStarted, EventCheckpoint:
			why = ""
		case EventFailed:
			why = e.Text
		}
	}
	return why
}
