// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/kind"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// asked are the actions that people ask for; all other actions are for policies.
var asked = []string{"preempt", "resume", "migrate", "resize", "hold", "release", "requeue"}

// Act writes the requested action into the journal, and wakes the loop.
func (s *Server) Act(ctx context.Context, req *rpc.ActRequest) (*rpc.Action, error) {
	a, err := s.beginAction(ctx, req)
	if err != nil {
		return nil, rpc.Status(err)
	}
	s.opt.Wake()
	return actionMessage(&a), nil
}

func (s *Server) beginAction(ctx context.Context, req *rpc.ActRequest) (journal.Action, error) {
	who, err := s.identifyCaller(ctx)
	if err != nil {
		return journal.Action{}, err
	}
	if !slices.Contains(asked, req.GetKind()) {
		return journal.Action{}, rpc.Errorf(rpc.ErrInvalid, "%.40q: want one of %s", req.GetKind(), strings.Join(asked, ", "))
	}
	why, err := checkReason(req.GetReason())
	if err != nil {
		return journal.Action{}, err
	}
	// The owner of the job is checked first: other users are not to learn more about the job from the answer.
	job, err := s.jobFor(ctx, who, req.GetKind(), req.GetJob())
	if err != nil {
		return journal.Action{}, err
	}
	args := action.Args{NodeCount: req.GetNodeCount(), GPUs: req.GetGpus(), QOS: req.GetQos(), Hold: req.GetHold(), Swap: req.GetSwap()}
	if args.Nodes, err = s.knownNodes(ctx, req.GetNodes()); err != nil {
		return journal.Action{}, err
	}
	if args.Avoid, err = s.knownNodes(ctx, req.GetAvoid()); err != nil {
		return journal.Action{}, err
	}
	raw, err := action.Encode(req.GetKind(), args)
	if err != nil {
		return journal.Action{}, rpc.Errorf(rpc.ErrInvalid, "%s", err)
	}
	if err := checkPlace(&job, req.GetKind(), args); err != nil {
		return journal.Action{}, err
	}
	if err := s.checkLimits(ctx, who, req.GetKind(), &job, args); err != nil {
		return journal.Action{}, err
	}
	if err := s.checkSize(ctx, &job, req.GetKind(), args); err != nil {
		return journal.Action{}, err
	}
	a, err := s.opt.Journal.Begin(ctx, journal.Request{Kind: req.GetKind(), Job: job.ID, User: job.User, Args: raw, Who: who.name, Why: why})
	if errors.Is(err, journal.ErrBusy) {
		return a, &rpc.Error{Kind: rpc.ErrBusy, Text: err.Error(), Hint: "singctl history " + job.Label() + " shows it"}
	}
	if err == nil {
		s.opt.Log.Info("asked for", "action", a.ID, "kind", a.Kind, "job", a.Job, "uid", who.uid, "who", who.name, "why", why)
	}
	return a, err
}

// checkPlace returns ErrNothingToDo for a move of a job that runs where it is to be already: the move would cost a restore
// without any gain.
func checkPlace(job *slurmrest.Job, what string, args action.Args) error {
	if what != "migrate" || job.State.Base != slurmrest.Running || job.State.Flags != 0 || args.GPUs != 0 {
		return nil
	}
	nodes := jobrequest.HostNames(job.Nodes)
	isOn := func(node string) bool { return slices.Contains(nodes, node) }
	isElsewhere := func(node string) bool { return !isOn(node) }
	if slices.ContainsFunc(args.Nodes, isElsewhere) || slices.ContainsFunc(args.Avoid, isOn) {
		return nil
	}
	return rpc.Errorf(rpc.ErrNothingToDo, "migrate: job %s runs on %s already: there is nothing to do", job.Label(), job.Nodes)
}

// jobFor returns the named job, if the caller may act on it.
func (s *Server) jobFor(ctx context.Context, who caller, what, name string) (slurmrest.Job, error) {
	ref, err := slurmrest.ParseRef(name)
	if err != nil {
		return slurmrest.Job{}, rpc.Errorf(rpc.ErrInvalid, "%s", err)
	}
	job, err := s.opt.Slurm.Job(ctx, ref)
	switch {
	case errors.Is(err, slurmrest.ErrInvalidJobID):
		return job, rpc.Errorf(rpc.ErrNoJob, "job %s: Slurm knows none of that name", name)
	case err != nil:
		return job, slurmError(ctx, err)
	case !who.operator && job.UserID != int64(who.uid):
		return job, s.denyRequest(who, what, "job "+name+" belongs to another user")
	case job.Array.JobID != 0 && (!job.Array.Task.Set || ref == slurmrest.JobID(job.Array.JobID)):
		return job, rpc.Errorf(rpc.ErrInvalid, "job %s is an array; name one task that has started, as in %d_1", name, job.Array.JobID)
	}
	return job, nil
}

// maxNodes bounds how many nodes a request makes slurmrestd look up.
const maxNodes = 1000

// knownNodes are the names in host lists. All must be nodes of the cluster.
func (s *Server) knownNodes(ctx context.Context, lists []string) ([]string, error) {
	var all []string
	for _, list := range lists {
		names, err := slurmrest.Hosts(list)
		if err != nil {
			return nil, rpc.Errorf(rpc.ErrInvalid, "%s", err)
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > maxNodes {
		return nil, rpc.Errorf(rpc.ErrInvalid, "%d nodes named, at most %d at once", len(all), maxNodes)
	}
	for _, name := range all {
		_, err := s.opt.Slurm.Node(ctx, name)
		switch {
		case errors.Is(err, slurmrest.ErrInvalidNodeName):
			return nil, &rpc.Error{Kind: rpc.ErrInvalid, Text: fmt.Sprintf("node %.80q: Slurm knows none of that name", name), Hint: "sinfo --Node lists the nodes"}
		case err != nil:
			return nil, slurmError(ctx, err)
		}
	}
	return all, nil
}

// slurmError returns the error for a request that Slurm did not answer.
func slurmError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &rpc.Error{Kind: rpc.ErrSlurm, Text: "preemptd asks Slurm: " + err.Error(), Hint: "nothing was done; try again when Slurm answers"}
}

// checkReason returns the reason of a request, by default journal.NoReason.
func checkReason(s string) (string, error) {
	if err := kind.CheckReason(s); err != nil {
		return "", rpc.Errorf(rpc.ErrInvalid, "%v", err)
	}
	return cmp.Or(s, journal.NoReason), nil
}
