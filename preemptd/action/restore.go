// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// restore waits, for a person, until a job that was captured and has started again is restored. The job has its new
// place already: a restore that fails is proxyd's to mend, or to hold the job for, and no step is undone for it.
var restore = step{name: "restore", words: "waiting until it is restored", look: checkRestored, within: func(p Patience) time.Duration { return p.Start }, optional: true, ended: true}

// showWithin is how long the job's node may take to say how the job is.
const showWithin = 30 * time.Second

func checkRestored(ctx context.Context, w *actionRun) finding {
	j := &w.job
	switch {
	case w.memo.Checkpoint == "" || strings.HasPrefix(w.a.Who, journal.PolicyPrefix) || j.State.Finished():
		return finding{outcome: done}
	case !isRunning(j) && isHeld(j) && w.memo.WasHeld:
		return finding{outcome: done} // the job was held before the action, and is still
	case !isRunning(j) && isHeld(j):
		return finding{takenOver, "it was started, and is held instead of restored: its comment, and singctl show, say why"}
	case !isRunning(j):
		return finding{wait, "it is " + j.State.String() + ", " + j.Reason}
	}
	limited, cancel := context.WithTimeout(ctx, showWithin)
	defer cancel()
	shown, err := w.r.Proxyd.Show(limited, j)
	switch {
	case err == nil:
		return findRestored(shown.GetTimeline(), j.Restarts+1)
	case mayRepeatStep(err) || errors.Is(err, rpc.ErrNotProtected): // the node does not know the job yet
		return finding{wait, err.Error()}
	}
	return finding{impossible, "whether it is restored is not known: " + err.Error()}
}

// findRestored looks in a job's time line for the restore of a run, which is counted from 1.
func findRestored(events []*rpc.Event, run int64) finding {
	begun := false
	for _, e := range events {
		switch e.GetEvent() {
		case "started":
			begun = int64(e.GetRun()) == run
			if begun && e.GetCheckpoint() == 0 {
				return finding{done, "it began anew"}
			}
		case "restored":
			if begun {
				return finding{done, "restored " + e.GetText()}
			}
		}
	}
	return finding{wait, "its nodes are not done with it"}
}
