// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// serveTenants is the life of a device server that serves several capsules of a job, until ctx is done.
func serveTenants(ctx context.Context, o *deviceOptions) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer o.endInTime(ctx)()
	if o.kind != kindSoft || o.control < 0 || o.order != nil {
		return fmt.Errorf("device: --tenants is for software GPUs, with --control, and without --order; %w", errUsage)
	}
	cfg, err := o.softConfig()
	if err != nil {
		return err
	}
	b, err := softgpu.New(cfg)
	if err != nil {
		return err
	}
	tenants, err := server.NewTenants(server.TenantsConfig{
		Backend: b, Spare: o.spare, Network: nccl.OverTCP(o.address), Log: o.openLog(), Version: version,
		Info: func(n int) []backend.Info { return describeDevices(cfg, n) },
	})
	if err != nil {
		return errors.Join(err, b.Close())
	}
	defer func() { err = errors.Join(err, tenants.Close()) }()
	l, err := listenToParent(o.control)
	if err != nil {
		return err
	}
	told := make(chan error, 1)
	go func() { told <- tenants.ServeControl(l) }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-told:
		return err
	case err := <-tenants.Failed():
		return err
	}
}
