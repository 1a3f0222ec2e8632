// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/filestate"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// uploadConductor is the Conductor as uploads see it.
type uploadConductor struct{ c *Conductor }

// UploadShare implements upload.Conductor.
func (h uploadConductor) UploadShare(ctx context.Context, node string, id store.ID, ticket store.Ticket) (upload.ShareReply, error) {
	return callNode(ctx, h.c, node, id.Job, id.Number, calls.UploadShare, calls.UploadShareArgs{Ticket: ticket})
}

// ShareStatus implements upload.Conductor.
func (h uploadConductor) ShareStatus(ctx context.Context, node string, id store.ID) (upload.ShareStatus, error) {
	return callNode(ctx, h.c, node, id.Job, id.Number, calls.ShareStatus, calls.Empty{})
}

// DropShare implements upload.Conductor.
func (h uploadConductor) DropShare(ctx context.Context, node string, id store.ID) error {
	_, err := callNode(ctx, h.c, node, id.Job, id.Number, calls.DropShare, calls.Empty{})
	return err
}

// AddUploadEvent implements upload.Conductor.
func (h uploadConductor) AddUploadEvent(up *upload.Record, what, text string) {
	if j := h.c.jobs.findJob(up.Job); j != nil {
		j.report.AddEvent(what, up.Nodes, text)
	}
}

// WriteComment implements upload.Conductor.
func (h uploadConductor) WriteComment(ctx context.Context, job, text string) error {
	return h.c.slurmComments().Write(ctx, job, text)
}

// ReportStored implements upload.Conductor.
func (h uploadConductor) ReportStored(id store.ID) {
	h.c.startBackground(func(ctx context.Context) { h.c.Meter.Stored(ctx, id) })
}

// DeleteExpired implements upload.Conductor.
func (h uploadConductor) DeleteExpired(ctx context.Context, job uint32) error {
	return h.c.newEnds().DeleteExpired(ctx, job)
}

// IsCapturing implements upload.Conductor.
func (h uploadConductor) IsCapturing(id store.ID) bool {
	j := h.c.jobs.findJob(id.Job)
	if j == nil {
		return false
	}
	_, err := j.participant.membershipIn(id)
	return err == nil
}

// pledgeUpload makes a staged checkpoint count.
func (a *attempt) pledgeUpload(ctx context.Context) error {
	j := a.j
	var bytes uint64
	for _, r := range a.reports {
		bytes += r.Bytes
	}
	rec := j.run.Snapshot().Record
	a.upload = &upload.Record{
		Job: j.id, Number: a.id.Number, Made: time.Now().UTC(), Slurm: rec.Slurm, UID: rec.UID, Submitted: rec.Submitted,
		Reason: a.reason, Leader: j.c.Node, Nodes: a.nodes, Bytes: bytes, Base: a.base, Released: a.outcome.LeavesNodes(),
	}
	return j.c.uploads.Pledge(ctx, a.upload)
}

// With less than this, files are recorded as quickly as a base is opened.
const (
	manyBytes   = 16 << 20 // of content
	manyChanges = 10_000   // since the base
)

// profitsFromBase reports whether this node's dump can take streams over.
func (p *participant) profitsFromBase() bool {
	all := p.j.localCapsules()
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	return slices.ContainsFunc(all, func(lc *localCapsule) bool { return lc.devices != nil || lc.manyFiles })
}

// chooseBase returns the number of the checkpoint that the nodes may use as base, or 0. Each node
// checks by itself whether the base fits, and reports whether it was used.
func (a *attempt) chooseBase(ctx context.Context) uint32 {
	profits := false
	for _, r := range a.reports {
		profits = profits || len(r.Devices) > 0 || r.ManyFiles
	}
	if a.withoutBase || !profits {
		return 0
	}
	id, _, err := a.j.c.Store.Newest(ctx, a.id.JobID)
	if err != nil {
		a.log.Warn("cannot find the previous checkpoint", "error", err)
	}
	return id.Number
}

// openBase opens the checkpoint number as base of this node's dump. It returns nil if the
// checkpoint cannot be used.
func (p *participant) openBase(ctx context.Context, w upload.ShareWriter, id store.ID, number uint32) *upload.Base {
	if number == 0 {
		return nil
	}
	id.Number = number
	base, err := upload.OpenBase(ctx, w, id, p.j.run.Snapshot().Number)
	if err != nil { // The base may be deleted or damaged. The job is captured all the same.
		p.j.log.Warn("the previous checkpoint is not used as base", "checkpoint", id, "error", err)
	}
	return base
}

// fileHistory is what a capsule's change list and the checkpoints know of how its programs changed files.
type fileHistory struct{ lc *localCapsule }

// changesSinceEarlier returns the state of files from which a dump of the capsule begins, as earlierFiles does, and the
// changes since then.
func (h fileHistory) changesSinceEarlier(ctx context.Context, on *upload.Base) (before *files.State, inBase bool, touched files.TouchedFiles, err error) {
	h.lc.forgetting.Lock()
	defer h.lc.forgetting.Unlock()
	var since files.Mark
	if before, inBase = h.earlierFiles(ctx, on); before != nil {
		since = before.Mark
	}
	touched, err = h.lc.changes.Since(since)
	return before, inBase, touched, err
}

// earlierFiles returns the state of files from which a dump of the capsule begins: that of the base, of which streams
// can be taken over, or that of the checkpoint from which the run resumed. It is nil if there is neither. Where the
// change list does not know all changes since then, it is that of the newest checkpoint of the run. The state can
// be large, so it is read for each dump and not kept in memory. A checkpoint that cannot be read counts as none: the
// dump then reads and writes more files.
func (h fileHistory) earlierFiles(ctx context.Context, on *upload.Base) (state *files.State, inBase bool) {
	j := h.lc.j
	state, err := j.c.filesInBase(ctx, on, h.lc.index)
	if err != nil {
		j.log.Warn("the files of the previous checkpoint are not taken over", "capsule", h.lc.index, "error", err)
	}
	if state != nil {
		return state, true
	}
	if state = h.filesAtResume(); state == nil || state.Mark < h.lc.changes.Forgotten() {
		state = cmp.Or(h.filesOfRun(ctx), state)
	}
	return state, false
}

// filesAtResume returns the state of files of the checkpoint from which the run resumed, or nil.
func (h fileHistory) filesAtResume() *files.State {
	point := h.lc.j.run.Snapshot().Point
	if point == nil || point.Meta.Capsule(h.lc.index) == nil {
		return nil
	}
	state, err := filestate.Load(point.Reader, point.Meta.Capsule(h.lc.index))
	if err != nil {
		h.lc.j.log.Warn("cannot read the state of files from which the run resumed", "capsule", h.lc.index, "error", err)
		return nil
	}
	return state
}

// filesOfRun returns the state of files at the newest checkpoint of this run since which the change list knows all
// changes, or nil. It is only asked for where the change list has forgotten changes.
func (h fileHistory) filesOfRun(ctx context.Context) *files.State {
	j, forgotten := h.lc.j, h.lc.changes.Forgotten()
	if forgotten == 0 {
		return nil
	}
	state, err := filestate.LoadNewest(ctx, j.c.Store, store.PlainJob(j.c.Cluster, j.id), j.run.Snapshot().Number, h.lc.index, forgotten)
	if err != nil {
		j.log.Warn("cannot read the state of files of an earlier checkpoint", "capsule", h.lc.index, "error", err)
	}
	return state
}

// changesCheckPeriod is how often the length of a capsule's list of changed files is looked at.
const changesCheckPeriod = time.Minute

// keepChangeListShort removes changes that no restore needs from the capsule's list of changed files whenever that is
// long, until ctx ends.
func (h fileHistory) keepChangeListShort(ctx context.Context) {
	tick := time.NewTicker(changesCheckPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := h.shortenChangeList(ctx); err != nil && ctx.Err() == nil {
				h.lc.j.log.Warn("cannot shorten the list of changed files: it is tried again", "capsule", h.lc.index, "error", err)
			}
		}
	}
}

// shortenChangeList removes the changes that were before the oldest checkpoint in the store from a long list of changed
// files.
func (h fileHistory) shortenChangeList(ctx context.Context) error {
	if !h.lc.changes.IsLong() {
		return nil
	}
	oldest, err := filestate.OldestMark(ctx, h.lc.j.c.Store, store.PlainJob(h.lc.j.c.Cluster, h.lc.j.id), h.lc.index)
	if err != nil {
		return err
	}
	h.lc.forgetting.Lock()
	defer h.lc.forgetting.Unlock()
	before := h.lc.changes.Forgotten()
	if err := h.lc.changes.Forget(oldest); err != nil {
		return err
	}
	if now := h.lc.changes.Forgotten(); now != before {
		h.lc.j.log.Info("old changes of files are removed from their list", "capsule", h.lc.index, "bytes", now-before)
	}
	return nil
}

// logRecording logs that the changes of files cannot be recorded, or, without an error, that they can be again.
func (lc *localCapsule) logRecording(err error) {
	if err != nil {
		lc.j.log.Error("cannot record changed files now: it is tried again", "capsule", lc.index, "error", err)
		return
	}
	lc.j.log.Info("changed files are recorded again", "capsule", lc.index)
}

// reportUnknownFiles tells the user that some changes of programs to files are not recorded. full says that there are
// too many changes.
func (lc *localCapsule) reportUnknownFiles(full bool) {
	why := ""
	if full {
		why = ": the job changed more files than a checkpoint can describe"
	}
	lc.j.log.Warn("the list of what the job changed is not complete"+why, "capsule", lc.index)
	lc.j.report.AddEvent(records.EventFilesUnknown, nil, fmt.Sprintf("capsule %d: not all that programs did to files could be recorded%s", lc.index, why))
}

// filesInBase returns the state of a capsule's files in the base, or nil if the base has none whose streams this node wrote.
func (c *Conductor) filesInBase(ctx context.Context, b *upload.Base, index int) (*files.State, error) {
	m := b.Capsule(index)
	if m == nil || m.Node != c.Node {
		return nil, nil //nolint:nilnil // no error: there is no state to begin from
	}
	r, err := c.Store.Open(ctx, b.ID())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return filestate.Load(r, m)
}
