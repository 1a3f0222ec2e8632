// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// space is what a process sees as one device.
type space struct {
	backend.Space
	process *core
	ordinal int32
	device  *device
	base    backend.Addr
	size    uint64 // of addresses

	mu      sync.Mutex
	peers   map[*space]int // whose memory kernels here may follow pointers into, and how many contexts said so
	reached map[*space]bool
}

// newSpace makes a space and has it take part in the turns on its device, unless the process is being restored: it does when that
// is over.
func (p *core) newSpace(ordinal int32) (*space, error) {
	d := p.device(ordinal)
	base := p.jobDevices[ordinal].base // not that of d: the same program has the same addresses, whichever devices it sees
	var state *backend.State
	if p.rebuild != nil {
		state = p.rebuild.SpaceState(ordinal)
	}
	b, err := d.NewSpace(backend.SpaceConfig{
		Base: base, Memory: d.Info().Memory, Output: p.output.print, State: state,
	})
	if err != nil {
		return nil, fmt.Errorf("device %d: %w", ordinal, err)
	}
	s := &space{
		Space: b, process: p, ordinal: ordinal, device: d, base: base, size: backend.SpaceSize(d.Info().Memory), peers: map[*space]int{}, reached: map[*space]bool{},
	}
	if p.rebuild == nil {
		d.turns.join(s)
	}
	return s, nil
}

// joinTurns has the spaces of a restored process take part in the turns: nothing that is made from here on may name what is not there.
func (p *core) joinTurns() {
	for i := range p.devices {
		if s := p.devices[i].space; s != nil {
			s.device.turns.join(s)
		}
	}
}

// close frees all that is in the space. It may be called once.
func (s *space) close() {
	s.device.turns.leave(s, func() {
		_ = s.Close() // only who closes twice gets an error
	})
}

// allow lets kernels of s follow pointers into another space, for one context more.
func (s *space) allow(peer *space) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allowed(peer)
}

// allowed is allow; the caller holds mu.
func (s *space) allowed(peer *space) error {
	if s.peers[peer] == 0 {
		if err := s.AllowPeer(peer.Space); err != nil {
			return err
		}
	}
	s.peers[peer]++
	return nil
}

// reach is allow for good: for who says it more than once, and never that it is over.
func (s *space) reach(peer *space) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reached[peer] {
		return nil
	}
	if err := s.allowed(peer); err != nil {
		return err
	}
	s.reached[peer] = true
	return nil
}

// sees tells whether kernels of s may follow pointers into another space.
func (s *space) sees(peer *space) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers[peer] > 0
}

// deny takes back what allow gave.
func (s *space) deny(peer *space) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.peers[peer] {
	case 0:
		return fmt.Errorf("device %d: %w", peer.ordinal, backend.PeerAccessNotEnabled)
	case 1:
		delete(s.peers, peer)
		return s.DenyPeer(peer.Space)
	}
	s.peers[peer]--
	return nil
}
