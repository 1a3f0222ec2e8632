// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Space is a device as a process sees it.
type Space struct {
	backend.Space
	process *Process
	Ordinal int32
	Device  *Device
	Owner   uint64 // see OwnerNumbers
	base    backend.Addr
	size    uint64 // of addresses

	turns  atomic.Pointer[TimeSlices] // the turns that the space takes part in; lockTurns reads it
	paused bool                       // like moving, of these turns
	moving bool                       // to another device, and must not be mapped meanwhile

	mu      sync.Mutex
	peers   map[*Space]int // into the memory of a peer kernels here may follow pointers; the number of contexts that said so
	reached map[*Space]bool
}

// maxOwned is how many spaces of a process had numbers of their own in releases before OwnerNumbers.
const maxOwned = 16

// newSpace makes a space that takes part in the turns on its device. If the process is being restored, the space takes
// part when the restore is over.
func (p *Process) newSpace(ordinal int32) (*Space, error) {
	d := p.deviceAt(ordinal)
	var state *backend.State
	if p.Restoring != nil {
		state = p.Restoring.SpaceState(ordinal)
	}
	base, size, err := chooseAddresses(p, ordinal, state)
	if err != nil {
		return nil, err
	}
	owner, err := chooseOwner(p, ordinal)
	if err != nil {
		return nil, fmt.Errorf("device %d: %w", ordinal, err)
	}
	s := &Space{
		process: p, Ordinal: ordinal, Device: d, Owner: owner, base: base, size: size, peers: map[*Space]int{}, reached: map[*Space]bool{},
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	s.turns.Store(d.at.TimeSlices)
	b, err := d.at.NewSpace(backend.SpaceConfig{
		Base: base, Size: size, Owner: owner, Memory: d.Info().Memory, Group: p.Sharing.Group, Output: p.Output.PrintText, State: state, Changed: func() { s.turns.Load().wakeRunner() },
	})
	if err != nil {
		p.owners.ReleaseNumber(owner)
		return nil, fmt.Errorf("device %d: %w", ordinal, err)
	}
	s.Space = b
	if p.Restoring == nil {
		s.joinTurns()
	}
	return s, nil
}

// chooseAddresses returns the addresses of a new space: of the ranges that the job has for its devices, in their order.
//
// On software GPUs the first space of a process has the first range, and so on. So the same program has the same addresses
// whichever of the job's devices the program sees or chooses, and the kernels of such ranks can run once. Where spaces with the
// same addresses could not be mapped at the same time, a space has the range of its device among the job's, so that processes
// on several devices have several ranges. A space that comes back from a checkpoint has the addresses that it had.
func chooseAddresses(p *Process, ordinal int32, state *backend.State) (base backend.Addr, size uint64, err error) {
	d := p.deviceAt(ordinal)
	_, mayOverlap := d.Place().Device.(backend.Overlapper)
	ranges := p.JobDevices
	switch {
	case state != nil:
	case mayOverlap:
		ranges = ranges[:len(p.View)]
	default:
		ranges = []*Device{d}
	}
	for _, r := range ranges {
		if r.Size == d.Size && !hasSpaceAt(p, r.Base) && (state == nil || r.Base == state.Base) {
			return r.Base, r.Size, nil
		}
	}
	if state == nil {
		return 0, 0, fmt.Errorf("device %d: no addresses are left: %w", ordinal, backend.OutOfMemory)
	}
	return 0, 0, fmt.Errorf("device %d has no addresses at %#x: %w", ordinal, uint64(state.Base), ErrRestore)
}

// chooseOwner returns the number of a new space. A space that comes back from a checkpoint has the number that it had.
func chooseOwner(p *Process, ordinal int32) (uint64, error) {
	if p.Restoring == nil || p.Restoring.SpaceState(ordinal) == nil {
		return p.owners.TakeNumber(p.Sharing.Group, p.capsule), nil
	}
	number := p.Restoring.SpaceOwner(ordinal)
	if number == 0 { // an older release wrote no numbers, and derived them so
		number = p.ID*maxOwned + uint64(ordinal) + 1
	}
	return number, p.owners.ClaimNumber(p.Sharing.Group, number)
}

// hasSpaceAt tells whether a space of the process begins at an address. The caller holds the process's mu, or has the process for
// itself.
func hasSpaceAt(p *Process, base backend.Addr) bool {
	return slices.ContainsFunc(p.devices, func(d deviceState) bool { return d.space != nil && d.space.base == base })
}

// JoinTimeSlices has the spaces of a restored process take part in the turns: no call from here on may name a missing
// object.
func (p *Process) JoinTimeSlices() {
	for i := range p.devices {
		if s := p.devices[i].space; s != nil {
			s.joinTurns()
		}
	}
}

// End frees all that is in the space. End may be called once.
func (s *Space) End() {
	s.leaveTurns(func() {
		_ = s.Close() // only a second Close gets an error
		s.process.owners.ReleaseNumber(s.Owner)
	})
}

// Allow lets kernels of s follow pointers into another space, for another context.
func (s *Space) Allow(peer *Space) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allowPeer(peer)
}

// allowPeer is Allow; the caller holds mu.
func (s *Space) allowPeer(peer *Space) error {
	if s.peers[peer] == 0 {
		if err := s.AllowPeer(peer.Space); err != nil {
			return err
		}
	}
	s.peers[peer]++
	return nil
}

// Reach is Allow for the rest of the space's life: for a caller that may repeat the call, and never takes it back.
func (s *Space) Reach(peer *Space) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reached[peer] {
		return nil
	}
	if err := s.allowPeer(peer); err != nil {
		return err
	}
	s.reached[peer] = true
	return nil
}

// CanReach tells whether kernels of s may follow pointers into another space.
func (s *Space) CanReach(peer *Space) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers[peer] > 0
}

// denyPeer undoes allowPeer.
func (s *Space) denyPeer(peer *Space) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.peers[peer] {
	case 0:
		return fmt.Errorf("device %d: %w", peer.Ordinal, backend.PeerAccessNotEnabled)
	case 1:
		delete(s.peers, peer)
		return s.DenyPeer(peer.Space)
	}
	s.peers[peer]--
	return nil
}
