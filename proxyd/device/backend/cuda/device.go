// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// device is a real device.
type device struct {
	backend *Backend
	index   int
	dev     driver.Device
	info    backend.Info
	rdma    bool

	holdings holdings
	sums     summer

	mu            sync.Mutex
	served        bool // the context of the service exists
	stopped       bool // the service will not start again, and no team is made
	ctx           driver.Context
	driverStreams chan *driverStream // of the server itself, for memory that no program's stream is to move
	teams         map[*team]bool
}

// reservedBytes is the memory of a device that programs do not get: contexts and code lie there.
func reservedBytes(total uint64) uint64 { return min(total/16, 1<<30) }

func (b *Backend) newDevice(i int, dev driver.Device) (*device, error) {
	d := &device{backend: b, index: i, dev: dev}
	var err error
	if d.info.Name, err = b.drv.Name(dev); err != nil {
		return nil, err
	}
	if d.info.UUID, err = b.drv.UUID(dev); err != nil {
		return nil, err
	}
	total, err := b.drv.TotalMemory(dev)
	if err != nil {
		return nil, err
	}
	d.info.Memory = (total - reservedBytes(total)) / backend.Granule * backend.Granule
	for a := range d.info.Attributes {
		v, err := b.drv.Attribute(dev, backend.Attribute(a))
		if backend.ResultOf(err) == backend.InvalidValue {
			continue // this driver does not know the attribute
		}
		if err != nil {
			return nil, err
		}
		d.info.Attributes[a] = v
	}
	at := &d.info.Attributes
	d.info.PCI = backend.PCI{Domain: uint32(at[backend.PCIDomainID]), Bus: uint32(at[backend.PCIBusID]), Device: uint32(at[backend.PCIDeviceID])}
	switch {
	case at[backend.VirtualMemory] == 0:
		return nil, fmt.Errorf("%s has no virtual memory management, which checkpoints need: %w", d.info.Name, backend.NotSupported)
	case at[backend.UnifiedAddressing] == 0:
		return nil, fmt.Errorf("%s has no unified addresses, which checkpoints need: %w", d.info.Name, backend.NotSupported)
	}
	if n, err := b.drv.Granularity(dev); err != nil {
		return nil, err
	} else if n == 0 || backend.Granule%n != 0 {
		return nil, fmt.Errorf("%s has memory in pieces of %d bytes: %w", d.info.Name, n, backend.NotSupported)
	}
	d.rdma = at[backend.RDMAWithVMM] != 0
	for _, feature := range absentFeatures {
		at[feature] = 0
	}
	return d, nil
}

// absentFeatures are features that a real device may have and programs are told it has not: their calls are refused by name,
// here or on all devices, so that a program which asks first does without.
var absentFeatures = []backend.Attribute{
	backend.ManagedMemory, backend.ConcurrentManagedAccess, backend.PageableMemoryAccess, backend.PageableUsesHostTables,
	backend.DirectManagedFromHost, backend.CooperativeMultiDevice, backend.GenericCompression, backend.RDMAWithVMM,
	backend.SparseArrays, backend.DeferredMapping, backend.TimelineSemaphores, backend.GPUDirectRDMA, backend.RDMAFlushOptions,
	backend.RDMAWritesOrdering, backend.DMABuf, backend.HandleFabric, backend.UnifiedFunctionPointers, backend.Multicast,
	backend.D3D12Sharing, backend.DecompressAlgorithms, backend.DecompressMaxLength, backend.VulkanSharing,
	backend.HostNUMAVirtualMemory, backend.HostNUMAMemoryPools, backend.HostNUMAMultinodeIPC, backend.HostMemoryPools,
	backend.HostVirtualMemory, backend.HostDMABuf,
	// Contexts here share neither memory nor events with other processes: they are no backend.Sharer.
	backend.HandlePosixFD, backend.PoolHandleTypes, backend.IPCEvents,
}

// Info implements backend.Device.
func (d *device) Info() *backend.Info { return &d.info }

// MakeTensorMap implements backend.TensorMapper.
func (d *device) MakeTensorMap(s *backend.TensorShape) (backend.TensorMap, error) {
	return driver.TensorMaps{Driver: d.backend.drv}.Make(s)
}

// MoveTensorMap implements backend.TensorMapper.
func (d *device) MoveTensorMap(m backend.TensorMap, to backend.Addr) (backend.TensorMap, error) {
	return driver.TensorMaps{Driver: d.backend.drv}.Move(m, to)
}

// ProcessorGroups implements backend.ProcessorGrouper.
func (d *device) ProcessorGroups() (groups, order []byte, err error) {
	if err := d.serviceContext(); err != nil {
		return nil, nil, err
	}
	return d.backend.drv.ProcessorGroups(d.ctx, (int(d.info.Attributes[backend.Multiprocessors])+1)/2)
}

// serviceContext makes the server's own context at the first use of the device, because a context costs memory.
func (d *device) serviceContext() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return errClosed
	}
	if d.served {
		return nil
	}
	drv := d.backend.drv
	ctx, err := drv.NewContext(d.dev, 0)
	if err != nil {
		return err
	}
	lanes := make(chan *driverStream, maxDriverStreams)
	for range maxDriverStreams {
		l, err := d.backend.newDriverStream(ctx, 0, func(f func() error) error { return f() })
		if err != nil {
			return errors.Join(err, drv.DestroyContext(ctx))
		}
		lanes <- l
	}
	d.ctx, d.driverStreams, d.served = ctx, lanes, true
	d.backend.pinned.useContext(drv, ctx)
	return nil
}

// maxDriverStreams is how many of the server's own copies are under way on a device at once.
const maxDriverStreams = 4

// borrowDriverStream calls f with a driver stream of the server's own.
func (d *device) borrowDriverStream(f func(*driverStream) error) error {
	l := <-d.driverStreams
	defer func() { d.driverStreams <- l }()
	return f(l)
}

// stopService ends the server's own context. By then no team, memory or buffer is left.
func (d *device) stopService() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.served {
		return nil
	}
	d.served = false
	return d.backend.drv.DestroyContext(d.ctx)
}
