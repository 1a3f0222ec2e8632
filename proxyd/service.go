// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/proxyd/api"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/messages"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// service answers requests of people and other daemons: the types of rpc are translated into the
// types of the conductor and of the store.
type service struct{ n *node }

var _ api.Conductor = service{}

// resolveJobNumber finds the number by which Slurm and we know a job: a person may name it as a task of an
// array.
func (d service) resolveJobNumber(ctx context.Context, job string) (string, *slurm.Job, error) {
	s, err := d.n.peers.slurm.Show(ctx, job)
	if errors.Is(err, slurm.ErrNoJob) {
		if _, bad := strconv.ParseUint(job, 10, 32); bad != nil {
			return "", nil, rpc.Errorf(rpc.ErrNoJob, "job %s: Slurm does not know it (any more)", job)
		}
		return job, nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	return slurm.JobName(s.ID), s, nil
}

// Owner implements api.Conductor, as all below.
func (d service) Owner(ctx context.Context, job string) (uint32, error) {
	id, s, err := d.resolveJobNumber(ctx, job)
	if errors.Is(err, slurm.ErrSilent) { // the job's record names the owner
		if uid, known := d.n.conductor.Owner(job); known {
			return uid, nil
		}
	}
	if err != nil {
		return 0, err
	}
	if s != nil {
		return s.UID, nil
	}
	all, err := d.Checkpoints(ctx, id)
	if err != nil {
		return 0, err
	}
	if uid, known := checkpointOwner(all); known {
		return uid, nil
	}
	past, err := d.n.conductor.Past(id)
	if err != nil {
		return 0, err
	}
	if past == nil {
		return 0, rpc.Errorf(rpc.ErrNoJob, "job %s: neither Slurm nor the store knows it", job)
	}
	return past.UID, nil
}

// checkpointOwner returns the user that these checkpoints belong to; the manifest of a damaged checkpoint
// names no user.
func checkpointOwner(all []*rpc.Checkpoint) (uid uint32, known bool) {
	for _, c := range all {
		if c.User != "" {
			return c.Uid, true
		}
	}
	return 0, false
}

// addPast adds the time line of a job that is over to out, if the time line is kept, and reports
// that. Slurm may have begun its numbers anew: the time line of another user's job is left out.
func (d service) addPast(out *rpc.Job, id string, s *slurm.Job) bool {
	if s != nil && !s.Over() {
		return false
	}
	past, err := d.n.conductor.Past(id)
	if err != nil { // the checkpoints can be shown all the same
		d.n.log.Warn("cannot read the time line of a job that is over", "job", id, "error", err)
	}
	if past == nil {
		return false
	}
	owner, known := checkpointOwner(out.Checkpoints)
	if s != nil {
		owner, known = s.UID, true
	}
	if known && owner != past.UID {
		return false
	}
	out.Uid, out.User = past.UID, userName(past.UID)
	addTimeline(out, past.Events)
	return true
}

func addTimeline(out *rpc.Job, events []records.Event) {
	for _, e := range events {
		event := &rpc.Event{
			Time: timestamppb.New(e.At), Event: e.What, Where: e.Where, Text: e.Text, Run: uint32(e.Run), Checkpoint: e.Checkpoint, AfterEnd: e.AfterEnd,
		}
		if e.Took > 0 {
			event.Took = durationpb.New(e.Took)
		}
		out.Timeline = append(out.Timeline, event)
	}
}

func (d service) Show(ctx context.Context, job string) (*rpc.Job, error) {
	id, s, err := d.resolveJobNumber(ctx, job)
	if err != nil {
		return nil, err
	}
	out := &rpc.Job{Id: id}
	if s != nil {
		out.Id, out.Uid, out.User, out.State, out.Restarts = displayName(s), s.UID, userName(s.UID), s.State, uint32(s.Restarts)
		out.Name, out.Comment = d.nameAndComment(ctx, s.String())
	}
	if out.Checkpoints, err = d.Checkpoints(ctx, id); err != nil {
		return nil, err
	}
	v, err := d.n.conductor.View(ctx, id)
	if errors.Is(err, checkpoint.ErrNoJob) {
		past := d.addPast(out, id, s)
		switch {
		case addLending(out, err, d.n.cfg.NodeName, s):
			return out, nil
		case past || len(out.Checkpoints) > 0 || s != nil && s.Over():
			if s == nil && !past {
				out.Uid, out.User = out.Checkpoints[0].Uid, out.Checkpoints[0].User
			}
			return out, nil
		case s == nil:
			return nil, rpc.Errorf(rpc.ErrNoJob, "job %s: neither Slurm nor the store knows it (any more)", job)
		case s.Waits():
			return nil, notRunning(job, s)
		}
		return nil, notProtected(job, s)
	}
	if err != nil {
		return nil, err
	}
	fillJob(out, v)
	return out, nil
}

// nameAndComment returns the job's name and comment, which the job's user and proxyd have
// written.
func (d service) nameAndComment(ctx context.Context, job string) (name, comment string) {
	name, err := d.n.peers.slurm.Name(ctx, job)
	if err != nil {
		d.n.log.Debug("cannot read the job's name", "job", job, "error", err)
	}
	comment, err = d.n.peers.slurm.Said(ctx, job)
	if err != nil {
		d.n.log.Debug("cannot read the job's comment", "job", job, "error", err)
	}
	return name, comment
}

// displayName is a job's name in people's notation.
func displayName(s *slurm.Job) string {
	if s.HetJob != 0 {
		return fmt.Sprintf("%d+%d", s.HetJob, s.HetOffset)
	}
	return s.String()
}

// notRunning is the error for a job that cannot be captured because it does not run.
func notRunning(job string, s *slurm.Job) error {
	e := &rpc.Error{Kind: rpc.ErrNotRunning, Text: fmt.Sprintf("job %s is not running: %s", job, s.State)}
	switch {
	case s.Over():
		e.Text = fmt.Sprintf("job %s has ended: %s", job, s.State)
		e.Hint = fmt.Sprintf("singctl checkpoints %s lists what is left of it", job)
	case s.Waits() && s.Restarts == 0:
		e.Text = fmt.Sprintf("job %s has not begun yet: %s", job, s.State)
	case !s.Waits():
		e.Hint = "it is about to end"
	}
	return e
}

// notProtected returns the reason why a running job is not protected; s is nil if Slurm was not asked. For a job that
// cannot be protected, the reason is the same with and without --singularity.
func notProtected(job string, s *slurm.Job) error {
	why, hint := "", ""
	switch {
	case s == nil:
	case !s.Batch:
		why, hint = "Slurm requeues batch jobs only", "singctl session start begins a shell that is protected"
	case !s.Requeue:
		why, hint = "it was submitted with --no-requeue", "submit it without: a job that Slurm may not requeue cannot resume"
	case s.HetJob != 0:
		why, hint = "heterogeneous jobs are not protected", "ask for nodes of a single kind"
	}
	if why == "" {
		return rpc.Errorf(rpc.ErrNotProtected, "job %s runs without --singularity", job)
	}
	return &rpc.Error{Kind: rpc.ErrNotProtected, Text: fmt.Sprintf("job %s runs unprotected: %s", job, why), Hint: hint}
}

func fillJob(out *rpc.Job, v *checkpoint.View) {
	out.Id, out.Uid, out.User = cmp.Or(v.Record.Slurm, out.Id), v.Record.UID, userName(v.Record.UID)
	out.Leader = v.Leader
	o := v.Record.Options
	out.Options = map[string]string{}
	for k, val := range map[string]string{"gpus": o.GPUs, "on-failure": o.OnFailure, "outside": o.Outside, "exclude": strings.Join(o.Exclude, ",")} {
		if val != "" {
			out.Options[k] = val
		}
	}
	if len(o.Listen) > 0 {
		out.Options["listen"] = strings.Trim(strings.ReplaceAll(fmt.Sprint(o.Listen), " ", ","), "[]")
	}
	if o.Exact {
		out.Options["exact"] = "yes"
	}
	if o.Interval != 0 {
		out.Options["interval"] = o.Interval.String()
	}
	for k, home := range v.Record.Nodes {
		c := &rpc.Capsule{Index: uint32(k), Home: home, Address: v.Record.Addresses[k].String()}
		if k < len(v.Record.GPUs) {
			c.Gpus = uint32(v.Record.GPUs[k]) //nolint:gosec // GPUs of a node
		}
		if k < len(v.Capsules) {
			cv := v.Capsules[k]
			c.Node, c.Devices, c.Leases, c.Programs = cv.GetNode(), cv.GetDevices(), cv.GetLeases(), cv.GetPrograms()
			c.Reachable = cv.GetReachable()
		}
		out.Capsules = append(out.Capsules, c)
	}
	out.Obstacles, out.Outside = messages.EncodeObstacles(v.Obstacles), messages.EncodeObstacles(v.Outside)
	addTimeline(out, v.Events)
}

func userName(uid uint32) string {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return strconv.FormatUint(uint64(uid), 10)
	}
	return u.Username
}

func (d service) Checkpoint(ctx context.Context, req *rpc.CheckpointRequest, progress func(*rpc.Progress)) (*rpc.Checkpoint, error) {
	job := req.GetJob()
	id, s, err := d.resolveJobNumber(ctx, job)
	leader := d.n.cfg.NodeName
	switch {
	case errors.Is(err, slurm.ErrSilent): // a checkpoint needs no slurmctld
		id = job
	case err != nil:
		return nil, err
	case s == nil:
		return nil, rpc.Errorf(rpc.ErrNoJob, "job %s: Slurm does not know it (any more)", job)
	case !s.Runs():
		return nil, notRunning(job, s)
	default:
		leader = s.BatchHost
	}
	made, err := d.n.conductor.TakeCheckpoint(ctx, id, cmp.Or(req.GetReason(), "asked"), req.GetHoldAfterwards(), func(phase string, done, total int64) {
		if phase == checkpoint.Waiting {
			phase = rpc.Waiting
		}
		progress(&rpc.Progress{Phase: phase, Done: done, Total: total})
	})
	if errors.Is(err, checkpoint.ErrNoJob) {
		// The job may have ended since.
		if _, now, e := d.resolveJobNumber(ctx, job); e == nil && now != nil && !now.Runs() {
			return nil, notRunning(job, now)
		}
	}
	if err != nil {
		return nil, withKind(job, s, leader, d.n.cfg.NodeName, err)
	}
	for _, c := range d.addUploads(nil, &made.JobID) {
		if c.Number == made.Number {
			return c, nil
		}
	}
	return d.describeCheckpoint(ctx, store.Summary{ID: made})
}

// RunOn has a job run on that stands still after a checkpoint.
func (d service) RunOn(ctx context.Context, job string) error {
	id, _, err := d.resolveJobNumber(ctx, job)
	if errors.Is(err, slurm.ErrSilent) {
		id, err = job, nil
	}
	if err == nil {
		err = d.n.conductor.RunOn(id)
	}
	if errors.Is(err, checkpoint.ErrNoJob) {
		return rpc.Errorf(rpc.ErrNoJob, "job %s: it does not run here", job)
	}
	return err
}

// withKind gives a conductor's error its kind. s is nil if Slurm was not asked.
func withKind(job string, s *slurm.Job, leader, here string, err error) error {
	var o *checkpoint.ObstacleError
	var lease *checkpoint.LeaseError
	var space *store.SpaceError
	switch {
	case errors.As(err, &o):
		return &rpc.Error{Kind: rpc.ErrObstacle, Text: err.Error(), Obstacles: messages.EncodeObstacles(o.Obstacles)}
	case errors.As(err, &space):
		return fmt.Errorf("%w: %w", rpc.ErrSpace, err)
	case errors.As(err, &lease):
		return &rpc.Error{Kind: rpc.ErrNotProtected, Text: err.Error(), Hint: fmt.Sprintf("singctl show %d", lease.Borrower)}
	case errors.Is(err, checkpoint.ErrNoJob) && leader != here:
		return &rpc.Error{Kind: rpc.ErrNotLeader, Text: err.Error(), Node: leader}
	case errors.Is(err, checkpoint.ErrAway):
		return &rpc.Error{Kind: rpc.ErrBusy, Text: err.Error(), Hint: "on the node that is named: systemctl status proxyd; then try again"}
	case checkpoint.MayRetryCheckpoint(err):
		return &rpc.Error{Kind: rpc.ErrBusy, Text: err.Error()}
	case errors.Is(err, checkpoint.ErrNoJob):
		return notProtected(job, s)
	}
	return err
}

func (d service) Call(ctx context.Context, _ string, req *rpc.CallRequest) (*rpc.CallReply, error) {
	return d.n.conductor.Call(ctx, req)
}
