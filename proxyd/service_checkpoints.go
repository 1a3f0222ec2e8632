// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// The part of the service that works on checkpoints in the store.

// Checkpoints implements api.Conductor, as all below.
func (d service) Checkpoints(ctx context.Context, job string) ([]*rpc.Checkpoint, error) {
	var of *store.JobID
	if job != "" {
		number, _, err := d.resolveJobNumber(ctx, job)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, err
		}
		id := store.PlainJob(d.n.cluster.Cluster, uint32(n))
		of = &id
	}
	all, err := d.n.store.List(ctx, of)
	if err != nil {
		return nil, err
	}
	var out []*rpc.Checkpoint
	for _, s := range all {
		c, err := d.describeCheckpoint(ctx, s)
		if err != nil {
			c = &rpc.Checkpoint{Id: s.ID.String(), Job: strconv.FormatUint(uint64(s.ID.Job), 10), Number: s.ID.Number, Problem: err.Error()}
		}
		out = append(out, c)
	}
	d.assignOwners(ctx, out)
	return d.addUploads(out, of), nil
}

// Attempts implements api.Conductor.
func (d service) Attempts(ctx context.Context, job string) ([]*rpc.Attempt, error) {
	id, _, err := d.resolveJobNumber(ctx, job)
	if err != nil {
		return nil, err
	}
	a := d.n.conductor.Attempt(id)
	if a == nil {
		return nil, nil
	}
	out := &rpc.Attempt{Job: job, Uid: a.UID, Began: timestamppb.New(a.Began), Reason: a.Reason, Phase: a.Phase}
	if a.Phase != "" {
		out.PhaseBegan = timestamppb.New(a.PhaseBegan)
	}
	return []*rpc.Attempt{out}, nil
}

// addUploads adds the checkpoints that are on their way to the store, and lost checkpoints without
// a newer checkpoint of the job.
func (d service) addUploads(out []*rpc.Checkpoint, of *store.JobID) []*rpc.Checkpoint {
	var job uint32
	if of != nil {
		job = of.Job
	}
	all, err := d.n.conductor.Uploads(job)
	if err != nil {
		d.n.log.Warn("records of uploads", "error", err)
	}
	for _, up := range all {
		name := strconv.FormatUint(uint64(up.Job), 10)
		if slices.ContainsFunc(out, func(c *rpc.Checkpoint) bool { return c.Job == name && c.Number >= up.Number }) {
			continue
		}
		c := &rpc.Checkpoint{
			Id: fmt.Sprintf("%s/%d/%d", d.n.cluster.Cluster, up.Job, up.Number), Job: name, Number: up.Number, State: "uploading",
			Uid: up.UID, User: userName(up.UID), Created: timestamppb.New(up.Made), Reason: up.Reason, Nodes: up.Nodes,
		}
		if up.Lost != "" {
			c.Problem = "lost: " + up.Lost
		}
		out = append(out, c)
	}
	return out
}

// assignOwners finds the owners of checkpoints that are damaged: from the job's record, from a
// checkpoint of the same job that is whole, or from Slurm.
func (d service) assignOwners(ctx context.Context, list []*rpc.Checkpoint) {
	owners := map[string]*uint32{}
	for _, c := range list {
		if c.Problem == "" {
			owners[path.Dir(c.Id)] = &c.Uid
		}
	}
	for _, c := range list {
		if c.Problem == "" {
			continue
		}
		owner, ok := owners[path.Dir(c.Id)]
		if uid, known := d.n.conductor.Owner(c.Job); known {
			owner = &uid
		} else if !ok {
			if s, err := d.n.peers.slurm.Show(ctx, c.Job); err == nil {
				owner = &s.UID
			}
		}
		owners[path.Dir(c.Id)] = owner
		if owner != nil {
			c.Uid, c.User = *owner, userName(*owner)
		}
	}
}

// describeCheckpoint reads the description of a checkpoint from its manifest.
func (d service) describeCheckpoint(ctx context.Context, s store.Summary) (*rpc.Checkpoint, error) {
	if s.Err != nil {
		return nil, s.Err
	}
	meta, m, err := d.n.conductor.MetaOf(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	c := &rpc.Checkpoint{
		Id: s.ID.String(), Job: cmp.Or(meta.Record.Slurm, strconv.FormatUint(uint64(s.ID.Job), 10)), Number: s.ID.Number,
		Uid: meta.Record.UID, User: userName(meta.Record.UID), Created: timestamppb.New(m.Created),
		Logical: m.Stats.Logical, Stored: m.Stats.Stored, Reason: meta.Reason, Nodes: m.Nodes(),
	}
	c.GpuMemory, c.GpuNeeds = meta.GPUNeeds()
	for _, p := range meta.Phases {
		c.Phases = append(c.Phases, &rpc.PhaseTime{Phase: p.Name, Took: durationpb.New(p.Took)})
	}
	return c, nil
}

func (d service) Verify(ctx context.Context, ids []string, progress func(*rpc.Progress)) (*rpc.VerifyReport, error) {
	list := []store.ID{} // not nil: an empty list verifies no checkpoint, nil all
	for _, s := range ids {
		id, err := store.ParseID(s)
		if err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	r, err := d.n.store.Verify(ctx, list, func(done, total int64) {
		progress(&rpc.Progress{Phase: "verify", Done: done, Total: total, Unit: "bytes"})
	})
	if err != nil {
		return nil, withStoreKind(err)
	}
	out := &rpc.VerifyReport{Checkpoints: int64(r.Checkpoints), Chunks: r.Chunks, Bytes: r.Bytes}
	for _, p := range r.Problems {
		out.Problems = append(out.Problems, p.Error())
	}
	return out, nil
}

// withStoreKind gives an error of the store its kind.
func withStoreKind(err error) error {
	var kind error
	switch {
	case errors.Is(err, store.ErrDamaged), errors.Is(err, store.ErrRefused):
		kind = rpc.ErrDamaged
	case errors.Is(err, store.ErrBusy):
		kind = rpc.ErrBusy
	case errors.Is(err, fs.ErrNotExist):
		kind = rpc.ErrNoCheckpoint
	default:
		return err
	}
	return &rpc.Error{Kind: kind, Text: err.Error()}
}

// Delete removes the checkpoints that are there; a checkpoint that is gone already is no error.
func (d service) Delete(ctx context.Context, ids []string) error {
	for _, s := range ids {
		id, err := store.ParseID(s)
		if err != nil {
			return err
		}
		if d.n.conductor.IsNeededAsBase(id) {
			return &rpc.Error{Kind: rpc.ErrBusy, Text: fmt.Sprintf("checkpoint %s: the next one is made upon it and is not in the store yet: try again when it is", s)}
		}
		if err := d.n.store.Delete(ctx, id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return withStoreKind(err)
		}
	}
	return nil
}

// chooseRetention returns the rule by which a collection deletes checkpoints: the configuration's, or the age or the
// number of the request. With an age, older checkpoints are deleted; with a number, all but so many. The number
// protects at any age.
func chooseRetention(cfg *config.Config, req *rpc.GCRequest) store.Retention {
	keep := store.Retention{Count: cfg.Keep, Age: cfg.KeepFor}
	if req.Keep != nil {
		keep.Count, keep.Protect = int(req.GetKeep()), int(req.GetKeep())
	}
	if req.OlderThan != nil {
		keep.Age, keep.Count = req.OlderThan.AsDuration(), 0
	}
	return keep
}

func (d service) GC(ctx context.Context, req *rpc.GCRequest, progress func(*rpc.Progress)) (*rpc.GCReport, error) {
	keep := chooseRetention(d.n.cfg, req)
	keep.Ended, keep.Needs = d.n.conductor.Over, d.n.conductor.IsNeededAsBase
	r, err := d.n.store.GC(ctx, store.Policy{Retention: keep, Grace: time.Minute}, func(done, total int64) {
		progress(&rpc.Progress{Phase: "collect", Done: done, Total: total})
	}, req.DryRun)
	if err != nil {
		return nil, withStoreKind(err)
	}
	return gcReport(r, req.DryRun), nil
}

func (d service) Export(ctx context.Context, id string, put func(name string, size int64, content io.Reader) error) error {
	ckpt, err := store.ParseID(id)
	if err != nil {
		return err
	}
	r, err := d.n.store.Open(ctx, ckpt)
	if err != nil {
		return withStoreKind(err)
	}
	defer r.Close()
	streams := slices.Clone(r.Manifest().Streams)
	for _, info := range streams {
		s, err := r.Stream(info.StreamID)
		if err != nil {
			return err
		}
		err = put(info.Node+"/"+info.Name, info.Size, s)
		s.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func gcReport(r store.GCReport, dry bool) *rpc.GCReport {
	out := &rpc.GCReport{Chunks: r.Chunks, Bytes: r.Bytes, Waiting: r.Waiting, Open: int64(r.Open), DryRun: dry}
	if s := r.Spared; s.Chunks > 0 {
		out.Spared, out.SparedBytes, out.SparedUntil = s.Chunks, s.Bytes, timestamppb.New(s.Until)
	}
	for _, id := range r.Expired {
		out.Expired = append(out.Expired, id.String())
	}
	for _, c := range r.Damaged {
		out.Damaged = append(out.Damaged, &rpc.Damage{Checkpoint: c.ID.String(), Problem: c.Err.Error()})
	}
	return out
}
