// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// memory is physical memory of a device. The server sees it in its window for as long as the memory exists, and the
// program at the program's addresses while its space is mapped. swap.go says when the bytes are in the host's memory
// instead.
type memory struct {
	owner  *space // nil: the server's own
	number uint64 // of the backend's memories, in the order in which they were made
	size   uint64
	place  uint64 // in the owner: see mappedRanges.newMemory

	// device and at are written under mu, while holds is 0, by a move to another device. Users hold mu or the memory.
	device *device
	at     backend.Addr // in the window

	kept atomic.Bool // by a pool: the bytes are not needed

	mu      sync.Mutex
	there   bool      // in the device's memory
	away    *hostCopy // the bytes, in the host's memory; if neither there nor away, all bytes are zero and take no memory in the machine
	lost    error     // the bytes are gone, because the device failed while they were moved
	holds   int       // number of users that need the memory in place
	handle  driver.Memory
	given   []bool          // blocks that were given back
	reached []driver.Device // other devices that may use the memory in the window
	ended   bool
}

// newMemory makes zeroed memory. Memory of a space is not on the device before the space is mapped.
func (d *device) newMemory(size uint64, owner *space, place uint64) (*memory, error) {
	b := d.backend
	at, err := b.window.placeMemory(size)
	if err != nil {
		return nil, err
	}
	m := &memory{device: d, owner: owner, number: b.memories.Add(1), size: size, place: place, at: at, given: make([]bool, size/backend.Granule)}
	if owner == nil || owner.shown.Load() {
		if err := m.ensurePresent(); err != nil {
			b.window.forgetMemory(m)
			return nil, err
		}
	}
	d.enterMovable(m)
	return m, nil
}

// ensurePresent brings the memory to the device.
func (m *memory) ensurePresent() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.swapInBytes()
}

// swapInBytes is ensurePresent. The caller holds mu.
func (m *memory) swapInBytes() error {
	switch {
	case m.ended && !m.there:
		return errClosed
	case m.lost != nil:
		return m.lost
	case m.there:
		return nil
	}
	d, drv, began := m.device, m.device.backend.drv, time.Now()
	h, err := drv.NewMemory(d.dev, m.size, d.rdma)
	if backend.ResultOf(err) == backend.OutOfMemory {
		if taken, err := m.takeTwin(); taken || err != nil {
			return err
		}
	}
	if err != nil {
		if h, err = d.retryMemory(m.size, err); err != nil {
			return err
		}
	}
	if err := drv.Map(m.at, m.size, h); err != nil {
		return errors.Join(err, drv.Release(h))
	}
	err = drv.Allow(m.at, m.size, true, d.dev)
	if err == nil {
		err = d.borrowDriverStream(m.fillNew)
	}
	if err != nil {
		return errors.Join(err, drv.Unmap(m.at, m.size), drv.Release(h))
	}
	m.handle, m.there, m.reached = h, true, nil
	m.countReturned(began)
	return nil
}

// fillNew writes the content of new memory: the bytes in away, or zeros. The caller holds mu.
func (m *memory) fillNew(l *driverStream) error {
	if m.away == nil {
		return l.clearMemory(m.at, m.size)
	}
	at := uint64(0)
	return l.copyIn(m.at, m.size, func(part []byte) error {
		m.away.readAt(at, part)
		at += uint64(len(part))
		return nil
	})
}

// isThere tells whether the bytes are in the device's memory.
func (m *memory) isThere() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.there
}

// holdPresent brings the memory to the device and holds it there until releaseHold.
func (m *memory) holdPresent() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return errClosed
	}
	if err := m.swapInBytes(); err != nil {
		return err
	}
	m.holds++
	return nil
}

// releaseHold ends a holdPresent, and the memory if it was to end then.
func (m *memory) releaseHold() {
	m.mu.Lock()
	m.holds--
	last := m.holds == 0 && m.ended
	if last {
		_ = m.dropPhysical() // no caller is left that could get the error
	}
	m.mu.Unlock()
	if last {
		m.device.backend.window.forgetMemory(m)
	}
}

// dropPhysical gives back the memory in the machine. The caller holds mu.
func (m *memory) dropPhysical() error {
	m.freeHostCopy()
	if !m.there {
		return nil
	}
	m.there = false
	m.device.countBytes(0, m.size)
	drv := m.device.backend.drv
	return errors.Join(drv.Unmap(m.at, m.size), drv.Release(m.handle))
}

// endMemory is the memory's end. No work uses the memory any more but the work that holds it, and the memory is mapped
// nowhere else.
func (m *memory) endMemory() error {
	m.mu.Lock()
	if m.ended {
		m.mu.Unlock()
		return nil
	}
	m.ended = true
	m.device.removeMovable(m)
	if m.holds > 0 {
		m.mu.Unlock()
		return nil
	}
	err := m.dropPhysical()
	m.mu.Unlock()
	m.device.backend.window.forgetMemory(m)
	return err
}

// reachFrom lets another device use the memory in the window, if d can.
func (m *memory) reachFrom(d *device) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reachLocked(d)
}

// reachLocked is reachFrom. The caller holds mu.
func (m *memory) reachLocked(d *device) error {
	if d == m.device || slices.Contains(m.reached, d.dev) {
		return nil
	}
	if err := d.checkPeer(m.device); err != nil {
		return err
	}
	if err := m.device.backend.drv.Allow(m.at, m.size, true, d.dev); err != nil {
		return err
	}
	m.reached = append(m.reached, d.dev)
	return nil
}

// holdIfPresent tells whether the memory has bytes. If they are in the device's memory, holdIfPresent holds the memory:
// releaseHold ends that. Otherwise the bytes are in away, and stay there until the caller releases mu, which the caller
// holds.
func (m *memory) holdIfPresent() bool {
	if m.there && !m.ended {
		m.holds++
	}
	return (m.there || m.away != nil) && !m.ended
}

// readAt copies bytes out, or returns false if the memory has none, so that all are zero.
func (m *memory) readAt(at uint64, p []byte) (bool, error) {
	m.mu.Lock()
	if m.lost != nil {
		defer m.mu.Unlock()
		return false, m.lost
	}
	if !m.holdIfPresent() {
		m.mu.Unlock()
		return false, nil
	}
	if m.away != nil {
		m.away.readAt(at, p)
		m.mu.Unlock()
		return true, nil
	}
	m.mu.Unlock()
	defer m.releaseHold()
	return true, m.device.borrowDriverStream(func(l *driverStream) error {
		return l.copyOut(m.at+backend.Addr(at), uint64(len(p)), func(part []byte) error {
			p = p[copy(p, part):]
			return nil
		})
	})
}

// readOrClear is readAt, with zeros for memory that has no bytes.
func (m *memory) readOrClear(at uint64, p []byte) error {
	some, err := m.readAt(at, p)
	if err == nil && !some {
		clear(p)
	}
	return err
}

// writeAt copies bytes in: to the host's memory if the device has no room.
func (m *memory) writeAt(at uint64, p []byte) error {
	m.markBlocks(at, uint64(len(p)), false)
	m.mu.Lock()
	err := error(nil)
	if m.away == nil {
		err = m.swapInBytes()
	}
	if backend.ResultOf(err) == backend.OutOfMemory {
		m.away, err = m.device.backend.copies.newCopy(m.size), nil
	}
	if err == nil && m.away != nil {
		err = m.away.writeAt(at, p)
		m.mu.Unlock()
		return err
	}
	if err != nil {
		m.mu.Unlock()
		return err
	}
	m.holds++
	m.mu.Unlock()
	defer m.releaseHold()
	return m.device.borrowDriverStream(func(l *driverStream) error {
		return l.copyIn(m.at+backend.Addr(at), uint64(len(p)), func(part []byte) error {
			p = p[copy(part, p):]
			return nil
		})
	})
}

// readParts gives n bytes to take, a part at a time.
func (m *memory) readParts(at, n uint64, take func(part []byte) error) error {
	p := make([]byte, min(n, partSize))
	for end := at + n; at < end; at += uint64(len(p)) {
		p = p[:min(end-at, partSize)]
		if err := m.readOrClear(at, p); err != nil {
			return err
		}
		if err := take(p); err != nil {
			return err
		}
	}
	return nil
}

// writeParts writes n bytes that give makes, a part at a time.
func (m *memory) writeParts(at, n uint64, give func(part []byte) error) error {
	p := make([]byte, min(n, partSize))
	for end := at + n; at < end; at += uint64(len(p)) {
		p = p[:min(end-at, partSize)]
		if err := give(p); err != nil {
			return err
		}
		if err := m.writeAt(at, p); err != nil {
			return err
		}
	}
	return nil
}

// clearRange makes bytes zero.
func (m *memory) clearRange(at, n uint64) error {
	m.mu.Lock()
	if !m.holdIfPresent() {
		m.mu.Unlock()
		return nil
	}
	if m.away != nil {
		defer m.mu.Unlock()
		return m.away.clearRange(at, n)
	}
	m.mu.Unlock()
	defer m.releaseHold()
	return m.device.borrowDriverStream(func(l *driverStream) error { return l.clearMemory(m.at+backend.Addr(at), n) })
}

// zeroBlock makes a block zero. After the last block, the physical memory is dropped, unless mapped says that it is
// mapped elsewhere.
func (m *memory) zeroBlock(at uint64, mapped bool) error {
	if err := m.clearRange(at, backend.Granule); err != nil {
		return err
	}
	if mapped {
		return nil
	}
	m.markBlocks(at, backend.Granule, true)
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.given, false) || m.holds > 0 {
		return nil
	}
	return m.dropPhysical()
}

// openForProgram makes the memory available to a program, which may write to all bytes.
func (m *memory) openForProgram() error {
	if err := m.ensurePresent(); err != nil {
		return err
	}
	m.markBlocks(0, m.size, false)
	return nil
}

// markBlocks notes blocks that were given back, or are used again.
func (m *memory) markBlocks(at, n uint64, given bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := at / backend.Granule; k*backend.Granule < at+n; k++ {
		m.given[k] = given
	}
}
