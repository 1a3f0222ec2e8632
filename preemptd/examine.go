// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/singularity-slurm/singularity-slurm/preemptd/doctor"
	"github.com/singularity-slurm/singularity-slurm/preemptd/health"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// examineController makes the Controller for singctl doctor --controller, singctl status and readyz.
func (c *controller) examineController() *doctor.Controller {
	cfg := c.cfg.Load()
	proxyds := c.newProxyds(cfg)
	return &doctor.Controller{
		Slurmrestd: cfg.Slurmrestd,
		Token: func() (user, token string, err error) {
			if cfg.TokenFile == "" {
				return "", "", nil
			}
			return slurmrest.TokenFile(cfg.TokenFile, cfg.TokenUser)(context.Background())
		},
		Ping: func(ctx context.Context) error { return pingSlurm(ctx, c.slurm) },
		Run: func(ctx context.Context, program string, args ...string) (string, error) {
			out, err := slurmrest.ExecScontrol{Path: program}.Run(ctx, args...)
			return string(out), err
		},
		Scontrol: cfg.Scontrol, Sacctmgr: cfg.Sacctmgr, LeaseQOS: cfg.LeaseQOS,
		Journal: func(ctx context.Context) error {
			_, err := c.journal.Lease(ctx)
			return err
		},
		Policies: func() []*rpc.Policy { return c.policies.statusOf(c.cfg.Load().Policies) },
		Nodes:    c.namesOfNodesUp,
		Knock: func(ctx context.Context, node string) (string, error) {
			reply, err := proxyds.Knock(ctx, node)
			return health.FolderProblem(reply.GetHealth()), err
		},
	}
}

// namesOfNodesUp lists the nodes that answer slurmctld.
func (c *controller) namesOfNodesUp(ctx context.Context) ([]string, error) {
	nodes, err := c.slurm.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range nodes {
		if n := &nodes[i]; n.State.Base != "DOWN" && !n.State.Has("NOT_RESPONDING") {
			names = append(names, n.Name)
		}
	}
	return names, nil
}
