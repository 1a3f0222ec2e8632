// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

// acceptedStep is an accepted step, with its policy.
type acceptedStep struct {
	policy string
	step   plan.Step
}

// askPolicies asks the policies. A policy that fails is passed over.
func (l *Loop) askPolicies(ctx context.Context, settings Settings, s *sdk.Snapshot, d *Decision) []acceptedStep {
	var all []acceptedStep
	for _, answer := range chain.Decide(ctx, settings.Policies, s) {
		if answer.Err != nil {
			d.Problems = append(d.Problems, answer.Err.Error())
			continue
		}
		for _, step := range answer.Plan.Steps {
			all = append(all, acceptedStep{answer.Policy, step})
		}
		for _, r := range answer.Plan.Rejected {
			d.Rejected = append(d.Rejected, Refusal{answer.Policy, r})
		}
	}
	return all
}

// beginActions writes the actions that are to begin into the journal. A step that needs the places of other jobs is
// left for a later tick: once they have left, a policy decides on the cluster as it is then.
func (l *Loop) beginActions(ctx context.Context, settings Settings, s *sdk.Snapshot, all []acceptedStep, d *Decision) error {
	l.mu.Lock()
	room := settings.MaxActions - len(l.running)
	l.mu.Unlock()
	for _, accepted := range all {
		choice := Choice{Policy: accepted.policy, Intent: accepted.step.Intent}
		request, err := actionRequest(s, accepted.step.Intent, all)
		request.Who = journal.PolicyPrefix + accepted.policy
		switch {
		case l.DryRun:
			choice.Verdict, choice.Outcome = DryRun, "dry run"
		case err != nil:
			choice.Verdict, choice.Outcome = Failed, err.Error()
		case len(accepted.step.Jobs) > 1:
			choice.Verdict, choice.Outcome = Failed, "jobs of several components cannot be acted upon yet"
		case len(accepted.step.After) > 0:
			choice.Verdict, choice.Outcome = Waits, fmt.Sprintf("waits for job %d", accepted.step.After[0])
		case room <= 0:
			choice.Verdict, choice.Outcome = Waits, fmt.Sprintf("waits: %d actions are under way", settings.MaxActions)
		default:
			_, err := l.Journal.Begin(ctx, request)
			switch {
			case errors.Is(err, journal.ErrBusy): // a person was quicker
				choice.Verdict, choice.Outcome = Waits, err.Error()
			case err != nil:
				return err
			default:
				choice.Verdict, choice.Outcome = Begun, "begun"
				room--
			}
		}
		d.Accepted = append(d.Accepted, choice)
	}
	return nil
}

// actionRequest makes an action's request of an intent.
func actionRequest(s *sdk.Snapshot, i sdk.Intent, all []acceptedStep) (journal.Request, error) {
	args, err := actionArgs(s, i)
	if err != nil {
		return journal.Request{}, err
	}
	args.ForNodes = roomOf(s, i, all)
	raw, err := action.Encode(i.Verb.String(), args)
	request := journal.Request{Kind: i.Verb.String(), Job: int64(i.Job), Args: raw, Why: i.Reason}
	if j, ok := s.Job(i.Job); ok {
		request.User = j.User
	}
	return request, err
}

// roomOf returns the nodes where an intent makes room for the job that the intent is for: where a
// policy wants to place that job or, if no policy does, the nodes of the intent's own job.
func roomOf(s *sdk.Snapshot, i sdk.Intent, all []acceptedStep) []string {
	j, running := s.Job(i.Job)
	if i.For == 0 || !running || len(j.Shares) == 0 {
		return nil
	}
	var nodes []string
	for _, other := range all {
		if place := other.step.Intent; place.Verb == sdk.Place && place.Job == i.For {
			for _, spot := range place.Where {
				nodes = append(nodes, spot.Node)
			}
		}
	}
	if nodes == nil {
		for _, share := range j.Shares {
			nodes = append(nodes, s.Nodes[share.Node].Name)
		}
	}
	slices.Sort(nodes)
	return nodes
}

func actionArgs(s *sdk.Snapshot, i sdk.Intent) (action.Args, error) {
	j, ok := s.Job(i.Job)
	if !ok {
		return action.Args{}, fmt.Errorf("there is no job %d", i.Job)
	}
	args := action.Args{Avoid: i.Avoid, QOS: i.QOS, Hold: i.Park, For: int64(i.For)}
	for _, spot := range i.Where {
		args.Nodes = append(args.Nodes, spot.Node)
	}
	slices.Sort(args.Nodes)
	nodes := max(len(j.Shares), 1)
	if len(j.Shares) == 0 {
		nodes = j.Capsules
	}
	switch {
	case len(i.Where) > 0:
		if each := i.Where[0].GPUs; each*nodes != j.GPUs {
			args.GPUs = int64(each)
		}
	case i.Verb == sdk.Resize:
		if err := setSize(&args, i.GPUs, nodes); err != nil {
			return action.Args{}, err
		}
	}
	if i.Verb != sdk.Migrate && i.Verb != sdk.Resume {
		args.Avoid = nil
	}
	return args, nil
}

// setSize sets the arguments for so many GPUs: on the nodes that the job has, or on fewer nodes.
func setSize(args *action.Args, gpus, nodes int) error {
	if gpus < 1 {
		return errors.New("to how many GPUs?")
	}
	for n := min(nodes, gpus); n > 0; n-- {
		if gpus%n == 0 {
			args.NodeCount, args.GPUs = int64(n), int64(gpus/n)
			return nil
		}
	}
	return fmt.Errorf("%s cannot be spread over %s", sdk.CountOf(gpus, "GPU"), sdk.CountOf(nodes, "node"))
}
