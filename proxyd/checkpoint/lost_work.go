// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// lostWork returns how long the earlier runs of a job had worked after the state from which the new
// run goes on: the checkpoint of this number, or with 0 the script's beginning. ended is when the
// last run ended, as far as Slurm knows.
func lostWork(events []records.Event, number uint32, ended time.Time) time.Duration {
	since := slices.IndexFunc(events, func(e records.Event) bool { return e.What == records.EventStarted })
	if number > 0 {
		for i, e := range events {
			made := e.What == records.EventCheckpoint && strings.HasPrefix(e.Text, fmt.Sprintf("%d (", number))
			if made || e.What == records.EventRestored {
				since = i
			}
		}
	} else {
		for i, e := range events {
			if e.What == records.EventStarted {
				since = i
			}
		}
	}
	if since < 0 {
		return 0
	}
	for _, e := range events[since:] {
		switch e.What {
		case records.EventReleased: // captured, and then ended
			return 0
		case records.EventEnded, records.EventRequeued:
			ended = e.At
		}
	}
	return max(ended.Sub(events[since].At), 0)
}

// describeLostWork returns the end of a sentence; "" for what is not worth a word.
func describeLostWork(lost time.Duration) string {
	if lost < time.Second {
		return ""
	}
	return fmt.Sprintf("; %s of work are lost", lost.Round(time.Second))
}

// findLostWork says, at the start of a run, what of the earlier runs' work is lost; "": nothing. number
// is that of the checkpoint from which the run resumes; 0: it begins anew.
func (c *Conductor) findLostWork(s *slurm.Job, number uint32) string {
	events, err := c.timeline.Read(s.ID)
	if err != nil {
		c.Log.Info("read the time line", "job", s.ID, "error", err)
		return ""
	}
	// A requeue sets the time of submission anew.
	ended, err := time.ParseInLocation("2006-01-02T15:04:05", s.Submitted, time.Local)
	if err != nil {
		return ""
	}
	return describeLostWork(lostWork(events, number, ended))
}
