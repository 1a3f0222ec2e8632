// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/nccl"
)

// Built tells whether this program can open a driver.
const Built = true

// Backend is the real devices of a machine.
type Backend struct {
	cfg     Config
	drv     *driver.Driver
	version int
	list    []*device
	devices []backend.Device
	epoch   time.Time
	pinned  *hostBufferPool
	owed    orphanedLoans
	window  *window
	copies  *hostStore
	sumKeys *sumKeys

	mu     sync.Mutex
	closed bool // no more spaces are made
	ranges []*addresses
	spaces map[*space]bool // until their Close ends
	mapped map[*space]bool
	turns  uint64 // how often spaces were mapped, in all

	ncclMu  sync.Mutex
	nccl    *nccl.Library
	ncclErr error

	rehearsing sync.Mutex          // held by a move, while contexts of driver.Rehearsal are there
	repeating  map[[2]*device]bool // see checkRepeating
	memories   atomic.Uint64       // that were made, in all

	hostMu sync.Mutex
	hosts  map[backend.Addr]*host
}

var _ backend.Backend = (*Backend)(nil)

// addresses is a range that the driver has reserved for us, and how many spaces lie there.
type addresses struct {
	base  backend.Addr
	size  uint64
	users int
}

// Open opens the driver. Addresses are taken before anything else, which would take some of them: see Settle. The error
// wraps driver.ErrNoDriver if there is no driver, ErrAddresses if the addresses are not free.
func Open(cfg Config) (*Backend, error) {
	if cfg.Library == "" {
		cfg.Library = "libcuda.so.1"
	}
	d, err := driver.Open(cfg.Library)
	if err != nil {
		return nil, err
	}
	b := &Backend{
		cfg: cfg, drv: d, epoch: time.Now(), spaces: map[*space]bool{}, mapped: map[*space]bool{}, hosts: map[backend.Addr]*host{},
		window: newWindow(), pinned: newPinned(), repeating: map[[2]*device]bool{},
		copies: newHostStore(), sumKeys: newSumKeys(),
	}
	if err := b.startDevices(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// startDevices is the order of events when a backend begins.
func (b *Backend) startDevices() error {
	if err := b.drv.Init(); err != nil {
		return err
	}
	var err error
	if b.version, err = b.drv.Version(); err != nil {
		return err
	}
	list, err := b.drv.Devices()
	if err != nil {
		return err
	}
	total := uint64(0)
	for _, dev := range list {
		n, err := b.drv.TotalMemory(dev)
		if err != nil {
			return err
		}
		total = max(total, backend.SpaceSize(n))
	}
	// First of all, because the driver's next calls may take addresses.
	if _, err := b.reserveAddresses(windowBase, windowSize); err != nil {
		return err
	}
	if len(list) > 0 {
		if _, err := b.reserveAddresses(backend.DefaultBase, total*uint64(max(len(list), b.cfg.Spaces))); err != nil {
			return err
		}
	}
	for i, dev := range list {
		d, err := b.newDevice(i, dev)
		if err != nil {
			return fmt.Errorf("device %d: %w", i, err)
		}
		b.list, b.devices = append(b.list, d), append(b.devices, d)
	}
	return nil
}

// reserveAddresses takes addresses where they are wanted, or fails. The caller holds mu, or has the backend for itself.
func (b *Backend) reserveAddresses(base backend.Addr, size uint64) (*addresses, error) {
	got, err := b.drv.Reserve(size, base)
	if err != nil {
		return nil, fmt.Errorf("%d addresses at %#x: %w: %w", size, uint64(base), ErrAddresses, err)
	}
	if got != base {
		taken, _ := findMapping(uint64(base), uint64(base)+size)
		return nil, errors.Join(fmt.Errorf("%d addresses at %#x: the driver gave %#x: %w: %s", size, uint64(base), uint64(got), ErrAddresses, cmp.Or(taken, "nothing is mapped there")),
			b.drv.Unreserve(got, size))
	}
	a := &addresses{base: base, size: size, users: 1}
	b.ranges = append(b.ranges, a)
	return a, nil
}

// claimAddresses reserves a space's addresses, unless they are reserved already.
func (b *Backend) claimAddresses(base backend.Addr, size uint64) (*addresses, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	for _, a := range b.ranges {
		if base >= a.base && uint64(base-a.base)+size <= a.size && a.base != windowBase {
			a.users++
			return a, nil
		}
	}
	return b.reserveAddresses(base, size)
}

// unclaimAddresses is claimAddresses's reverse. The addresses of the beginning are kept.
func (b *Backend) unclaimAddresses(a *addresses) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.users--; a.users > 0 {
		return
	}
	for i, o := range b.ranges {
		if o == a {
			b.ranges = append(b.ranges[:i], b.ranges[i+1:]...)
			_ = b.drv.Unreserve(a.base, a.size) // no memory is mapped there; on an error they stay taken
			return
		}
	}
}

// Devices implements backend.Backend.
func (b *Backend) Devices() []backend.Device { return b.devices }

// enterSpace lists a space that was made, unless the backend is being closed.
func (b *Backend) enterSpace(s *space) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	b.spaces[s] = true
	return nil
}

// Close implements backend.Backend. The library stays open: the driver has threads of its own.
//
// The order is: the spaces, their teams, the memory lent to the teams, the wait for calls that use memory or buffers,
// the server's own contexts, which these calls need, and last the addresses. Addresses that are given back while memory
// is mapped there would be taken when the next backend is opened.
func (b *Backend) Close() error {
	for _, s := range b.refuseSpaces() {
		_ = s.Close() // another goroutine may have closed the space,
		<-s.over      // and may not have come to the end
	}
	for _, d := range b.list {
		d.disbandTeams()
	}
	b.owed.endAllLoans()
	b.window.waitEmpty()
	errs := []error{b.pinned.freeBuffers(), b.copies.unmapSlabs()}
	for _, d := range b.list {
		errs = append(errs, d.stopService())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.ranges {
		errs = append(errs, b.drv.Unreserve(a.base, a.size))
	}
	b.ranges = nil
	return errors.Join(errs...)
}

// refuseSpaces lets no more spaces be made, and lists the existing spaces.
func (b *Backend) refuseSpaces() []*space {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return slices.Collect(maps.Keys(b.spaces))
}

// elapsed is the backend's clock.
func (b *Backend) elapsed() time.Duration { return time.Since(b.epoch) }
