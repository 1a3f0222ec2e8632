// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// view is the memory that running work finds: the program's addresses over memory. Package ledger has the names
// that calls may use, which differ. While the space is mapped, the device's page tables are as the view.
type view struct {
	space *space

	mu     sync.Mutex
	shown  bool
	closed bool
	places map[backend.Addr]*memory
	seen   []*device // devices that may follow pointers here, once for each AllowPeer
}

// allDevices returns all devices that may use the memory.
func (v *view) allDevices() []driver.Device {
	list := []driver.Device{v.space.currentDevice().dev}
	for _, d := range v.seen {
		if !slices.Contains(list, d.dev) {
			list = append(list, d.dev)
		}
	}
	return list
}

// sortedAddresses are the addresses of all places, ascending. The caller holds mu.
func (v *view) sortedAddresses() []backend.Addr { return slices.Sorted(maps.Keys(v.places)) }

// addMemory lets work find memory at an address, unless the memory is there already.
func (v *view) addMemory(a backend.Addr, m *memory) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.closed:
		return errClosed
	case v.places[a] == m:
		return nil
	case v.places[a] != nil:
		return fmt.Errorf("map %#x: in use: %w", uint64(a), backend.InvalidValue)
	}
	if v.shown {
		if err := v.enterMemory(a, m); err != nil {
			return err
		}
	}
	v.places[a] = m
	return nil
}

// enterMemory maps memory. The caller holds mu.
func (v *view) enterMemory(a backend.Addr, m *memory) error {
	if err := m.openForProgram(); err != nil {
		return err
	}
	drv := v.space.device.backend.drv
	if err := drv.Map(a, m.size, m.handle); err != nil {
		return err
	}
	if err := drv.Allow(a, m.size, true, v.allDevices()...); err != nil {
		return errors.Join(err, drv.Unmap(a, m.size))
	}
	return nil
}

// memoryAt tells whether this memory is at an address.
func (v *view) memoryAt(a backend.Addr, m *memory) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.places[a] == m
}

// removeMemory undoes addMemory, if this memory is there.
func (v *view) removeMemory(a backend.Addr, m *memory) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.places[a] != m {
		return nil
	}
	delete(v.places, a)
	if !v.shown {
		return nil
	}
	return v.space.device.backend.drv.Unmap(a, m.size)
}

// mapView maps the whole view, or on an error unmaps all of it.
func (v *view) mapView() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var done []backend.Addr
	for _, a := range v.sortedAddresses() {
		if err := v.enterMemory(a, v.places[a]); err != nil {
			for _, a := range done {
				err = errors.Join(err, v.space.device.backend.drv.Unmap(a, v.places[a].size))
			}
			return err
		}
		done = append(done, a)
	}
	v.shown = true
	return nil
}

// unmapView is mapView's reverse.
func (v *view) unmapView() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.shown {
		return nil
	}
	v.shown = false
	var errs []error
	for _, a := range v.sortedAddresses() {
		errs = append(errs, v.space.device.backend.drv.Unmap(a, v.places[a].size))
	}
	return errors.Join(errs...)
}

// shutView lets no more memory be put into the view.
func (v *view) shutView() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	clear(v.places)
}

// devicesSeeing lists the devices that may follow pointers here.
func (v *view) devicesSeeing() []*device {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.seen)
}

// allowDevice lets another device use all present and later memory of the view.
func (v *view) allowDevice(d *device) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = append(v.seen, d)
	return v.permitDevice(d, true)
}

// denyDevice undoes allowDevice.
func (v *view) denyDevice(d *device) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.Index(v.seen, d)
	if i < 0 {
		return nil
	}
	v.seen = slices.Delete(v.seen, i, i+1)
	if slices.Contains(v.seen, d) {
		return nil
	}
	return v.permitDevice(d, false)
}

// permitDevice lets a device use the memory that is mapped now, or forbids it. The caller holds mu.
func (v *view) permitDevice(d *device, yes bool) error {
	if !v.shown || v.closed || d == v.space.currentDevice() {
		return nil
	}
	var errs []error
	for a, m := range v.places {
		errs = append(errs, v.space.device.backend.drv.Allow(a, m.size, yes, d.dev))
	}
	return errors.Join(errs...)
}

// findWindow finds bytes where the server sees them: the piece of memory at an address, and its length.
func (v *view) findWindow(a backend.Addr) (*memory, uint64, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for base, m := range v.places {
		if a >= base && uint64(a-base) < m.size {
			return m, uint64(a - base), true
		}
	}
	return nil, 0, false
}

// checkPeer returns NotSupported if a device cannot reach another one's memory.
func (d *device) checkPeer(o *device) error {
	yes, err := d.backend.drv.CanAccessPeer(d.dev, o.dev)
	if err == nil && !yes {
		err = fmt.Errorf("device %d cannot reach the memory of device %d: %w", d.index, o.index, backend.NotSupported)
	}
	return err
}

// AllowPeer implements backend.Memory.
func (s *space) AllowPeer(peer backend.Space) error {
	p, ok := peer.(*space)
	if !ok || p == s || p.device.backend != s.device.backend || p.overlapsSpace(s) {
		return fmt.Errorf("peer: %w", backend.InvalidValue)
	}
	s.steady.RLock() // the spaces stay on their devices meanwhile
	defer s.steady.RUnlock()
	p.steady.RLock()
	defer p.steady.RUnlock()
	s.mu.Lock()
	there := slices.Contains(s.peers, p)
	s.mu.Unlock()
	if there {
		return fmt.Errorf("peer: %w", backend.PeerAccessAlreadyEnabled)
	}
	if on := p.currentDevice(); on != s.currentDevice() {
		if err := s.currentDevice().checkPeer(on); err != nil {
			return err
		}
	}
	if err := p.view.allowDevice(s.currentDevice()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = append(s.peers, p)
	return nil
}

// DenyPeer implements backend.Memory.
func (s *space) DenyPeer(peer backend.Space) error {
	p, ok := peer.(*space)
	if !ok {
		return fmt.Errorf("peer: %w", backend.InvalidValue)
	}
	s.steady.RLock()
	defer s.steady.RUnlock()
	s.mu.Lock()
	i := slices.Index(s.peers, p)
	if i >= 0 {
		s.peers = slices.Delete(s.peers, i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		return fmt.Errorf("peer: %w", backend.PeerAccessNotEnabled)
	}
	return p.view.denyDevice(s.currentDevice())
}
