// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// earlierRun says how the run before the one that begins has ended, by the job's record.
type earlierRun int

const (
	unknownRun     earlierRun = iota // there is no record: no run before is known, and no checkpoint is expected
	endedRun                         // it ended by itself: no checkpoint is wanted
	interruptedRun                   // there may be checkpoints
)

// loadOrCreateRecord loads the job's record, or creates it at the job's first start.
func (j *job) loadOrCreateRecord(ctx context.Context, s *slurm.Job, t nodesocket.Join) (*records.Record, earlierRun, error) {
	rec, err := j.c.records.Load(j.id)
	if err != nil {
		return nil, unknownRun, err
	}
	// A requeue changes the time of submission, so only a first run is compared. And a slurmctld
	// that died may have forgotten that it had requeued the job, or even started it.
	if rec != nil && s.Restarts == 0 && rec.Submitted != s.Submitted || rec != nil && rec.UID != s.UID {
		// The record of another job, which had this number before.
		if err := j.c.newEnds().DeleteJob(ctx, j.id); err != nil {
			return nil, unknownRun, err
		}
		rec = nil
	}
	if rec != nil && rec.BeginAnew {
		if err := j.c.newEnds().DeleteCheckpoints(ctx, j.id); err != nil {
			return nil, unknownRun, err
		}
		rec.BeginAnew, rec.DeletedNumber = false, rec.LastNumber
		return rec, endedRun, j.c.records.Save(rec)
	}
	if rec != nil {
		return rec, interruptedRun, nil
	}
	return j.createRecord(ctx, s, t)
}

// createRecord creates the job's record at its first start, or after the record of an earlier run was removed, and
// takes the addresses and the kit that the job keeps from then on.
func (j *job) createRecord(ctx context.Context, s *slurm.Job, t nodesocket.Join) (*records.Record, earlierRun, error) {
	past, err := findEndedJob(j.c.timeline, s)
	if err == nil && past == nil {
		err = j.c.holdIfCheckpointsLost(ctx, s)
	}
	if err != nil {
		return nil, unknownRun, err
	}
	options, err := records.ParseOptions(t.Options)
	if err == nil && options.Outside == outsideRelay && j.c.Relay == nil {
		err = errNoRelay
	}
	if err != nil {
		return nil, unknownRun, err
	}
	// Checkpoints of a failed job that had this number are kept until the number is used again.
	if s.Restarts == 0 || past != nil {
		if err := j.c.newEnds().DeleteCheckpoints(ctx, j.id); err != nil {
			return nil, unknownRun, err
		}
	}
	if s.Restarts == 0 {
		if err := j.c.timeline.ForgetJob(j.id); err != nil {
			return nil, unknownRun, err
		}
	}
	addresses, err := j.c.Pool.Take(ctx, slurm.JobName(j.id), len(s.Nodes))
	if err != nil {
		return nil, unknownRun, err
	}
	kit, err := j.c.kits.KeepInstalled(t.Warden, t.Shim)
	if err != nil {
		return nil, unknownRun, err
	}
	gpus, err := j.c.gpuCounts(ctx, s, options.MostGPUs())
	if err != nil {
		return nil, unknownRun, err
	}
	rec := &records.Record{
		Job: j.id, Slurm: s.String(), UID: t.UID, GID: t.GID, Submitted: s.Submitted, Nodes: s.Nodes, Addresses: addresses,
		Options: options, Kit: kit, GPUs: gpus,
	}
	rec.ScriptUnbegun = s.Restarts == 0 && past == nil
	if past != nil {
		rec.LastNumber, rec.DeletedNumber = past.LastNumber, past.LastNumber
		return rec, endedRun, j.c.records.Save(rec)
	}
	return rec, unknownRun, j.c.records.Save(rec)
}

// errNoCheckpoint is the reason for which a requeued job is held when the site's configuration
// says so.
var errNoCheckpoint = errors.New("it has no checkpoint, and Slurm runs it again")

// openNewestCheckpoint opens the checkpoint from which the run resumes; nil if there is none.
// begins means that the run begins now: then an upload of the newest checkpoint is waited for.
func (j *job) openNewestCheckpoint(ctx context.Context, s *slurm.Job, rec *records.Record, anew, begins bool) (*runs.ResumePoint, error) {
	if snap := j.run.Snapshot(); snap.Record != nil && snap.Number == s.Restarts {
		return snap.Point, nil
	}
	var lost *upload.Record
	if begins {
		var err error
		if lost, err = j.awaitNewestUpload(ctx, rec); err != nil {
			return nil, err
		}
	}
	id := store.PlainJob(j.c.Cluster, j.id)
	all, err := j.c.Store.List(ctx, &id)
	if err == nil && len(all) == 0 {
		err = j.holdWithoutCheckpoint(lost)
	}
	if err == nil && len(all) == 0 && !anew {
		if err = j.c.lostCheckpoint(ctx, s, rec.DeletedNumber); err == nil && j.c.WithoutCheckpoint == "hold" {
			err = errNoCheckpoint
		}
		if errors.Is(err, errCheckpointsLost) || errors.Is(err, errNoCheckpoint) {
			err = errors.Join(err, j.failed.giveUpRun(err))
		}
	}
	if err != nil || len(all) == 0 {
		return nil, err
	}
	newest := slices.MaxFunc(all, func(a, b store.Summary) int { return int(a.ID.Number) - int(b.ID.Number) })
	p, err := j.c.openCheckpoint(newest.ID)
	if err == nil && (p.Meta.Record.UID != rec.UID || p.Meta.Record.Submitted != rec.Submitted) {
		p.Close()
		err = fmt.Errorf("the checkpoint is of a job of uid %d, submitted at %s", p.Meta.Record.UID, p.Meta.Record.Submitted)
	}
	if err != nil {
		err = fmt.Errorf("checkpoint %d: %w", newest.ID.Number, err)
		return nil, errors.Join(err, j.failed.giveUpRun(err))
	}
	if lost != nil && lost.Released {
		p.LostNewer = fmt.Sprintf("; checkpoint %d is lost: %s", lost.Number, lost.Lost)
	}
	return p, nil
}

// openCheckpoint opens a checkpoint for a restore. It stays open during the run, so it does not
// end with the request that opens it.
func (c *Conductor) openCheckpoint(id store.ID) (*runs.ResumePoint, error) {
	r, err := c.Store.Open(c.daemonCtx, id)
	if err != nil {
		return nil, err
	}
	meta, err := records.DecodeMeta(r.Manifest().Meta)
	if err != nil {
		r.Close()
		return nil, err
	}
	return &runs.ResumePoint{ID: id, Reader: r, Meta: meta}, nil
}

// uploadCommentInterval is how often a restore that waits for an upload updates the job's comment.
const uploadCommentInterval = 15 * time.Second

// errUploadLost is the reason for which a job is held if its only checkpoint is lost.
var errUploadLost = errors.New("it was lost before it was in the store, and there is none before it; released, the job begins anew")

// awaitNewestUpload waits, before a restore, for the job's newest checkpoint.
func (j *job) awaitNewestUpload(ctx context.Context, rec *records.Record) (*upload.Record, error) {
	var commentedAt time.Time
	began := time.Now()
	lost, err := j.c.uploads.AwaitStoredOrLost(ctx, j.id, rec.Submitted, j.c.RestorePatience, func(up *upload.Record, w *upload.Watch) {
		if now := time.Now(); now.Sub(commentedAt) > uploadCommentInterval {
			commentedAt = now
			j.report.SetComment(w.Describe(up))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the newest checkpoint: %w", err)
	}
	if !commentedAt.IsZero() {
		j.log.Info("waited for an upload", "took", time.Since(began), "lost", lost != nil)
	}
	return lost, nil
}

// holdWithoutCheckpoint holds a job, once, if its only checkpoint is lost: the user is told before
// the job begins anew.
func (j *job) holdWithoutCheckpoint(lost *upload.Record) error {
	if lost == nil || !lost.Released || lost.HoldReported {
		return nil
	}
	err := fmt.Errorf("checkpoint %d: %w (%s)", lost.Number, errUploadLost, lost.Lost)
	if up := j.failed.giveUpRun(err); up != nil {
		return errors.Join(err, up)
	}
	return errors.Join(err, j.c.uploads.Change(lost, func(now *upload.Record) bool { now.HoldReported = true; return true }))
}

// describeNextRun describes, at the start of a run after the first, the work that is lost, and sets the comment of a run for
// which no checkpoint was wanted. anew, a comment, and startLine, for the job's log, say that the run begins anew.
func describeNextRun(j *job, s *slurm.Job, point *runs.ResumePoint, rec *records.Record, before earlierRun) (lost, anew, startLine string) {
	switch {
	case point != nil:
		lost = j.c.findLostWork(s, point.ID.Number)
		point.LostWork = lost
	case before == endedRun:
		j.report.ReplaceCheckpointComment("begins anew: the run before had ended by itself")
	default:
		lost = j.c.findLostWork(s, 0)
		failure := describeFailure(j.c.timeline, s.ID)
		anew = "begins anew, for there is no checkpoint" + lost + failure
		startLine = "this run " + anew
		if failure == "" {
			startLine += adviseInterval(rec.Options.Interval)
		}
	}
	return lost, anew, startLine
}

// adviseInterval says, as the end of a sentence, how a job comes to have a checkpoint when a node dies. every is the job's
// option; 0: the job has none.
func adviseInterval(every time.Duration) string {
	if every == 0 {
		return "; with --singularity-interval=TIME, or singctl checkpoint, there is one when a node dies"
	}
	return fmt.Sprintf("; the first is made %v after the start, as --singularity-interval says, or by singctl checkpoint", every)
}

// findLostWork describes, at the start of a run, the work of the earlier runs that is lost; "": none. number is that of
// the checkpoint from which the run resumes; 0: the run begins anew.
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
	return records.DescribeLostWork(records.LostWork(events, number, ended))
}

// describeFailure returns, as the end of a sentence, why the run before has made no checkpoint; "" if it has not tried
// to.
func describeFailure(lines *records.Timeline, job uint32) string {
	events, err := lines.Read(job)
	why := records.LastFailure(events)
	if err != nil || why == "" {
		return ""
	}
	return "; " + why
}

// errCheckpointsLost is the reason for which a job is held if its checkpoints are gone.
var errCheckpointsLost = errors.New("the shared folder has no checkpoint of this job any more (is the right file system mounted? " +
	"were they deleted?); released, the job begins anew")

// lostCheckpoint returns an error that wraps errCheckpointsLost if Slurm runs a job again and one of the job's comments
// names a checkpoint above deleted; its caller has found no checkpoint in the store. A run from the script's beginning
// would overwrite the job's results, so the job is to be held. The comments name no checkpoint afterwards: released, the
// job begins anew.
func (c *Conductor) lostCheckpoint(ctx context.Context, s *slurm.Job, deleted uint32) error {
	if s.Restarts == 0 {
		return nil
	}
	n, err := c.slurmComments().FindCheckpoint(ctx, s.String())
	for began := time.Now(); err != nil && time.Since(began) < restoreCallTimeout && waits.SleepUnlessDone(ctx, sharedLook); {
		n, err = c.slurmComments().FindCheckpoint(ctx, s.String()) // slurmctld may be starting again
	}
	if err != nil {
		return err
	}
	if n > int(deleted) {
		return fmt.Errorf("checkpoint %d was made, and %w", n, errCheckpointsLost)
	}
	return nil
}

// findEndedJob returns the Past of a job that has no record because its run ended by itself, if a person has had Slurm
// run the job again; else nil. The checkpoints that the job's comment names have been deleted with the job, or will be.
func findEndedJob(lines *records.Timeline, s *slurm.Job) (*records.PastJob, error) {
	if s.Restarts == 0 {
		return nil, nil
	}
	past, err := lines.ReadPast(s.ID)
	if err != nil || past == nil || past.UID != s.UID || !past.NextBeginsAnew {
		return nil, err
	}
	return past, nil
}

// holdIfCheckpointsLost holds a job that has no record in the shared folder, if lostCheckpoint finds that it should have
// one, and returns why.
func (c *Conductor) holdIfCheckpointsLost(ctx context.Context, s *slurm.Job) error {
	id := store.PlainJob(c.Cluster, s.ID)
	all, err := c.Store.List(ctx, &id)
	if err != nil || len(all) > 0 {
		return err
	}
	lost := c.lostCheckpoint(ctx, s, 0)
	if !errors.Is(lost, errCheckpointsLost) {
		return lost
	}
	c.Log.Error("the job is held", "job", s.ID, "error", lost)
	c.Meter.Event(records.EventHeld)
	ctx = context.WithoutCancel(ctx) // which ends with the task, and Slurm kills the task
	said := c.slurmComments().Write(ctx, s.String(), reports.Held+lost.Error())
	return errors.Join(lost, said, c.Slurm.RequeueHold(ctx, s.String()))
}

// runOfTask returns the number of the run to which a task belongs. Slurm counts a requeue before it ends the run: until
// the end of that run, the tasks of a step that has just begun belong to it.
func runOfTask(s *slurm.Job, t nodesocket.Join) int {
	if t.Key != "" && !s.Runs() {
		return min(t.Restarts, s.Restarts)
	}
	return s.Restarts
}

// showPatiently asks Slurm for the job until slurmctld answers: the job has begun, and an error
// would end it. ctx ends with the task.
func (j *job) showPatiently(ctx context.Context) (*slurm.Job, error) {
	for warned := false; ; {
		s, err := j.c.Slurm.Show(ctx, slurm.JobName(j.id))
		if !errors.Is(err, slurm.ErrSilent) {
			return s, err
		}
		if !warned {
			warned = true
			j.log.Warn("a task waits for slurmctld", "error", err)
		}
		if !waits.SleepUnlessDone(ctx, slurmRetryInterval) {
			return nil, err
		}
	}
}

// makeStartEvent returns the event of the start of a run on nodes. unbegun: no earlier run has begun the batch script.
func makeStartEvent(restarts int, nodes []string, point *runs.ResumePoint, lostWork string, unbegun bool) records.Event {
	number := uint32(0)
	if point != nil {
		number = point.ID.Number
	}
	e := records.MakeStartEvent(restarts+1, nodes, number)
	if restarts > 0 && unbegun {
		e.Text = fmt.Sprintf("run %d: no run before has begun the batch script", restarts+1)
	}
	e.Text += lostWork
	return e
}
