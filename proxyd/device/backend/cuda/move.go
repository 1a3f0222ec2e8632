// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// A space moves to another device while it is not mapped, so that none of its work is under way:
//
//	lock       all calls that use the space's memory or contexts wait
//	rehearse   the contexts are made on the new device for another owner (rehearseMove): whatever the driver would refuse
//	           is found here, also a variable that would not be where it was. They keep the room for the contexts until these are made
//	stage      memory is copied to the new device, or to the host's memory as in a swap where there is no room
//	replace    the old contexts end, and are made on the new device, where the driver puts variables into the same
//	           addresses, which are free now
//	adopt      the copies take the place of the memory, and the old memory ends
//
// Up to stage, the space is as it was when a step fails. If replace fails, the contexts are made on the old device
// again. If that fails too, they have a fault.
type move struct {
	*space
	from, to  *device
	locked    []func() // undo the locks, the last first
	contexts  []*cudaContext
	memories  []*memory
	staged    map[*memory]*memory // the copy on the new device
	rehearsal []*contextObjects
	allowed   []*space // peers that let the new device use their memory
	saved     map[savedVariable][]byte
}

// savedVariable names a variable while its module's objects are made again.
type savedVariable struct {
	module *module
	name   string
}

// Move implements backend.Mover.
func (s *space) Move(to backend.Device) error {
	d, ok := to.(*device)
	if !ok || d.backend != s.device.backend {
		return fmt.Errorf("move: %w", backend.InvalidValue)
	}
	if err := s.checkSaved(); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	if err := d.serviceContext(); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	if !s.steady.TryLock() {
		return fmt.Errorf("move: a call makes or ends an object: %w", backend.NotReady)
	}
	defer s.steady.Unlock()
	if s.isMapped() {
		return fmt.Errorf("move: the space is mapped: %w", backend.AlreadyMapped)
	}
	m := &move{space: s, from: s.currentDevice(), to: d, staged: map[*memory]*memory{}, saved: map[savedVariable][]byte{}}
	if m.from == d {
		return nil
	}
	defer m.unlockAll()
	if err := m.lockContexts(); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	if err := m.lockMemory(); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	if err := m.moveSpace(); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	return nil
}

func (s *space) isMapped() bool {
	b := s.device.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mapped[s]
}

// currentDevice is the device that the space is on. The field device is the device on which the space was made.
func (s *space) currentDevice() *device { return s.at.Load() }

// countObject numbers the space's contexts and modules.
func (s *space) countObject() uint64 { return s.objects.Add(1) }

func (m *move) unlockAll() {
	for _, unlock := range slices.Backward(m.locked) {
		unlock()
	}
}

// lockContexts locks the space, and its contexts against all calls of the driver.
func (m *move) lockContexts() error {
	m.contexts = m.allContexts() // they stay the same, because steady is locked
	slices.SortFunc(m.contexts, func(a, b *cudaContext) int { return cmp.Compare(a.ID(), b.ID()) })
	for _, c := range m.contexts {
		c.moving.Lock()
		c.mu.Lock()
		m.locked = append(m.locked, c.moving.Unlock, c.mu.Unlock)
	}
	m.mu.Lock()
	m.locked = append(m.locked, m.mu.Unlock)
	if m.closed {
		return errClosed
	}
	for _, c := range m.contexts {
		c.ending.Lock()
		m.locked = append(m.locked, c.ending.Unlock)
		if err := c.CheckUsable(); err != nil {
			return err
		}
		for x := range c.modules {
			if x.IsUnloaded() {
				return fmt.Errorf("queued work uses a module that was unloaded: %w", backend.NotReady)
			}
		}
	}
	return nil
}

// lockMemory locks the space's memory. Memory of a collective that is under way stays where it is.
func (m *move) lockMemory() error {
	m.memories = m.from.memoriesOf(m.space)
	for _, x := range m.memories {
		x.mu.Lock()
		m.locked = append(m.locked, x.mu.Unlock)
		if x.holds > 0 {
			return fmt.Errorf("a collective or a copy uses memory: %w", backend.NotReady)
		}
		if x.lost != nil {
			return x.lost
		}
	}
	return nil
}

// moveSpace moves the space. Its calls wait.
func (m *move) moveSpace() error {
	if err := m.keepTimes(); err != nil {
		return err
	}
	m.device.backend.rehearsing.Lock()
	defer m.device.backend.rehearsing.Unlock()
	err := m.allowPeers()
	if err == nil {
		err = m.rehearseMove()
	}
	if err == nil {
		err = m.stageMemory()
	}
	if err == nil {
		err = m.saveVariables()
	}
	if e := m.endRehearsal(); err == nil {
		err = e
	}
	if err == nil {
		err = m.replaceContexts()
	}
	if err != nil {
		return errors.Join(err, m.endStaged(), m.denyPeers(m.allowed, m.to))
	}
	m.adoptMemory()
	m.at.Store(m.to)
	// The old memory ends, and an error there is none of the space's.
	_ = errors.Join(m.endStaged(), m.denyPeers(m.peers, m.from))
	return nil
}

// keepTimes finds the times of the program's events, because the driver's events end.
func (m *move) keepTimes() error {
	for _, c := range m.contexts {
		for e := range c.events {
			x, err := e.currentMark()
			if err != nil || x == nil || !x.timing || !allIssued([]*mark{x}) {
				continue
			}
			if err := c.clock.keepTime(x); err != nil {
				return fmt.Errorf("time of an event: %w", err)
			}
		}
	}
	return nil
}

// allowPeers lets the new device use the memory of spaces that the space's kernels see, and checks that spaces which see
// the space's memory will reach the new device.
func (m *move) allowPeers() error {
	for _, d := range m.view.devicesSeeing() {
		if d != m.to {
			if err := d.checkPeer(m.to); err != nil {
				return err
			}
		}
	}
	for _, p := range m.peers {
		if on := p.currentDevice(); on != m.to {
			if err := m.to.checkPeer(on); err != nil {
				return err
			}
		}
		if err := p.view.allowDevice(m.to); err != nil {
			return errors.Join(err, p.view.denyDevice(m.to))
		}
		m.allowed = append(m.allowed, p)
	}
	return nil
}

// denyPeers takes back that a device may use the memory of peers.
func (m *move) denyPeers(peers []*space, d *device) error {
	var errs []error
	for _, p := range peers {
		errs = append(errs, p.view.denyDevice(d))
	}
	return errors.Join(errs...)
}

// stageMemory copies memory to the new device, or to the host's memory.
func (m *move) stageMemory() error {
	for _, x := range m.memories {
		if !x.there || x.ended {
			continue
		}
		if x.kept.Load() {
			if err := x.dropPhysical(); err != nil {
				return err
			}
			continue
		}
		staged, err := x.copyToDevice(m.to)
		switch {
		case err == nil:
			m.staged[x] = staged
		case backend.ResultOf(err) == backend.OutOfMemory:
			if x.swapOutLocked() == 0 {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

// copyToDevice makes a copy of the memory on another device. The caller holds mu, and the memory is there.
func (m *memory) copyToDevice(d *device) (*memory, error) {
	x, err := d.newMemory(m.size, nil, 0)
	if err != nil {
		return nil, err
	}
	err = x.holdPresent()
	if err == nil {
		err = m.copyHeld(x, 0, 0, m.size, m.reachLocked(d) == nil)
		x.releaseHold()
	}
	if err != nil {
		return nil, errors.Join(err, x.endMemory())
	}
	return x, nil
}

// adoptMemory has the memory be on the new device. The copies become what the memory was.
func (m *move) adoptMemory() {
	for _, x := range m.memories {
		if x.ended {
			continue
		}
		m.from.removeMovable(x)
		if c := m.staged[x]; c != nil {
			m.to.removeMovable(c)
			c.mu.Lock()
			x.at, c.at = c.at, x.at
			x.handle, c.handle = c.handle, x.handle
			x.reached, c.reached = c.reached, x.reached
			c.device = m.from
			c.mu.Unlock()
		}
		x.device = m.to
		m.to.enterMovable(x)
	}
}

// endStaged ends the copies, or after adoptMemory what the memory was.
func (m *move) endStaged() error {
	var errs []error
	for _, x := range m.staged {
		errs = append(errs, x.endMemory())
	}
	return errors.Join(errs...)
}
