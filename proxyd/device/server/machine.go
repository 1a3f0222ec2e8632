// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// Machine is the devices of a backend, and the turns that spaces take on each. A Machine carries one Server, or several,
// each of which has the capsule of its own: see Tenants. Spaces of all these take turns, swap for each other, and have equal
// memory in common, as the spaces of one Server do.
type Machine struct {
	backend    backend.Backend
	timeSlices []*driver.TimeSlices // of each device of the backend
	epoch      time.Time            // about when the backend's clock began
	restored   restoredBlocks
	servers    atomic.Uint64 // that were made, in all
	owners     driver.OwnerNumbers
	moving     sync.Mutex // held while spaces of a server move: a move has the turns of two devices
	rungsMu    sync.Mutex
	rungs      []string // of each device, when several spaces were on the device last: see SharingStatus.Rung
}

// NewMachine makes a Machine of a backend, which Close closes.
func NewMachine(b backend.Backend) *Machine {
	m := &Machine{backend: b, epoch: time.Now()}
	for range b.Devices() {
		m.timeSlices = append(m.timeSlices, driver.NewTimeSlices())
	}
	m.rungs = make([]string, len(m.timeSlices))
	return m
}

// Close closes the backend. All servers of the machine must be closed before.
func (m *Machine) Close() error { return m.backend.Close() }

// placeAt is a device of the backend, with its turns.
func (m *Machine) placeAt(i int) driver.Place {
	return driver.Place{Device: m.backend.Devices()[i], TimeSlices: m.timeSlices[i]}
}

// restoredBlocks finds blocks of memory that servers of a machine were restored with, by their content. A server of a
// job that was restored and has not gone on yet holds the bytes of its save, since no program of the job can write
// there. So the next server that is restored can have the same bytes in common with it, and the machine holds them
// once. The servers' own hashes are of no use for that: each save has a key of its own.
type restoredBlocks struct {
	mu     sync.Mutex
	hasher cipher.AEAD // nil: a machine that holds nothing in common, or of a single server, which knows itself which blocks are alike
	blocks map[backend.Hash][]restoredBlock
}

// restoredBlock is a block that a server was restored with.
type restoredBlock struct {
	of *Server
	target
}

// canHoldInCommon tells whether equal blocks of several spaces can be there once.
func (m *Machine) canHoldInCommon() bool {
	for _, d := range m.backend.Devices() {
		if _, can := d.(backend.BlockSharer); can {
			return true
		}
	}
	return false
}

// shareRestored has the machine find the blocks that its servers are restored with.
func (m *Machine) shareRestored() error {
	var key [32]byte
	_, _ = rand.Read(key[:]) // rand.Read never fails
	c, err := aes.NewCipher(key[:])
	if err != nil {
		return err
	}
	r := &m.restored
	if r.hasher, err = cipher.NewGCM(c); err != nil {
		return err
	}
	r.blocks = map[backend.Hash][]restoredBlock{}
	return nil
}

// sumOf is the hash of a block under the machine's key: GMAC, as saves have it.
func (r *restoredBlocks) sumOf(p []byte) (sum backend.Hash) {
	var nonce [12]byte
	r.hasher.Seal(sum[:0], nonce[:], nil, p)
	return sum
}

// writeTargets writes a block's bytes to where they belong in a server that is being restored. One block is written at a time,
// also by servers that are restored at once: a device does not let a block be held in common while another block of its space
// is written. And no server of alike goes on before the blocks are written.
func (r *restoredBlocks) writeTargets(s *Server, to []target, p []byte) error {
	if r.hasher == nil {
		return writeTargets(to, nil, p)
	}
	sum := r.sumOf(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := writeTargets(to, r.findInOtherServers(s, sum), p); err != nil {
		return err
	}
	for _, t := range to {
		r.blocks[sum] = append(r.blocks[sum], restoredBlock{s, t})
	}
	return nil
}

// findInOtherServers are the blocks of other servers with a hash. The caller holds mu.
func (r *restoredBlocks) findInOtherServers(s *Server, sum backend.Hash) (alike []target) {
	for _, b := range r.blocks[sum] {
		if b.of != s {
			alike = append(alike, b.target)
		}
	}
	return alike
}

// forgetServer forgets the blocks that a server was restored with: from here on its job may write there.
func (r *restoredBlocks) forgetServer(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for sum, all := range r.blocks {
		var left []restoredBlock
		for _, b := range all {
			if b.of != s {
				left = append(left, b)
			}
		}
		if len(left) == 0 {
			delete(r.blocks, sum)
			continue
		}
		r.blocks[sum] = left
	}
}
