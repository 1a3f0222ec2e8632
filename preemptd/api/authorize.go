// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// caller is the user that sends a request.
type caller struct {
	uid      uint32
	name     string // in the form of the journal
	operator bool
}

var errNobody = errors.New("request came without a caller") // a server without a gate

func (s *Server) identifyCaller(ctx context.Context) (caller, error) {
	c, ok := munge.CallerOf(ctx)
	if !ok {
		return caller{}, errNobody
	}
	p, err := s.people.lookUpPerson(ctx, c.UID)
	return caller{uid: c.UID, name: p.name, operator: p.operator}, err
}

// canSeeAction reports whether the caller may know of an action.
func (s *Server) canSeeAction(who caller, a *journal.Action) bool {
	return who.operator || a.Who == who.name || s.ownsJob(who, a.Job, a.User)
}

// ownsJob tells whether a job is the caller's. user is the job's owner by the journal; "": an older release has not
// recorded that, and the owner is known as long as Slurm knows the job.
func (s *Server) ownsJob(who caller, job int64, user string) bool {
	if users := s.opt.State().Users; user == "" && users != nil {
		user = users(job)
	}
	return user == who.name
}

// visibleAction returns an action that the caller may know of.
func (s *Server) visibleAction(ctx context.Context, what string, id int64) (journal.Action, error) {
	who, err := s.identifyCaller(ctx)
	if err != nil {
		return journal.Action{}, err
	}
	a, err := s.opt.Journal.Action(ctx, id)
	switch {
	case errors.Is(err, journal.ErrNoAction):
		return a, rpc.Errorf(rpc.ErrNoAction, "action %d: there is none of that number", id)
	case err == nil && !s.canSeeAction(who, &a):
		err = s.denyRequest(who, what, fmt.Sprintf("action %d is on a job of another user", id))
	}
	return a, err
}

// historyFor returns the id of a job that Slurm may have forgotten, and whether the caller may know of all actions on
// it. unknown is not nil if Slurm does not know the job: there may have been no such job.
func (s *Server) historyFor(ctx context.Context, who caller, name string) (id int64, all bool, unknown, err error) {
	job, err := s.jobFor(ctx, who, "history", name)
	if errors.Is(err, rpc.ErrNoJob) {
		ref, _ := slurmrest.ParseRef(name) // jobFor has parsed the name without an error
		if ref == slurmrest.JobID(ref.ID) {
			return ref.ID, who.operator, rpc.Errorf(rpc.ErrNoJob, "job %s: Slurm does not know it, and no action of it is known", name), nil
		}
	}
	return job.ID, true, nil, err
}

// checkLimits refuses requests that Slurm would refuse the owner, though not preemptd.
func (s *Server) checkLimits(ctx context.Context, who caller, what string, job *slurmrest.Job, args action.Args) error {
	if who.operator {
		return nil
	}
	if what == "resume" || what == "release" {
		if err := s.mayRelease(ctx, who, what, job); err != nil {
			return err
		}
	}
	if args.QOS != "" {
		if err := s.checkQOSAllowed(ctx, who, what, job, args.QOS); err != nil {
			return err
		}
	}
	nodes, gpus, err := s.askedSize(ctx, job)
	if err != nil {
		return err
	}
	isNodes, isGPUs := job.NodeCount.Or(1), gpusRequested(job)
	wantNodes, wantGPUs := isNodes, isGPUs
	if n := max(args.NodeCount, int64(len(args.Nodes))); n != 0 {
		wantNodes = n
		wantGPUs = isGPUs * n / max(isNodes, 1)
	}
	if args.GPUs != 0 {
		wantGPUs = args.GPUs * wantNodes
	}
	holds := isGPUs + s.leasedGPUs(job)
	if wantNodes > max(nodes, isNodes) || wantGPUs > max(gpus, holds) {
		err := s.denyRequest(who, what, fmt.Sprintf("job %s asked for %s and %s; only operators give it more",
			job.Label(), jobrequest.CountOf(max(nodes, isNodes), "node"), jobrequest.CountOf(max(gpus, isGPUs), "GPU")))
		return &rpc.Error{Kind: rpc.ErrDenied, Text: err.Error(), Hint: s.lendingHint(ctx, job, wantNodes, wantGPUs, holds)}
	}
	return nil
}

// leasedGPUs is how many GPUs other jobs lent to a running job at the loop's last look. The job may keep them: a size
// between these and its own is no growth.
func (s *Server) leasedGPUs(job *slurmrest.Job) int64 {
	standing := s.opt.State().Standing
	if standing == nil || job.State.Base != slurmrest.Running {
		return 0
	}
	return int64(standing(job.ID).GetLeased())
}

// lendingHint tells the owner of a running job, which holds so many GPUs in all, how the job can use more on its nodes:
// that needs no operator. The hint says that the job can use no more, if that is so. It is "" if the job is to have more
// nodes, or does not run.
func (s *Server) lendingHint(ctx context.Context, job *slurmrest.Job, wantNodes, wantGPUs, holds int64) string {
	nodes := jobrequest.HostNames(job.Nodes)
	isNodes := int64(len(nodes))
	if job.State.Base != slurmrest.Running || isNodes == 0 || wantNodes != isNodes {
		return ""
	}
	has, wants, onEach := holds/isNodes, wantGPUs/isNodes, ""
	if isNodes > 1 {
		onEach = " on each node"
	}
	usable, why := s.usableGPUs(ctx, job)
	if why != "" {
		return why
	}
	if usable > 0 {
		if has >= usable {
			return fmt.Sprintf("its MAX is reached, so that no lease gives it more: its programs see %s%s, and it has as many; "+
				"a job that is to grow further is submitted with a larger MAX in --singularity-gpus=MIN-MAX", jobrequest.CountOf(usable, "GPU"), onEach)
		}
		wants = min(wants, usable)
	}
	where := ""
	if isNodes > 1 {
		where = ", and the like for its other nodes"
	}
	more := max(wants-has, 1)
	return fmt.Sprintf("you can lend it %s yourself, up to the MAX of its --singularity-gpus=MIN-MAX: "+
		"sbatch --gpus-per-node=%d --nodelist=%s --singularity-lease=%d --wrap 'exec sleep infinity'%s",
		jobrequest.CountOf(more, "GPU"), more, nodes[0], job.ID, where)
}

// usableGPUs is how many GPUs the programs of a running job can use on each of its nodes; 0: that is not known. why says
// that the job can have no other size at all.
func (s *Server) usableGPUs(ctx context.Context, job *slurmrest.Job) (usable int64, why string) {
	if s.opt.UsableGPUs == nil {
		return 0, ""
	}
	usable, err := s.opt.UsableGPUs(ctx, job)
	var size *jobrequest.SizeError
	switch {
	case errors.As(err, &size):
		return 0, size.Text
	case err != nil:
		s.opt.Log.Warn("how many GPUs a job can use is not known", "job", job.ID, "error", err)
		return 0, ""
	}
	return usable, ""
}

// checkSize refuses a size that the job cannot have, also to operators.
func (s *Server) checkSize(ctx context.Context, job *slurmrest.Job, what string, args action.Args) error {
	if s.opt.CheckSize == nil {
		return nil
	}
	err := s.opt.CheckSize(ctx, job, what, args)
	var size *jobrequest.SizeError
	switch {
	case err == nil, ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &size):
		return &rpc.Error{Kind: rpc.ErrNotPossible, Text: fmt.Sprintf("%s: job %s: %s", what, job.Label(), size.Text), Hint: "nothing was done to the job; it stays as it is"}
	}
	return &rpc.Error{
		Kind: rpc.ErrSlurm, Text: fmt.Sprintf("%s: job %s: whether it can have that cannot be found out: %s", what, job.Label(), err),
		Hint: "nothing was done; try again when Slurm and the job's node answer",
	}
}

// mayRelease refuses to take back a hold of another user.
func (s *Server) mayRelease(ctx context.Context, who caller, what string, job *slurmrest.Job) error {
	if !job.Held {
		return nil
	}
	all, err := s.opt.Journal.History(ctx, job.ID, maxHistory)
	if err != nil {
		return err
	}
	holder, err := action.LastHolder(all)
	switch {
	case err != nil:
		return err
	case holder == nil:
		return s.foreignHold(who, what, job)
	case holder.Who == who.name:
		return nil
	}
	text := fmt.Sprintf("job %s is held by %s", job.Label(), holder.Who)
	if holder.Why != journal.NoReason {
		text += ": " + holder.Why
	}
	return s.denyRequest(who, what, text)
}

// foreignHold refuses a hold that Slurm says is an administrator's.
func (s *Server) foreignHold(who caller, what string, job *slurmrest.Job) error {
	if job.Reason == "JobHeldUser" {
		return nil
	}
	return s.denyRequest(who, what, fmt.Sprintf("job %s is held by an administrator (%s)", job.Label(), job.Reason))
}

// checkQOSAllowed refuses a QOS that the job's account does not give its owner.
func (s *Server) checkQOSAllowed(ctx context.Context, who caller, what string, job *slurmrest.Job, qos string) error {
	own, err := s.people.lookUpQOS(ctx, who.name, job.Account)
	if err != nil {
		return &rpc.Error{Kind: rpc.ErrSlurm, Text: fmt.Sprintf("which QOS %s may use cannot be found out: %s", who.name, err), Hint: "nothing was done; try again when slurmdbd answers"}
	}
	if slices.Contains(own, qos) {
		return nil
	}
	return s.denyRequest(who, what, fmt.Sprintf("account %s gives %s no QOS %s: %s", job.Account, who.name, qos, cmp.Or(strings.Join(own, ", "), "none")))
}

// askedSize is the size that the job's user asked for, before any action changed it.
func (s *Server) askedSize(ctx context.Context, job *slurmrest.Job) (nodes, gpus int64, err error) {
	record, err := s.opt.Journal.Origin(ctx, job.ID)
	if err != nil || record == nil {
		return 0, 0, err
	}
	r, err := jobrequest.Decode(record)
	return r.Asked.Nodes, gpusAsked(&r), err
}

// gpusAsked is how many GPUs the job's user asked for, before any action changed it.
func gpusAsked(r *jobrequest.Record) int64 {
	return max(gpusIn(r.Asked.TRESNode)*r.Asked.Nodes, gpusIn(r.Asked.TRESJob))
}

// addSubmitted adds to the state of a job with how many GPUs it was submitted, where that number differs, after a
// resize, from the number by which it is counted now.
func (s *Server) addSubmitted(ctx context.Context, job int64, m *rpc.Standing) error {
	if m == nil {
		return nil
	}
	record, err := s.opt.Journal.Origin(ctx, job)
	if err != nil || record == nil {
		return err
	}
	r, err := jobrequest.Decode(record)
	if err != nil {
		return fmt.Errorf("job %d: %w", job, err)
	}
	if gpus := int32(gpusAsked(&r)); gpus != m.GetRequested() { //nolint:gosec // GPUs of a job
		m.Submitted = gpus
	}
	return nil
}

// gpusRequested is how many GPUs a job asks for in all.
func gpusRequested(job *slurmrest.Job) int64 {
	return max(gpusIn(job.TRESPerNode)*job.NodeCount.Or(1), gpusIn(job.TRESPerJob), gpusIn(job.TRESPerTask)*job.Tasks.Or(1))
}

// gpusIn counts the GPUs in "gres/gpu:a100:2,gres/nic:1".
func gpusIn(tres string) int64 {
	var n int64
	for item := range strings.SplitSeq(tres, ",") {
		fields := strings.Split(item, ":")
		if fields[0] != "gres/gpu" {
			continue
		}
		each, err := strconv.ParseInt(fields[len(fields)-1], 10, 32)
		if err != nil { // "gres/gpu", "gres/gpu:a100"
			each = 1
		}
		n += each
	}
	return n
}

func (s *Server) denyRequest(who caller, what, why string) error {
	s.opt.Log.Warn("request denied", "what", what, "uid", who.uid, "why", why)
	return fmt.Errorf("%s: %w: %s", what, rpc.ErrDenied, why)
}
