// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// View is what this node knows of a job, for people.
type View struct {
	Record    Record
	Run       int
	Leader    string // "" if the job runs nowhere that this node knows of
	Capsules  []CapsuleView
	Obstacles []Obstacle
	Events    []Event
}

// CapsuleView is one capsule of a View. Of those on other nodes, Programs is empty.
type CapsuleView struct {
	Index    int
	Node     string
	Programs []capsule.Program
	Resident []uint64 // bytes, of each program
}

// Event is a line of a job's time line.
type Event struct {
	At         time.Time
	What, Text string
}

// View returns what this node knows of a job. The error wraps ErrNoJob if nobody knows
// anything.
func (c *Conductor) View(ctx context.Context, job string) (*View, error) {
	id, err := parseName(job)
	if err != nil {
		return nil, err
	}
	j := c.known(id)
	if j == nil {
		rec, err := c.records.load(id)
		if err == nil && rec == nil {
			err = fmt.Errorf("job %s: %w", job, ErrNoJob)
		}
		if err != nil {
			return nil, err
		}
		return &View{Record: *rec}, nil
	}
	j.mu.Lock()
	if j.rec == nil {
		j.mu.Unlock()
		return nil, fmt.Errorf("job %s: %w", job, ErrNoJob)
	}
	v := &View{Record: *j.rec, Run: j.run, Leader: j.where.node(0)}
	v.Obstacles = slices.Clone(j.blocked)
	for _, e := range j.events {
		v.Events = append(v.Events, Event{e.at, e.what, e.text})
	}
	for k := range j.rec.Nodes {
		v.Capsules = append(v.Capsules, CapsuleView{Index: k, Node: j.where.node(k)})
	}
	j.mu.Unlock()
	for _, h := range j.capsules() {
		programs, err := h.c.Programs(ctx)
		if err != nil {
			continue // it is going
		}
		cv := &v.Capsules[h.index]
		cv.Programs = programs
		for _, p := range programs {
			cv.Resident = append(cv.Resident, residentBytes(p))
		}
	}
	return v, nil
}

// Take makes a checkpoint of a job that runs, and returns its name. progress is told of
// each phase.
func (c *Conductor) Take(ctx context.Context, job, reason string, progress func(phase string, done, total int64)) (store.ID, error) {
	id, err := parseName(job)
	if err != nil {
		return store.ID{}, err
	}
	j := c.known(id)
	if j == nil || len(j.capsules()) == 0 {
		return store.ID{}, fmt.Errorf("job %s has nothing on node %s: %w", job, c.Node, ErrNoJob)
	}
	progress(phasePrepare, 0, int64(len(phases)))
	a, err := c.request(ctx, j, passOn, reason)
	if err != nil {
		return store.ID{}, err
	}
	progress(phaseCommit, int64(len(phases)), int64(len(phases)))
	if a == nil { // another node leads
		all, err := c.Store.List(ctx, &store.JobID{Cluster: c.Cluster, Job: id, ArrayTask: store.None, Component: store.None})
		if err != nil || len(all) == 0 {
			return store.ID{}, err
		}
		return slices.MaxFunc(all, func(a, b store.Summary) int { return int(a.ID.Number) - int(b.ID.Number) }).ID, nil
	}
	return a.id, nil
}

// MetaOf reads what a checkpoint says of itself.
func (c *Conductor) MetaOf(ctx context.Context, id store.ID) (*Meta, *store.Manifest, error) {
	r, err := c.Store.Open(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	m, err := decodeMeta(r.Manifest().Meta)
	return m, r.Manifest(), err
}
