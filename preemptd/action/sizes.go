// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Sizes says which sizes a job can have, before anything is done to the job. All fields but WhySwapped must be set.
// Sizes is safe for concurrent use.
type Sizes struct {
	Slurm interface {
		Nodes(ctx context.Context) ([]slurmrest.Node, error)
	}
	Proxyd interface {
		// Show tells of a running job. Errors are errors of package rpc.
		Show(ctx context.Context, job *slurmrest.Job) (*rpc.Job, error)
		// ShowWaiting tells of a job that does not run; any of the nodes is asked.
		ShowWaiting(ctx context.Context, job *slurmrest.Job, nodes []slurmrest.Node) (*rpc.Job, error)
	}
	Journal interface {
		Origin(ctx context.Context, job int64) (json.RawMessage, error)
	}
	// WhySwapped says why the ranks of a job would be swapped on so many GPUs of all its nodes; "" if they would not, or
	// if that is not known. Without WhySwapped no size is refused for swapping.
	WhySwapped func(job, gpus int64) string
}

// CheckAction says why a job cannot have the size or the nodes that an action is to give it: a *jobrequest.SizeError.
// Any other error says that Slurm, the job's node or the journal could not be asked. idle: GPUs that the job does not
// have yet must be idle now. A job does not come to fewer GPUs on which its ranks would be swapped, but with args.Swap.
func (s *Sizes) CheckAction(ctx context.Context, job *slurmrest.Job, name string, args Args, idle bool) error {
	k, err := findKind(name)
	if err != nil {
		return err
	}
	if err := s.checkTarget(ctx, job, k.target, args, idle); err != nil {
		return err
	}
	return s.checkSwapping(job, k.target, args)
}

// checkSwapping refuses a smaller size at which the job's ranks would be swapped, unless args.Swap allows that.
func (s *Sizes) checkSwapping(job *slurmrest.Job, target func(Args, *jobrequest.Request) error, args Args) error {
	if s.WhySwapped == nil || target == nil || args.Swap {
		return nil
	}
	now := jobrequest.Of(job)
	wanted := now
	if err := target(args, &wanted); err != nil {
		return &jobrequest.SizeError{Text: err.Error()}
	}
	gpus := wanted.Nodes * wanted.GPUsOnNode()
	if gpus >= now.Nodes*now.GPUsOnNode() {
		return nil
	}
	if why := s.WhySwapped(job.ID, gpus); why != "" {
		return &jobrequest.SizeError{Text: why}
	}
	return nil
}

func (s *Sizes) checkTarget(ctx context.Context, job *slurmrest.Job, target func(Args, *jobrequest.Request) error, args Args, idle bool) error {
	if target == nil || args.NodeCount == 0 && args.GPUs == 0 && len(args.Nodes) == 0 {
		return nil
	}
	now := jobrequest.Of(job)
	asked, err := s.askedFor(ctx, job.ID, now)
	if err != nil {
		return err
	}
	wanted := now
	wanted.Required, wanted.Excluded = asked.Required, asked.Excluded
	if err := target(args, &wanted); err != nil {
		return &jobrequest.SizeError{Text: err.Error()}
	}
	nodes, err := s.Slurm.Nodes(ctx)
	if err != nil {
		return err
	}
	began, lent, err := s.beganWith(ctx, job, nodes, now, asked)
	if err != nil {
		return err
	}
	if began != nil {
		if err := began.CheckUse(now, wanted); err != nil {
			return err
		}
	}
	place := jobrequest.AllowedNodes{Partition: job.Partition, Nodes: nodes, Own: lent}
	if err := place.CheckNodes(wanted); err != nil {
		return err
	}
	grows := wanted.Nodes*wanted.GPUsOnNode() > now.Nodes*now.GPUsOnNode() || wanted.Nodes > now.Nodes
	if !idle || !grows || !isRunning(job) {
		return nil
	}
	for _, name := range jobrequest.HostNames(job.Nodes) {
		place.Own[name] += now.GPUsOnNode()
	}
	return place.CheckIdle(wanted)
}

// UsableGPUs is how many GPUs the programs of a running job can use on each of its nodes; 0: its nodes do not know.
func (s *Sizes) UsableGPUs(ctx context.Context, job *slurmrest.Job) (int64, error) {
	now := jobrequest.Of(job)
	began, _, err := s.beganWith(ctx, job, nil, now, now)
	if err != nil || began == nil || began.Estimated {
		return 0, err
	}
	return began.UsableGPUs(now.Nodes), nil
}

// askedFor returns the request of a job's user, before actions changed it.
func (s *Sizes) askedFor(ctx context.Context, job int64, now jobrequest.Request) (jobrequest.Request, error) {
	raw, err := s.Journal.Origin(ctx, job)
	if err != nil || raw == nil {
		return now, err
	}
	record, err := jobrequest.Decode(raw)
	if err != nil {
		return now, err
	}
	return now.TakeBack(record.Asked, record.Ours), nil
}

// beganWith returns how the job's programs began, and by node the GPUs that other jobs lend to the job. The result is
// nil for a job that has not begun.
func (s *Sizes) beganWith(ctx context.Context, job *slurmrest.Job, nodes []slurmrest.Node, now, asked jobrequest.Request) (*jobrequest.InitialSize, map[string]int64, error) {
	lent := map[string]int64{}
	if !isRunning(job) && job.Restarts == 0 {
		return nil, lent, nil
	}
	shown, err := s.showJob(ctx, job, nodes)
	switch {
	case err == nil && shown.GetLends() != nil:
		return nil, nil, &jobrequest.SizeError{Text: fmt.Sprintf("it is a lease, which lends its GPUs to job %[1]d and runs nothing that could use more or fewer: "+
			"resize job %[1]d, or end the lease by scancel %[2]s", shown.GetLends().GetJob(), job.Label())}
	case err == nil:
		if began := beganAs(shown, now.GPUsOnNode(), lent); began != nil {
			return began, lent, nil
		}
	case isRunning(job) && !errors.Is(err, rpc.ErrNotProtected) && !errors.Is(err, rpc.ErrNoJob) && !errors.Is(err, rpc.ErrNotRunning):
		return nil, nil, fmt.Errorf("how many GPUs its programs see: %w", err)
	}
	each := max(asked.GPUsOnNode(), now.GPUsOnNode())
	return &jobrequest.InitialSize{GPUs: slices.Repeat([]int64{each}, int(max(asked.Nodes, now.Nodes, 1))), Estimated: true}, lent, nil
}

// showJob asks the node that leads a running job, and any node about a job that waits.
func (s *Sizes) showJob(ctx context.Context, job *slurmrest.Job, nodes []slurmrest.Node) (*rpc.Job, error) {
	if isRunning(job) {
		return s.Proxyd.Show(ctx, job)
	}
	return s.Proxyd.ShowWaiting(ctx, job, nodes)
}

// beganAs is the job's size as a node shows it; nil if the node does not know how many GPUs the job's programs see.
// lent is filled in.
func beganAs(shown *rpc.Job, gpusNow int64, lent map[string]int64) *jobrequest.InitialSize {
	if len(shown.GetCapsules()) == 0 {
		return nil
	}
	b := &jobrequest.InitialSize{Range: shown.GetOptions()["gpus"]}
	for _, c := range shown.GetCapsules() {
		sees := int64(c.GetGpus())
		if sees == 0 && gpusNow > 0 {
			return nil
		}
		b.GPUs = append(b.GPUs, sees)
		for _, o := range c.GetLeases() {
			lent[c.GetNode()] += int64(o.GetGpus())
		}
	}
	return b
}

// checkSize is done when no known fact keeps the job from the size that the action is to give it. idle: the GPUs that
// the job does not have yet must be idle.
func (w *actionRun) checkSize(ctx context.Context, idle bool) finding {
	if w.r.Sizes == nil {
		return finding{outcome: done}
	}
	err := w.r.Sizes.checkTarget(ctx, &w.job, w.kind.target, w.args, idle)
	var size *jobrequest.SizeError
	switch {
	case errors.As(err, &size):
		return finding{impossible, err.Error()}
	case err != nil:
		return finding{wait, err.Error()}
	}
	return finding{outcome: done}
}
