// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/ends"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/outside"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// restart takes over the capsules, folders and networks that the predecessor of this daemon left.
type restart struct{ c *Conductor }

// Adopt takes over the capsules of this daemon's predecessor, and finishes or undoes the work that the predecessor had
// in progress. It removes the remains of capsules that died with the node.
func (c *Conductor) Adopt(ctx context.Context) error {
	if err := processes.RemoveLeftFilesCgroups(c.Cgroups); err != nil {
		c.Log.Error("cannot remove cgroups that the last daemon left", "error", err)
	}
	notes, err := c.restarts.adoptCapsules(ctx)
	if err != nil {
		return err
	}
	// Also capsules that could not be taken over: their networks must stay.
	var found []string
	for _, n := range notes {
		found = append(found, capsuleName(n.Job, n.Index))
	}
	if err := c.restarts.discardUnknownCapsules(ctx, found); err != nil {
		return err
	}
	if err := c.restarts.discardDevices(ctx, found); err != nil {
		return err
	}
	if err := outside.EndUnknown(ctx, c.folders().forwardersDir(), func(name string) bool { return slices.Contains(found, name) }); err != nil {
		c.Log.Error("cannot discard a forwarder", "error", err)
	}
	for _, j := range c.jobs.allJobs() {
		c.restarts.recoverJob(ctx, j)
	}
	if err := c.newEnds().ResumeRequeues(); err != nil {
		return err
	}
	if err := c.restarts.removeUnusedKits(notes); err != nil {
		return err
	}
	if err := c.uploads.Resume(); err != nil {
		c.Log.Error("cannot resume uploads", "error", err)
	}
	c.startBackground(c.sweepPeriodically)
	return c.Overlay.Sweep(ctx, found)
}

// adoptCapsules takes over the capsules that have notes, and returns the notes. If ctx ends meanwhile, because this daemon is
// told to stop, the error is that of ctx: the next daemon takes over the rest.
func (r restart) adoptCapsules(ctx context.Context) ([]capsuleNote, error) {
	c := r.c
	entries, err := os.ReadDir(c.folders().notesDir())
	if err != nil {
		return nil, err
	}
	var notes []capsuleNote
	began := time.Now()
	for _, e := range entries {
		n, err := readNote(filepath.Join(c.folders().notesDir(), e.Name()))
		if err != nil {
			c.Log.Error("cannot read a capsule's note", "file", e.Name(), "error", err)
			if n, ok := r.runsWithoutNote(ctx, e.Name()); ok {
				notes = append(notes, n)
			}
			continue
		}
		err = retryWhileFilesFail(ctx, adoptPatience-time.Since(began), func() error { return r.adoptCapsule(ctx, n) })
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			c.Log.Error("cannot adopt a capsule", "job", n.Job, "capsule", n.Index, "error", err)
		}
		notes = append(notes, n)
	}
	return notes, nil
}

// adoptPatience bounds the time for which capsules that cannot be taken over delay the start of the daemon. After an upgrade all
// nodes start at once, when the file server is busiest.
const adoptPatience = 30 * time.Second

// fileFailures are errors of files that may be over in a moment: a file server fails, or has no room.
var fileFailures = []error{syscall.EIO, syscall.ESTALE, syscall.ENOSPC, syscall.EDQUOT, syscall.ETIMEDOUT, syscall.EAGAIN, syscall.EINTR}

// retryWhileFilesFail repeats do while its error is one of fileFailures, within a time. Otherwise the job would have no proxyd until
// the next restart: no checkpoint, and no decision about Slurm's signals.
func retryWhileFilesFail(ctx context.Context, within time.Duration, do func() error) error {
	return retryWhile(ctx, within, func(err error) bool {
		return slices.ContainsFunc(fileFailures, func(failure error) bool { return errors.Is(err, failure) })
	}, do)
}

// runsWithoutNote tells, for a file in the folder of notes that cannot be read, whether its capsule runs. Such a
// capsule is not taken over, and not ended either: its programs run on. The note that is returned has the capsule's
// name only.
func (r restart) runsWithoutNote(ctx context.Context, file string) (n capsuleNote, runs bool) {
	if _, err := fmt.Sscanf(file, "%d.%d.json", &n.Job, &n.Index); err != nil || file != filepath.Base(r.c.folders().notePath(n.Job, n.Index)) {
		return n, false
	}
	cap, err := capsule.Adopt(ctx, r.c.folders().capsuleDir(n.Job, n.Index))
	if err == nil {
		cap.Close()
	}
	return n, !errors.Is(err, capsule.ErrStale)
}

// adoptCapsule takes over a capsule, or removes it if its processes or its job are gone.
func (r restart) adoptCapsule(ctx context.Context, n capsuleNote) error {
	c := r.c
	cap, err := capsule.Adopt(ctx, c.folders().capsuleDir(n.Job, n.Index))
	if errors.Is(err, capsule.ErrStale) {
		c.jobs.rememberEndedRun(n.Job, n.Run)
		return errors.Join(capsule.Discard(ctx, c.folders().capsuleDir(n.Job, n.Index)), r.removeLeftovers(ctx, n))
	}
	if err != nil {
		return err
	}
	rec, err := c.records.Load(n.Job)
	if err != nil {
		cap.Close()
		return err
	}
	if rec == nil { // The job is over, and its end was missed.
		return errors.Join(cap.Remove(ctx), r.removeLeftovers(ctx, n))
	}
	n.addWardenStarts()
	j := c.jobFor(n.Job)
	if j.run.Snapshot().Record == nil {
		if err := r.continueRun(ctx, j, rec, n); err != nil {
			cap.Close()
			return err
		}
	}
	lc := &localCapsule{j: j, index: n.Index, capsule: cap, note: n, criuRestored: map[string]bool{}}
	if all, err := cap.Ended(ctx); err == nil {
		var status syscall.WaitStatus
		if status, lc.scriptEnded = all[records.BatchProgram]; lc.scriptEnded { // before this daemon began, which gets no event of it
			j.log.Info("program ended", "capsule", lc.index, "program", records.BatchProgram, "status", describeEnd(status))
		}
	}
	if lc.changes, err = files.OpenChangeList(c.folders().changeListDir(n.Job, n.Index), c.records.ChangedFilesPath(n.Job, n.Index)); err != nil {
		cap.Close()
		return err
	}
	lc.translateContainers()
	if lc.outside, err = outside.Find(ctx, outsideOf(lc).forwarderSpec(rec), n.Outside); err != nil {
		cap.Close()
		return errors.Join(err, lc.changes.Close())
	}
	if lc.devices, err = life.Find(ctx, c.folders().deviceDir(n.Job, n.Index)); err != nil {
		cap.Close()
		return errors.Join(err, lc.changes.Close())
	}
	runners, err := srun.Find(c.folders().srunDir(n.Job, n.Index))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Log.Error("cannot find sruns", "job", n.Job, "error", err)
	}
	for _, r := range runners {
		lc.sruns.Add(r.Key(), r)
		c.startBackground(func(ctx context.Context) { lc.followSrun(ctx, r.Key(), r) })
	}
	lc.addCapsule()
	j.log.Info("capsule adopted", "capsule", n.Index, "restarts", n.Run)
	return nil
}

// removeLeftovers removes the parts of a capsule outside of its folder: its device server, network and files, and its
// note.
func (r restart) removeLeftovers(ctx context.Context, n capsuleNote) error {
	c := r.c
	return errors.Join(
		c.endLeftoverDevices(ctx, n.Job, n.Index),
		outside.EndLeftover(ctx, c.folders().forwarderDir(n.Job, n.Index)),
		c.Overlay.Detach(ctx, capsuleName(n.Job, n.Index)),
		os.RemoveAll(c.folders().changeListDir(n.Job, n.Index)),
		os.RemoveAll(c.folders().srunDir(n.Job, n.Index)),
		os.Remove(c.folders().notePath(n.Job, n.Index)),
	)
}

// continueRun makes the run of a capsule's note the present run of the job, of which this daemon knows no run yet.
func (r restart) continueRun(ctx context.Context, j *job, rec *records.Record, n capsuleNote) error {
	c := r.c
	var point *runs.ResumePoint
	if n.ResumedFrom != 0 && (len(n.ProgramsToRestore) > 0 || n.NetworkLocked) {
		var err error
		if point, err = c.openCheckpoint(store.ID{JobID: store.PlainJob(c.Cluster, n.Job), Number: n.ResumedFrom}); err != nil {
			return err
		}
	}
	j.beginRun(rec, n.Run, n.Nodes, point)
	where := records.Placement{FirstRun: rec.Nodes, ThisRun: n.Nodes}
	if err := j.setPeers(ctx, rec, where); err != nil {
		j.log.Error("cannot connect to the job's other capsules", "error", err)
		c.startBackground(func(ctx context.Context) { j.setPeersRetrying(ctx, rec, where) })
	}
	return nil
}

// setPeersRetrying repeats setPeers in the background, until the run is over.
func (j *job) setPeersRetrying(ctx context.Context, rec *records.Record, where records.Placement) {
	err := retryWhile(ctx, restoreCallTimeout, clusterMayRecover, func() error {
		if len(j.localCapsules()) == 0 {
			return nil
		}
		return j.setPeers(ctx, rec, where)
	})
	if err != nil && ctx.Err() == nil {
		j.log.Error("cannot connect to the job's other capsules", "error", err)
	}
}

// removeUnusedKits removes this node's copies of kits, but those of the jobs that have notes: programs of a capsule that could
// not be taken over use theirs, too. A removed file that a program uses cannot be made again at a restore, because the
// capsule's kit is read-only.
func (r restart) removeUnusedKits(notes []capsuleNote) error {
	c := r.c
	used := map[string]bool{}
	for _, n := range notes {
		rec, err := c.records.Load(n.Job)
		if err != nil {
			c.Log.Error("unused kits stay until the next start: the kit of a job is not known", "job", n.Job, "error", err)
			return nil
		}
		if rec != nil {
			used[rec.Kit] = true
		}
	}
	return c.kits.RemoveUnused(used)
}

// discardUnknownCapsules removes capsules without a note: the daemon died while it made them.
func (r restart) discardUnknownCapsules(ctx context.Context, known []string) error {
	c := r.c
	entries, err := os.ReadDir(c.folders().capsulesDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(known, e.Name()) {
			continue
		}
		if err := capsule.Discard(ctx, filepath.Join(c.folders().capsulesDir(), e.Name())); err != nil {
			c.Log.Error("cannot discard a capsule", "capsule", e.Name(), "error", err)
		}
	}
	return nil
}

// recoverJob continues a job after a restart of the daemon: a checkpoint in progress is finished
// or undone, a job that has ended is removed, and periodic checkpoints start again.
func (r restart) recoverJob(ctx context.Context, j *job) {
	c := r.c
	for _, lc := range j.localCapsules() {
		j.mu.Lock()
		p := lc.note.Attempt
		j.mu.Unlock()
		if p == nil {
			continue
		}
		id := store.ID{JobID: store.PlainJob(c.Cluster, j.id), Number: p.Number}
		c.startBackground(func(ctx context.Context) {
			j.participant.resolveOrphaned(ctx, id, p.Release)
			r.reportCutShort(ctx, j, id)
		})
		break
	}
	if j.restore.isNetworkLocked() {
		// Programs that are not restored yet are restored when their wardens' events come. If all
		// are restored, the predecessor may have died before it reported that.
		c.startBackground(j.restore.reportAfterRestart)
	}
	s, err := c.Slurm.Show(ctx, slurm.JobName(j.id))
	run := j.run.Snapshot().Number
	if err == nil && s.Restarts > run+1 {
		c.startBackground(func(ctx context.Context) { r.endJob(ctx, j) })
		return
	}
	if errors.Is(err, slurm.ErrNoJob) {
		c.startBackground(func(ctx context.Context) { r.endUnlessKnown(ctx, j) })
	}
	if err != nil {
		j.log.Warn("cannot learn the job's state", "error", err)
	}
	if j.leaderNode() == c.Node {
		j.startPeriodic()
	}
}

// reportCutShort adds a failed checkpoint to the job's time line: the predecessor of this daemon led the attempt, and ended before
// the checkpoint was committed or had failed.
func (r restart) reportCutShort(ctx context.Context, j *job, id store.ID) {
	if !j.isLeader() {
		return
	}
	events, err := r.c.timeline.Read(j.id)
	made, checkErr := j.participant.hasCheckpoint(ctx, id)
	if err := errors.Join(err, checkErr); err != nil {
		j.log.Warn("cannot tell what became of a checkpoint", "checkpoint", id, "error", err)
		return
	}
	text := fmt.Sprintf("checkpoint %d", id.Number)
	told := slices.ContainsFunc(events, func(e records.Event) bool {
		return e.What == records.EventFailed && strings.HasPrefix(e.Text, text+" ")
	})
	if !made && !told {
		j.report.AddEvent(records.EventFailed, j.run.Snapshot().Placement.ThisRun, text+" was in progress when proxyd ended on "+r.c.Node)
	}
}

func (r restart) endJob(ctx context.Context, j *job) {
	if err := r.c.End(ctx, j.id); err != nil {
		j.log.Error("cannot remove an ended job", "error", err)
	}
}

// endUnlessKnown ends a job with capsules here that Slurm has not known for ends.UnknownGrace: the job's end was missed. Until
// then the job runs on, because a slurmctld that was started without its state, or is starting, knows no job.
func (r restart) endUnlessKnown(ctx context.Context, j *job) {
	for unknownSince := time.Now(); time.Since(unknownSince) < ends.UnknownGrace; {
		if !waits.SleepUnlessDone(ctx, unknownLookInterval) || r.c.jobs.findJob(j.id) != j {
			return
		}
		switch _, err := r.c.Slurm.Show(ctx, slurm.JobName(j.id)); {
		case err == nil:
			return
		case !errors.Is(err, slurm.ErrNoJob): // no answer
			unknownSince = time.Now()
		}
	}
	r.endJob(ctx, j)
}

// unknownLookInterval is how often Slurm is asked again for a job that Slurm does not know.
const unknownLookInterval = 10 * time.Second

// errNoAddress means that a node's address was not found, because slurmctld or a name server did
// not answer.
var errNoAddress = errors.New("no address")

// nodeAddress returns the address of a node.
func (c *Conductor) nodeAddress(ctx context.Context, node string) (netip.Addr, error) {
	at, err := c.Slurm.Address(ctx, node)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w of node %s: %w", errNoAddress, node, err)
	}
	if a, err := netip.ParseAddr(at); err == nil {
		return a, nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", at)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w of node %s: %w", errNoAddress, node, err)
	}
	return all[0].Unmap(), nil
}
