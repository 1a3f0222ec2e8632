// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

var errNobody = errors.New("request came without a caller") // a server without a gate

// admitDaemon admits root and SlurmUser.
func (s *Server) admitDaemon(ctx context.Context, what string) (munge.Caller, error) {
	caller, ok := munge.CallerOf(ctx)
	switch {
	case !ok:
		return caller, errNobody
	case !s.people.isDaemon(caller.UID):
		return caller, s.denyCall(caller, what, "for daemons only")
	}
	return caller, nil
}

// admitOperator admits operators.
func (s *Server) admitOperator(ctx context.Context, what string) (munge.Caller, error) {
	caller, ok := munge.CallerOf(ctx)
	if !ok {
		return caller, errNobody
	}
	is, err := s.people.isOperator(ctx, caller.UID)
	if err == nil && !is {
		err = s.denyCall(caller, what, "for operators only; proxyd.yaml names them")
	}
	return caller, err
}

// admitOwner admits the job's owner and operators.
func (s *Server) admitOwner(ctx context.Context, what, job string) (munge.Caller, error) {
	caller, ok := munge.CallerOf(ctx)
	if !ok {
		return caller, errNobody
	}
	if err := rpc.CheckJob(job); err != nil {
		return caller, err
	}
	uid, err := s.opt.Conductor.Owner(ctx, job)
	if err != nil || uid == caller.UID {
		return caller, err
	}
	is, err := s.people.isOperator(ctx, caller.UID)
	if err == nil && !is {
		err = s.denyCall(caller, what, "job "+job+" belongs to another user")
	}
	return caller, err
}

// visibleCheckpoints returns the checkpoints of a job, or of all, that the caller may see. A job
// with checkpoints of which the caller may see none is refused.
func (s *Server) visibleCheckpoints(ctx context.Context, what, job string) ([]*rpc.Checkpoint, error) {
	caller, ok := munge.CallerOf(ctx)
	if !ok {
		return nil, errNobody
	}
	if job != "" {
		if err := rpc.CheckJob(job); err != nil {
			return nil, err
		}
	}
	all, err := s.opt.Conductor.Checkpoints(ctx, job)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(slices.Clone(all), func(c *rpc.Checkpoint) bool { return !shownTo(c, caller.UID) })
	if len(own) == len(all) {
		return all, nil
	}
	is, err := s.people.isOperator(ctx, caller.UID)
	switch {
	case err != nil:
		return nil, err
	case is:
		return all, nil
	case job != "" && len(own) == 0:
		return nil, s.denyCall(caller, what, "job "+job+" belongs to another user")
	}
	return own, nil
}

// visibleAttempts returns the checkpoint of a job that is being made, if the caller may see it.
func (s *Server) visibleAttempts(ctx context.Context, job string) ([]*rpc.Attempt, error) {
	caller, ok := munge.CallerOf(ctx)
	if !ok {
		return nil, errNobody
	}
	all, err := s.opt.Conductor.Attempts(ctx, job)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(a *rpc.Attempt) bool { return a.GetUid() != caller.UID }) {
		return all, nil
	}
	if is, err := s.people.isOperator(ctx, caller.UID); err != nil || !is {
		return nil, err
	}
	return all, nil
}

// namedCheckpoints returns the checkpoints of those names, or without names all that the caller
// may see. All must exist and be visible.
func (s *Server) namedCheckpoints(ctx context.Context, what string, names []string) ([]*rpc.Checkpoint, error) {
	if len(names) == 0 {
		return s.visibleCheckpoints(ctx, what, "")
	}
	if len(names) > maxNames {
		return nil, rpc.Errorf(rpc.ErrInvalid, "%s: %d checkpoints named, at most %d at once", what, len(names), maxNames)
	}
	lists := make(map[string][]*rpc.Checkpoint) // by job
	var found []*rpc.Checkpoint
	for _, name := range names {
		job, err := rpc.CheckpointJob(name)
		if err != nil {
			return nil, err
		}
		if _, ok := lists[job]; !ok {
			if lists[job], err = s.visibleCheckpoints(ctx, what, job); err != nil {
				return nil, err
			}
		}
		i := slices.IndexFunc(lists[job], func(c *rpc.Checkpoint) bool { return isNamed(c, name) })
		if i < 0 {
			return nil, rpc.Errorf(rpc.ErrNoCheckpoint, "checkpoint %s: there is none of that name", name)
		}
		found = append(found, lists[job][i])
	}
	return found, nil
}

// maxNames limits the names that a request makes the store look up.
const maxNames = 1000

// shownTo says whether the user may know of the checkpoint.
func shownTo(c *rpc.Checkpoint, uid uint32) bool {
	return c.GetUid() == uid && (c.GetProblem() == "" || c.GetUser() != "")
}

// wholeCheckpoints is namedCheckpoints for requests about contents: it refuses checkpoints that
// are damaged, because their owner is not certain.
func (s *Server) wholeCheckpoints(ctx context.Context, what string, names []string) ([]*rpc.Checkpoint, error) {
	list, err := s.namedCheckpoints(ctx, what, names)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		if c.GetProblem() == "" {
			continue
		}
		caller, _ := munge.CallerOf(ctx) // the gate has checked the caller; see namedCheckpoints
		is, err := s.people.isOperator(ctx, caller.UID)
		if err == nil && !is {
			err = s.denyCall(caller, what, "checkpoint "+c.GetId()+" is damaged, which leaves it to operators")
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// isNamed accepts "mini/812/3" and "812/3" for a checkpoint of job 812, which may have another
// name: "810_2/3".
func isNamed(c *rpc.Checkpoint, name string) bool {
	_, number, _ := strings.Cut(name, "/")
	return c.GetId() == name || number == strconv.FormatUint(uint64(c.GetNumber()), 10)
}

func (s *Server) denyCall(c munge.Caller, what, why string) error {
	s.opt.Log.Warn("request denied", "what", what, "uid", c.UID, "why", why)
	return fmt.Errorf("%s: %w: %s", what, rpc.ErrDenied, why)
}
