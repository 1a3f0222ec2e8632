// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// stepUnpark is the name of a step of undoing; if the step fails, the job stays held, and people are told.
const stepUnpark = "unpark"

func otherPatience(p Patience) time.Duration { return p.Other }

// The steps of which actions are made, in the order of a whole journey.
var (
	checkJob    = step{name: "check", words: "looking at the job", look: checkPresentJob, within: otherPatience}
	announce    = step{name: "announce", words: "saying so in its comment", look: checkComment(doingText), do: writeComment(doingText), within: otherPatience, optional: true}
	checkpoint  = step{name: "checkpoint", words: "making a checkpoint", look: checkCheckpoint, do: requestCheckpoint, within: func(p Patience) time.Duration { return p.Checkpoint }}
	park        = step{name: "park", words: "putting it back into the queue", look: checkParked, do: parkJob, within: otherPatience, touches: true}
	leaveNodes  = step{name: "leave", words: "waiting until its nodes are free", look: checkLeftNodes, within: func(p Patience) time.Duration { return p.Leave }, touches: true}
	draft       = step{name: "draft", words: "working out what it is to ask Slurm for", look: draftRequest, within: otherPatience, touches: true}
	edit        = step{name: "edit", words: "changing what it asks Slurm for", look: checkEdited, do: editRequest, within: otherPatience, touches: true}
	holdStep    = step{name: "hold", words: "holding it", look: checkHeld, do: holdJob, within: otherPatience, touches: true}
	releaseStep = step{name: "release", words: "releasing it", look: checkReleased, do: releaseJob, within: otherPatience, touches: true}
	start       = step{name: "start", words: "waiting for its start", look: checkStarted, within: func(p Patience) time.Duration { return p.Start }, touches: true, ended: true}
	report      = step{name: "report", words: "writing the result into its comment", look: checkComment(doneText), do: writeComment(doneText), within: otherPatience, optional: true, ended: true}
)

// oldStepNames are the names of steps in journals of older releases, and their names today.
var oldStepNames = map[string]string{"survey": "check", "tell": "announce", "vacate": "leave", "told": "report", "untold": "unreport", "keep": "hold"}

// undoSteps take back the changes of the other steps, as far as the action came and no user changed the same.
var undoSteps = []step{
	{name: "run on", words: "letting it run on", look: checkRunsOn, do: letJobRunOn, within: otherPatience, optional: true},
	{name: "unedit", words: "taking back what was changed", look: checkReverted, do: revertRequest, within: otherPatience},
	{name: stepUnpark, words: "releasing it again", look: checkUnparked, do: releaseJob, within: otherPatience},
	{name: "unreport", words: "writing into its comment why it was not done", look: checkComment(undoneText), do: writeComment(undoneText), within: otherPatience, optional: true, ended: true},
}

// StepWords returns the words for a step, for people; the name itself, if no step has the name.
func StepWords(name string) string {
	for _, s := range allSteps {
		if s.name == name {
			return s.words
		}
	}
	return name
}

// allSteps are the steps of all actions, and those that undo them.
var allSteps = slices.Concat(resizingSteps, []step{holdStep}, undoSteps)

// isHeld reports whether the job will not start before a release.
func isHeld(j *slurmrest.Job) bool { return j.Held || j.State.Has(slurmrest.RequeueHold) }

func isRunning(j *slurmrest.Job) bool {
	return j.State.Base == slurmrest.Running || j.State.Base == slurmrest.Suspended
}

// checkPresentJob notes the state of the job, and refuses a job with which this action cannot be done.
func checkPresentJob(ctx context.Context, w *actionRun) finding {
	j := &w.job
	k := w.kind
	switch {
	case j.State.Base == "" || j.State.Has(slurmrest.Completing):
		return finding{wait, "it is " + j.State.String()}
	case k.mustRun && !isRunning(j), k.mustWait && isRunning(j):
		return finding{impossible, fmt.Sprintf("it is %s, and cannot be %s", j.State, k.participle)}
	case j.Het.JobID != 0:
		return finding{impossible, "it is of a heterogeneous job"}
	case isRunning(j) && !j.Batch:
		return finding{impossible, "it has no batch script, and so cannot be requeued"}
	case isRunning(j) && !j.Requeueable:
		return finding{impossible, "it was submitted with --no-requeue"}
	}
	if k.target != nil {
		now := jobrequest.Of(j)
		if err := k.target(w.args, &now); err != nil {
			return finding{impossible, err.Error()}
		}
	}
	if v := w.checkSize(ctx, false); v.outcome != done {
		return v
	}
	w.memo.Restarts, w.memo.RestartsAt = j.Restarts, j.Restarts
	w.memo.Ran, w.memo.WasHeld, w.memo.From = isRunning(j), isHeld(j), j.Nodes
	return finding{outcome: done}
}

// checkCheckpoint is done as soon as a checkpoint is known, or the job left its nodes by itself: then proxyd has made
// a checkpoint, or could make none.
func checkCheckpoint(ctx context.Context, w *actionRun) finding {
	j := &w.job
	switch {
	case w.memo.Checkpoint != "":
		return finding{done, "checkpoint " + w.memo.Checkpoint}
	case j.State.Base == "":
		return finding{wait, "it is " + j.State.String()}
	case !isRunning(j) && w.memo.Ran:
		return finding{done, "it left its nodes by itself"}
	case !isRunning(j):
		return finding{outcome: done}
	}
	w.memo.Restarts = j.Restarts // another user's requeue, after which the job runs again
	if w.a.Kind == "resize" {
		if v := w.checkSize(ctx, true); v.outcome != done { // the job would wait in the queue instead of running
			return v
		}
	}
	return finding{outcome: todo}
}

func requestCheckpoint(ctx context.Context, w *actionRun) error {
	all, err := w.r.Proxyd.Checkpoints(ctx, &w.job)
	if err != nil {
		return err
	}
	for _, c := range all {
		if w.isOwnCheckpoint(c) && c.GetProblem() == "" {
			w.memo.Checkpoint = c.GetId()
			return nil
		}
	}
	limited, cancel := context.WithTimeout(ctx, w.r.Patience.withDefaults().Checkpoint)
	defer cancel()
	made, err := w.r.Proxyd.Checkpoint(limited, &w.job, w.checkpointReason())
	if err != nil {
		return err
	}
	w.memo.Checkpoint = made.GetId()
	return nil
}

// checkParked: a job that is pending and held is parked. A requeue of ours always holds, so
// that there is no moment in which the job could start.
func checkParked(_ context.Context, w *actionRun) finding {
	j := &w.job
	switch {
	case j.State.Base == "":
		return finding{wait, "it is " + j.State.String()}
	case isRunning(j) && (!w.memo.Ran || j.Restarts != w.memo.Restarts):
		return finding{takenOver, "somebody else has started it"}
	case isRunning(j):
		w.memo.WasHeld = isHeld(j)
		return finding{outcome: todo}
	case !isHeld(j):
		return finding{outcome: todo}
	}
	w.memo.WasHeld = w.memo.WasHeld || !w.memo.ParkSent // by a person, since the check
	w.memo.Parked, w.memo.RestartsAt = true, j.Restarts
	return finding{outcome: done}
}

// parkJob writes down first that the action is about to hold the job: a hold that is found without that is a person's.
func parkJob(ctx context.Context, w *actionRun) error {
	if !w.memo.ParkSent {
		w.memo.ParkSent = true
		if err := w.saveStep(ctx, ""); err != nil {
			return err
		}
	}
	if !isRunning(&w.job) {
		return holdJob(ctx, w)
	}
	_, err := w.r.Slurm.Requeue(ctx, w.jobRef(), slurmrest.RequeueOptions{Hold: true, Incomplete: true})
	return err
}

func holdJob(ctx context.Context, w *actionRun) error {
	yes, said := true, withOurComment(w.job.Comment, doingText(w))
	return w.r.Slurm.Update(ctx, w.jobRef(), slurmrest.JobUpdate{Hold: &yes, Comment: &said})
}

// checkUndisturbed reports whether the job still waits as the action left it.
func (w *actionRun) checkUndisturbed() (finding, bool) {
	j := &w.job
	switch {
	case isRunning(j):
		return finding{takenOver, "somebody else has started it"}, false
	case j.State.Base == "":
		return finding{wait, "it is " + j.State.String()}, false
	case (w.memo.Parked || w.memo.WasHeld) && !isHeld(j):
		return finding{takenOver, "somebody else has released it"}, false
	case j.Restarts != w.memo.RestartsAt:
		return finding{takenOver, "somebody else has requeued it"}, false
	}
	return finding{}, true
}

func checkLeftNodes(_ context.Context, w *actionRun) finding {
	if v, ok := w.checkUndisturbed(); !ok {
		return v
	}
	if w.job.State.Has(slurmrest.Completing) {
		return finding{wait, "its nodes are not free yet"}
	}
	return finding{outcome: done}
}

// draftRequest notes the request of the job, and the request that the job is to have. Nodes that an earlier action gave
// the job are not the job's own wish, unless a user has edited them since.
func draftRequest(ctx context.Context, w *actionRun) finding {
	if v, ok := w.checkUndisturbed(); !ok {
		return v
	}
	raw, err := w.r.Journal.Origin(ctx, w.a.Job)
	if err != nil {
		return finding{wait, err.Error()}
	}
	now := jobrequest.Of(&w.job)
	asked := now
	if raw != nil {
		record, err := jobrequest.Decode(raw)
		if err != nil {
			return finding{impossible, err.Error()}
		}
		asked, w.memo.Editor, w.memo.SizedBy = now.TakeBack(record.Asked, record.Ours), record.By, record.SizedBy
	}
	to := now // the size that an earlier action gave the job stays
	to.Required, to.Excluded = asked.Required, asked.Excluded
	if target := w.kind.target; target != nil {
		if err := target(w.args, &to); err != nil {
			return finding{impossible, err.Error()}
		}
	}
	w.memo.Found, w.memo.Asked, w.memo.Target = now, asked, to
	return finding{outcome: done}
}

func checkEdited(_ context.Context, w *actionRun) finding {
	if v, ok := w.checkUndisturbed(); !ok {
		return v
	}
	now := jobrequest.Of(&w.job)
	if w.memo.Edited || now.SameAs(w.memo.Target) {
		return finding{outcome: done}
	}
	if name := now.ForeignEdit(w.memo.Found, w.memo.Target); name != "" {
		return finding{takenOver, "somebody else has edited its " + name}
	}
	return finding{outcome: todo}
}

func editRequest(ctx context.Context, w *actionRun) error {
	by := jobrequest.Editor{Who: w.a.Who, Restarts: w.memo.RestartsAt}
	sizedBy := w.memo.SizedBy
	if !w.memo.Target.SameSize(w.memo.Found) {
		sizedBy = jobrequest.Sizer{Editor: by}
	}
	if err := w.setOrigin(ctx, w.memo.Target, by, sizedBy); err != nil {
		return err
	}
	err := w.r.Slurm.Update(ctx, w.jobRef(), jobrequest.Of(&w.job).EditTo(w.memo.Target))
	w.memo.Edited = err == nil
	return err
}

func (w *actionRun) setOrigin(ctx context.Context, now jobrequest.Request, by jobrequest.Editor, sizedBy jobrequest.Sizer) error {
	raw, err := json.Marshal(jobrequest.Record{Asked: w.memo.Asked, Ours: now, By: by, SizedBy: sizedBy})
	if err != nil {
		return err
	}
	return w.r.Journal.SetOrigin(ctx, w.a.Job, raw)
}

func checkHeld(_ context.Context, w *actionRun) finding {
	switch {
	case isRunning(&w.job):
		return finding{takenOver, "it has started"}
	case isHeld(&w.job):
		return finding{outcome: done}
	}
	return finding{outcome: todo}
}

func checkStarted(_ context.Context, w *actionRun) finding {
	j := &w.job
	switch {
	case isRunning(j) && w.runsElsewhere():
		return finding{takenOver, "somebody else has edited its nodes: it runs on " + j.Nodes}
	case isRunning(j), j.State.Finished(), j.Restarts > w.memo.RestartsAt:
		return finding{done, "on " + j.Nodes}
	case isHeld(j) && w.memo.WasHeld:
		return finding{done, staysHeldText}
	case w.releaseForgotten():
		return finding{lostBySlurm, "Slurm has forgotten that it was released"}
	case isHeld(j) && j.Reason == noNodesReason:
		w.memo.Released = false // Slurm's hold is the action's doing, and is undone with it
		return finding{impossible, "Slurm has no nodes for what it asks for now (" + noNodesReason + ")"}
	case isHeld(j):
		return finding{takenOver, "somebody else holds it"}
	}
	return finding{wait, "it is " + j.State.String() + ", " + j.Reason}
}

const staysHeldText = "it was held before, and stays so"

// noNodesReason is why Slurm holds a job for which there are no nodes, however empty they are.
const noNodesReason = "BadConstraints"

// runsElsewhere reports whether the job runs on nodes that the action did not name.
func (w *actionRun) runsElsewhere() bool {
	for _, n := range jobrequest.HostNames(w.job.Nodes) {
		if slices.Contains(w.args.Avoid, n) || len(w.args.Nodes) > 0 && !slices.Contains(w.args.Nodes, n) {
			return true
		}
	}
	return false
}

// checkRunsOn is done when the job runs on: a job that was captured stands still until a requeue, for
// 20 s at most. An action that is undone does not requeue the job.
func checkRunsOn(_ context.Context, w *actionRun) finding {
	if w.memo.Checkpoint == "" || w.memo.RanOn || !isRunning(&w.job) || w.job.Restarts != w.memo.Restarts {
		return finding{outcome: done}
	}
	return finding{outcome: todo}
}

func letJobRunOn(ctx context.Context, w *actionRun) error {
	err := w.r.Proxyd.RunOn(ctx, &w.job)
	w.memo.RanOn = err == nil
	return err
}

// checkReverted is done when each change of the edit, unless the same was changed again since, is taken back. A job that
// runs cannot be edited, and needs no undoing.
func checkReverted(_ context.Context, w *actionRun) finding {
	if w.job.State.Base == "" {
		return finding{wait, "it is " + w.job.State.String()}
	}
	now := jobrequest.Of(&w.job)
	if w.memo.Target == (jobrequest.Request{}) || !w.job.State.Editable() || now.SameAs(now.TakeBack(w.memo.Found, w.memo.Target)) {
		return finding{outcome: done}
	}
	return finding{outcome: todo}
}

func revertRequest(ctx context.Context, w *actionRun) error {
	if err := w.setOrigin(ctx, w.memo.Found, w.memo.Editor, w.memo.SizedBy); err != nil {
		return err
	}
	now := jobrequest.Of(&w.job)
	return w.r.Slurm.Update(ctx, w.jobRef(), now.EditTo(now.TakeBack(w.memo.Found, w.memo.Target)))
}

// checkUnparked: only a hold of ours is taken back.
func checkUnparked(_ context.Context, w *actionRun) finding {
	switch {
	case !w.memo.Touched || w.memo.WasHeld || w.memo.Released:
		return finding{outcome: done}
	case w.job.State.Base == "":
		return finding{wait, "it is " + w.job.State.String()}
	case !isHeld(&w.job):
		return finding{outcome: done}
	}
	return finding{outcome: todo}
}
