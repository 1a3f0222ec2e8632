// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"errors"
	"strings"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// checkReleased is done when the job is released, by any user. A hold that was there before is not ours to release,
// unless the request was a release.
func checkReleased(_ context.Context, w *actionRun) finding {
	switch {
	case w.job.State.Base == "":
		return finding{wait, "it is " + w.job.State.String()}
	case !isHeld(&w.job):
		w.memo.Released = true
		w.memo.ReleaseMarked = w.commentSays(releasedText)
		if w.startIsDelayed() {
			return finding{outcome: todo}
		}
		return finding{outcome: done}
	case w.memo.WasHeld && !w.kind.releasesHold:
		w.memo.Released = true
		if stepIndex(w.currentSteps(), start.name) >= 0 { // which says so
			return finding{outcome: done}
		}
		return finding{done, staysHeldText}
	}
	return finding{outcome: todo}
}

// startIsDelayed reports whether a job that we requeued, and another user released, is still within
// the two minutes of delay that Slurm gives a requeued job.
func (w *actionRun) startIsDelayed() bool {
	return w.memo.Parked && w.memo.Ran && w.job.State.Base == slurmrest.Pending && w.job.EligibleTime.After(w.r.currentTime().Add(clockSkew))
}

// releaseJob lets the job start at once, without the two minutes that follow a requeue. The comment changes in the same
// request, which slurmctld remembers or forgets as a whole: releaseForgotten tells by the comment.
func releaseJob(ctx context.Context, w *actionRun) error {
	if !isHeld(&w.job) {
		return w.r.Slurm.Update(ctx, w.jobRef(), slurmrest.JobUpdate{BeginTime: &time.Time{}})
	}
	no, said := false, withOurComment(w.job.Comment, releasedText(w))
	err := w.r.Slurm.Update(ctx, w.jobRef(), slurmrest.JobUpdate{Hold: &no, BeginTime: &time.Time{}, Comment: &said})
	if errors.Is(err, slurmrest.ErrJobNotPending) { // Slurm does not change the begin time of such a job
		return w.r.Slurm.Update(ctx, w.jobRef(), slurmrest.JobUpdate{Hold: &no, Comment: &said})
	}
	return err
}

// releaseForgotten reports whether Slurm has forgotten the release of the job, so that our hold is there again:
// slurmctld was killed before it had saved the release, and perhaps before it had saved our earlier edits.
//
// If we released the job, its comment shows that: the comment is again the comment from before the release, while a user's
// hold after the release leaves the comment of the release. If another user released the job, the comment
// never changed: then Slurm's reason shows that a requeue holds the job, and not a user. That sign counts once only.
func (w *actionRun) releaseForgotten() bool {
	if !isHeld(&w.job) || !w.memo.Parked {
		return false
	}
	if w.memo.ReleaseMarked && w.commentSays(doingText) {
		return true
	}
	reason := strings.ReplaceAll(w.job.Reason, "_", " ") // the form in which releases write the reason
	return w.memo.Ran && !w.memo.EditRepeated && strings.Contains(reason, "requeued in held state")
}
