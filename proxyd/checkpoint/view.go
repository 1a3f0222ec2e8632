// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/messages"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// View describes a job for people.
type View struct {
	Record    records.Record
	Run       int
	Leader    string               // "": this node knows of no run
	Capsules  []*rpc.Capsule       // by index; home, address and gpus are not set
	Obstacles []processes.Obstacle // parts that cannot be captured now, or could not at the last attempt
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

// Past returns the kept file about a job that is over, or nil.
func (c *Conductor) Past(job string) (*records.PastJob, error) {
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

// View describes a job. The error wraps ErrNoJob if this node does not know the job and the job has no record; for a
// lease the error is a *LeaseError.
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
	j.mu.Lock()
	v.Obstacles = append(v.Obstacles, j.foundByCRIU...)
	j.mu.Unlock()
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

// obstaclesOf returns the obstacles in views of capsules.
func (j *job) obstaclesOf(views []calls.CapsuleView) []processes.Obstacle {
	j.mu.Lock()
	before := j.lastObstacles
	j.mu.Unlock()
	now := time.Now()
	var found []processes.Obstacle
	for _, v := range views {
		for _, o := range v.Obstacles {
			found = append(found, o.WithSince(v.Capsule.GetNode(), now, before))
		}
	}
	return found
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
			there, err := callNode(ctx, j.c, node, j.id, 0, calls.View, calls.Empty{})
			if err != nil {
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

// nodeCapsules asks nodes for their capsules of jobs.
type nodeCapsules struct{ c *Conductor }

// AreOn implements ends.Capsules.
func (n nodeCapsules) AreOn(ctx context.Context, node string, job uint32) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, viewWithin)
	defer cancel()
	there, err := callNode(ctx, n.c, node, job, 0, calls.View, calls.Empty{})
	return len(there) > 0, err
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
