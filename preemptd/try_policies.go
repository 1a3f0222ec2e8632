// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
	"github.com/singularity-slurm/singularity-slurm/preemptd/policy"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// encodedSnapshot is the last snapshot that policies saw, as bytes.
func (d *requestServer) encodedSnapshot() ([]byte, error) {
	last := d.latestLook()
	if last == nil {
		return nil, nil
	}
	return sdk.Marshal(last.snapshot)
}

// tryPolicies asks policies for their intents on a snapshot, in processes that end with the request: the policies
// that decide are not disturbed. A single user tries at a time.
func (d *requestServer) tryPolicies(ctx context.Context, req *rpc.TryRequest) (*rpc.TryReply, error) {
	select {
	case d.trying <- struct{}{}:
		defer func() { <-d.trying }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s, err := sdk.Unmarshal(req.GetSnapshot())
	if err != nil {
		return nil, rpc.Errorf(rpc.ErrInvalid, "%v", err)
	}
	if at := req.GetAt(); at != nil {
		s.Time = at.AsTime()
	}
	folder, err := os.MkdirTemp("", "preemptd-try-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }() // of a name that no other process uses
	configs, err := d.policyConfigs(req, folder)
	if err != nil {
		return nil, rpc.Errorf(rpc.ErrInvalid, "%v", err)
	}
	var policies []chain.NamedPolicy
	var asked []*policy.Policy
	for _, c := range configs {
		p := policy.New(c, d.log.With("tried", true))
		defer p.Close()
		policies = append(policies, chain.NamedPolicy{Name: c.Name, Policy: p})
		asked = append(asked, p)
	}
	reply := &rpc.TryReply{Cluster: s.Cluster, Time: timestamppb.New(s.Time), Nodes: int32(len(s.Nodes)), Jobs: int32(len(s.Jobs))} //nolint:gosec // lists in memory
	for i, answer := range chain.Decide(ctx, policies, s) {
		message := triedMessage(answer, folder)
		asked[i].Close() // then all that it printed is there
		message.Printed = asked[i].Printed()
		reply.Policies = append(reply.Policies, message)
	}
	return reply, ctx.Err()
}

// policyConfigs is the policies that a request means; its own file is put into the folder.
func (d *requestServer) policyConfigs(req *rpc.TryRequest, folder string) ([]policy.Config, error) {
	cfg := d.cfg.Load()
	names := req.GetPolicies()
	switch {
	case len(names) > 0:
	case req.GetFile() != "":
		names = []string{policy.Own}
	default:
		names = cfg.Policies
	}
	if len(names) == 0 {
		return nil, errors.New("no policies are configured; name some: singctl policy test tiers")
	}
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, "/\x00") {
			return nil, errors.New("a policy is named as in the configuration")
		}
	}
	configs, err := policySite(cfg).Configs(names)
	if err != nil || req.GetFile() == "" {
		return configs, err
	}
	file := filepath.Join(folder, "policy.star")
	if name := filepath.Base(req.GetFileName()); filepath.Ext(name) == ".star" {
		file = filepath.Join(folder, name)
	}
	if err := os.WriteFile(file, []byte(req.GetFile()), 0o600); err != nil {
		return nil, err
	}
	for i := range configs {
		if configs[i].Name != policy.Own {
			continue
		}
		settings := map[string]any{}
		if len(configs[i].Settings) > 0 {
			if err := json.Unmarshal(configs[i].Settings, &settings); err != nil {
				return nil, err
			}
		}
		settings["file"] = file
		if configs[i].Settings, err = json.Marshal(settings); err != nil {
			return nil, err
		}
		return configs, nil
	}
	return nil, errors.New("a file is tried by the policy " + policy.Own + ", which is not among those named")
}

// triedMessage is a policy's answer as a message, without the folder in which its file was.
func triedMessage(a chain.Answer, folder string) *rpc.Tried {
	message := &rpc.Tried{Policy: a.Policy}
	if a.Err != nil {
		message.Problem = strings.ReplaceAll(a.Err.Error(), folder+"/", "")
		return message
	}
	for _, step := range a.Plan.Steps {
		w := &rpc.Wanted{What: step.Intent.String(), Job: int64(step.Intent.Job), Reason: step.Intent.Reason}
		for _, id := range step.After {
			w.After = append(w.After, int64(id))
		}
		message.Accepted = append(message.Accepted, w)
	}
	for _, rejected := range a.Plan.Rejected {
		message.Rejected = append(message.Rejected, refusalMessage(rejected))
	}
	return message
}

func refusalMessage(r plan.Rejection) *rpc.Wanted {
	return &rpc.Wanted{What: r.Intent.String(), Job: int64(r.Intent.Job), Reason: r.Intent.Reason, Invariant: string(r.Invariant), Detail: r.Detail}
}
