// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// serveTenants is the life of a device server that serves several capsules of a job, until ctx is done.
func serveTenants(ctx context.Context, o *deviceOptions) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer o.endInTime(ctx)()
	if o.control < 0 || o.order != nil {
		return fmt.Errorf("device: --tenants is with --control, and without --order; %w", errUsage)
	}
	b, describe, err := o.openForTenants()
	if err != nil {
		return err
	}
	tenants, err := server.NewTenants(server.TenantsConfig{
		Backend: b, Spare: o.spare, Network: nccl.OverTCP(o.address), Log: o.openLog(), Version: version,
		Info: describe,
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

// openForTenants opens the devices. describe describes n devices to programs, nil: as they are.
func (o *deviceOptions) openForTenants() (b backend.Backend, describe func(n int) []backend.Info, err error) {
	if o.kind == kindCuda {
		if b, err = cuda.Open(cuda.Config{}); err != nil {
			return nil, nil, fmt.Errorf("real devices: %w", err)
		}
		return b, func(int) []backend.Info { return nil }, nil
	}
	cfg, err := o.softConfig()
	if err != nil {
		return nil, nil, err
	}
	if b, err = softgpu.New(cfg); err != nil {
		return nil, nil, err
	}
	return b, func(n int) []backend.Info { return describeDevices(cfg, n) }, nil
}
