// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/messages"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// View describes a job for people.
type View struct {
	Record    records.Record
	Run       int
	Leader    string               // "": this node knows of no run
	Capsules  []*rpc.Capsule       // by index; home, address and gpus are not set
	Obstacles []processes.Obstacle // what cannot be captured now, or could not at the last attempt
	Outside   []processes.Obstacle // connections to outside, which a restore resets
	Events    []records.Event
}

// Owner returns the user of a job, if the job has a record.
func (c *Conductor) Owner(job string) (uid uint32, known bool) {
	id, err := parseJobName(job)
	if err != nil {
		return 0, false
	}
	rec, err := c.records.Load(id)
	if err != nil || rec == nil {
		return 0, false
	}
	return rec.UID, true
}

// Past returns what is kept of a job that is over, or nil.
func (c *Conductor) Past(job string) (*records.Past, error) {
	id, err := parseJobName(job)
	if err != nil {
		return nil, err
	}
	return c.timeline.ReadPast(id)
}

// Over tells whether a job of this cluster has ended: it has no record.
func (c *Conductor) Over(job store.JobID) bool {
	if job.Cluster != c.Cluster {
		return false // The records of another cluster lie elsewhere.
	}
	_, err := os.Lstat(c.records.Path(job.Job))
	return errors.Is(err, fs.ErrNotExist)
}

// viewWithin bounds the wait for the other nodes of a job.
const viewWithin = 5 * time.Second

// View describes a job. The error wraps ErrNoJob if this node knows nothing of the job and the
// job has no record; of a lease the error is a *LeaseError.
func (c *Conductor) View(ctx context.Context, job string) (*View, error) {
	id, err := parseJobName(job)
	if err != nil {
		return nil, err
	}
	v, err := c.jobView(ctx, id)
	if err != nil {
		return nil, err
	}
	if v.Events, err = c.timeline.Read(id); err != nil || len(v.Events) > 0 {
		return v, err
	}
	// The job may have ended since: before its time line is removed, the time line is kept for people.
	past, err := c.timeline.ReadPast(id)
	if past != nil {
		v.Events = past.Events
	}
	return v, err
}

func (c *Conductor) jobView(ctx context.Context, id uint32) (*View, error) {
	j := c.jobs.findJob(id)
	if j == nil {
		rec, err := c.records.Load(id)
		if err == nil && rec == nil {
			err = c.leases.noJob(id)
		}
		if err != nil {
			return nil, err
		}
		return &View{Record: *rec}, nil
	}
	snap := j.run.Snapshot()
	if snap.Record == nil {
		return nil, fmt.Errorf("job %d: %w", id, ErrNoJob)
	}
	v := &View{Record: *snap.Record, Run: snap.Number, Leader: snap.Placement.NodeOf(0)}
	j.mu.Lock()
	v.Obstacles = slices.Clone(j.lastObstacles)
	for k := range snap.Record.Nodes {
		v.Capsules = append(v.Capsules, &rpc.Capsule{Index: uint32(k), Node: snap.Placement.NodeOf(k)})
	}
	j.mu.Unlock()
	views := j.viewAll(ctx, snap.Placement.ThisRun)
	if found := j.obstaclesOf(views); len(found) > 0 {
		v.Obstacles = found
	}
	for _, cv := range views {
		if index := int(cv.Capsule.GetIndex()); index < len(v.Capsules) {
			c := v.Capsules[index]
			c.Programs, c.Devices = cv.Capsule.GetPrograms(), cv.Capsule.GetDevices()
			c.Leases, c.Reachable = cv.Capsule.GetLeases(), cv.Capsule.GetReachable()
			for _, o := range cv.Outside {
				o.Node = cv.Capsule.GetNode()
				v.Outside = append(v.Outside, o)
			}
		}
	}
	return v, nil
}

// viewAll asks all nodes of the run. A node that does not answer is left out.
func (j *job) viewAll(ctx context.Context, nodes []string) []calls.CapsuleView {
	ctx, cancel := context.WithTimeout(ctx, viewWithin)
	defer cancel()
	var mu sync.Mutex
	var found []calls.CapsuleView
	var all sync.WaitGroup
	for _, node := range nodes {
		all.Go(func() {
			var there []calls.CapsuleView
			if err := j.c.callNode(ctx, node, j.id, 0, calls.View, calls.Empty{}, &there); err != nil {
				j.log.Info("describe the job", "error", err)
			}
			mu.Lock()
			defer mu.Unlock()
			found = append(found, there...)
		})
	}
	all.Wait()
	return found
}

// viewHere describes the capsules of this node.
func (j *job) viewHere(ctx context.Context, _ store.ID, _ calls.Empty) ([]calls.CapsuleView, error) {
	var views []calls.CapsuleView
	for _, lc := range j.localCapsules() {
		programs, err := lc.capsule.Programs(ctx)
		if err != nil {
			continue // the capsule is ending
		}
		m := &rpc.Capsule{Index: uint32(lc.index), Node: j.c.Node, Leases: messages.EncodeLeases(borrower{lc}.leases()), Reachable: outsideOf(lc).listReachable()}
		for _, p := range programs {
			var since time.Time
			var command string
			if !p.Ended && p.First > 0 {
				since, command = processes.Info(fmt.Sprintf("/proc/%d/root/proc/%d", lc.capsule.PID(), p.First))
			}
			m.Programs = append(m.Programs, messages.EncodeProgram(&p, processes.ResidentBytes(p), since, command))
		}
		v := calls.CapsuleView{Capsule: m}
		if v.Obstacles, v.Outside, err = lc.findObstacles(ctx, programs); err != nil {
			j.log.Info("describe the job", "error", err)
		}
		if lc.devices != nil {
			if st, err := lc.devices.Status(ctx); err != nil {
				j.log.Info("describe the job", "error", err)
			} else {
				m.Devices = messages.EncodeDevices(st, sharedServer(lc.devices))
			}
		}
		views = append(views, v)
	}
	return views, nil
}

// errNothingHere returns the error for a job without programs on this node. A protected job has
// lost them, for example by a power failure: Slurm will notice that and run the job again.
func (c *Conductor) errNothingHere(id uint32) error {
	if rec, err := c.records.Load(id); err == nil && rec != nil {
		return fmt.Errorf("job %d %w %s, and Slurm has not noticed: %w", id, errNothingLeft, c.Node, ErrNoJob)
	}
	if c.leases.findBorrower(id) != nil {
		return c.leases.noJob(id)
	}
	return fmt.Errorf("job %d has no programs on node %s: %w", id, c.Node, ErrNoJob)
}

// Waiting is the phase that TakeCheckpoint reports while an upload of the previous checkpoint
// delays the new one.
const Waiting = "waiting"

// TakeCheckpoint takes a checkpoint of a running job and returns its ID. progress gets the phase;
// once that is not Waiting, the checkpoint goes on even if ctx ends. holdAfterwards: the caller requeues
// the job next. Then the job stays frozen until the requeue, and a staged checkpoint is enough.
// holdAfterwards works only on the node that leads: elsewhere the call returns when the checkpoint is in
// the store, and the job may run on before that.
func (c *Conductor) TakeCheckpoint(ctx context.Context, job, reason string, holdAfterwards bool, progress func(phase string, done, total int64)) (store.ID, error) {
	id, err := parseJobName(job)
	if err != nil {
		return store.ID{}, err
	}
	j := c.jobs.findJob(id)
	if j == nil || len(j.localCapsules()) == 0 {
		return store.ID{}, c.errNothingHere(id)
	}
	if !holdAfterwards {
		if err := c.uploads.Wait(ctx, id, func() { progress(Waiting, 0, 0) }); err != nil {
			return store.ID{}, err
		}
	}
	progress(calls.PhasePrepare, 0, int64(len(phases)))
	tell := func(phase string) { progress(phase, int64(slices.Index(Phases(), phase)), int64(len(phases))) }
	a, err := c.requestCheckpoint(ctx, j, decisions.Request{After: decisions.RunOn, Reason: reason, HoldAfterwards: holdAfterwards}, tell)
	if err != nil {
		if ctx.Err() == nil { // else the caller has left, and the attempt goes on
			j.report.SetComment(fmt.Sprintf(reports.NoCheckpoint+"%s: %v", time.Now().Format(time.TimeOnly), err))
		}
		return store.ID{}, err
	}
	if holdAfterwards && a != nil {
		progress(calls.PhaseCommit, int64(len(phases)), int64(len(phases)))
		return a.id, nil
	}
	lost, err := c.uploads.AwaitStoredOrLost(ctx, id, j.submittedAt(), 0, func(_ *upload.Record, w *upload.Watch) { progress(upload.Step, w.Done, w.Total) })
	if err == nil && lost != nil && (a == nil || lost.IsSame(a.upload)) {
		err = fmt.Errorf("checkpoint %d: it was lost before it was in the store: %s", lost.Number, lost.Lost)
	}
	if err == nil && lost == nil && a != nil && a.staged {
		var there bool
		if there, err = c.uploads.IsInStore(ctx, a.upload); err == nil && !there {
			err = fmt.Errorf("checkpoint %d: the job has ended before it was in the store", a.id.Number)
		}
	}
	if err != nil {
		return store.ID{}, err
	}
	progress(calls.PhaseCommit, int64(len(phases)), int64(len(phases)))
	if a == nil { // another node leads
		all, err := c.Store.List(ctx, &store.JobID{Cluster: c.Cluster, Job: id, ArrayTask: store.None, Component: store.None})
		if err != nil || len(all) == 0 {
			return store.ID{}, err
		}
		return slices.MaxFunc(all, func(a, b store.Summary) int { return int(a.ID.Number) - int(b.ID.Number) }).ID, nil
	}
	return a.id, nil
}

// Attempt is a checkpoint that is being made, for people.
type Attempt struct {
	UID        uint32 // of the job's user
	Began      time.Time
	Reason     string
	Phase      string
	PhaseBegan time.Time
}

// Attempt returns the checkpoint of a job that is being made, or nil. Only the node that leads the job knows of the
// checkpoint.
func (c *Conductor) Attempt(job string) *Attempt {
	id, err := parseJobName(job)
	if err != nil {
		return nil
	}
	j := c.jobs.findJob(id)
	if j == nil {
		return nil
	}
	snap := j.run.Snapshot()
	j.mu.Lock()
	a := j.ledAttempt
	j.mu.Unlock()
	if a == nil || snap.Record == nil {
		return nil
	}
	select {
	case <-a.committed: // the store, or the record of its upload, has the checkpoint
		return nil
	default:
	}
	phase, phaseBegan, _ := a.currentPhase()
	return &Attempt{UID: snap.Record.UID, Began: a.began, Reason: a.reason, Phase: phase, PhaseBegan: phaseBegan}
}

// MetaOf returns the conductor's part of a checkpoint's manifest, and the manifest.
func (c *Conductor) MetaOf(ctx context.Context, id store.ID) (*records.Meta, *store.Manifest, error) {
	r, err := c.Store.Open(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	m, err := records.DecodeMeta(r.Manifest().Meta)
	return m, r.Manifest(), err
}

// Uploads returns the checkpoints of a job that are on their way to the store or were lost on the
// way. 0 stands for all jobs.
func (c *Conductor) Uploads(job uint32) ([]*upload.Record, error) { return c.uploads.List(job) }

// IsNeededAsBase tells whether a checkpoint is the base of a checkpoint on its way to the store.
// It returns true if that cannot be determined.
func (c *Conductor) IsNeededAsBase(id store.ID) bool { return c.uploads.IsNeededAsBase(id) }

// Load is what this node does for jobs.
type Load struct {
	Capsules int
	Led      []LedJob // running jobs that this node leads, and has looked at
}

// LedJob is a running job, as the node that leads it has looked at it last.
type LedJob struct {
	ID       uint32
	Run      int
	Obstacle string // a part of the job that cannot be captured; "": there is none
}

// DescribeLoad counts the capsules of this node.
func DescribeLoad(c *Conductor) Load {
	var l Load
	for _, j := range c.jobs.allJobs() {
		l.Capsules += len(j.localCapsules())
		snap := j.run.Snapshot()
		j.mu.Lock()
		looked, found := j.lookedAt, j.lastObstacles
		j.mu.Unlock()
		if !looked || snap.Placement.NodeOf(0) != c.Node {
			continue
		}
		led := LedJob{ID: j.id, Run: snap.Number}
		if len(found) > 0 {
			led.Obstacle = found[0].What
		}
		l.Led = append(l.Led, led)
	}
	return l
}

// sharedServer returns the name of a device server that serves several capsules; "" for another one.
func sharedServer(s *life.Server) string {
	if dir := s.Shared(); dir != "" {
		return filepath.Base(dir)
	}
	return ""
}

// countsWithin limits the time for a device server to tell its counts. A server that saves or restores answers later.
const countsWithin = time.Second

// DeviceCounts asks all device servers of this node for their counts and returns these by the names of the capsules, or of the
// process that several capsules share; nil for a server that does not answer now.
func (c *Conductor) DeviceCounts(ctx context.Context) map[string][]server.SharingStatus {
	ctx, cancel := context.WithTimeout(ctx, countsWithin)
	defer cancel()
	var mu sync.Mutex
	counts, asked := map[string][]server.SharingStatus{}, map[string]bool{}
	var all sync.WaitGroup
	for _, j := range c.jobs.allJobs() {
		for _, lc := range j.localCapsules() {
			if lc.devices == nil {
				continue
			}
			name := capsuleName(j.id, lc.index)
			if shared := sharedServer(lc.devices); shared != "" { // each of the capsules that it serves says the same
				if name = shared; asked[name] {
					continue
				}
				asked[name] = true
			}
			all.Go(func() {
				st, err := lc.devices.Status(ctx)
				mu.Lock()
				defer mu.Unlock()
				counts[name] = nil
				if err == nil {
					counts[name] = st.Sharing
				}
			})
		}
	}
	all.Wait()
	return counts
}
