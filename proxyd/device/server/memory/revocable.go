// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// revocable is a copy that can be taken back until the copy reads or writes the first byte of the program's.
type revocable struct{ state atomic.Int32 }

const (
	copyBegun   = 1
	copyRevoked = 2
)

var errRevoked = errors.New("the copy was taken back")

// beginCopy tells whether the copy may go on.
func (r *revocable) beginCopy() error {
	if r.state.Load() != copyBegun && !r.state.CompareAndSwap(0, copyBegun) && r.state.Load() == copyRevoked {
		return errRevoked
	}
	return nil
}

// revokeCopy takes the copy back; false if the copy has begun.
func (r *revocable) revokeCopy() bool { return r.state.CompareAndSwap(0, copyRevoked) }

// memoryFor is the program's memory for this copy; nil of nil.
func (r *revocable) memoryFor(m backend.HostMemory) backend.HostMemory {
	if m == nil {
		return nil
	}
	return &revocableMemory{m, r}
}

// revocableMemory ends a copy that was taken back. The error has no Result, so there is no fault of the context.
type revocableMemory struct {
	backend.HostMemory
	copy *revocable
}

func (m *revocableMemory) Read(addr uint64, p []byte) error {
	if err := m.copy.beginCopy(); err != nil {
		return err
	}
	return m.HostMemory.Read(addr, p)
}

func (m *revocableMemory) Write(addr uint64, p []byte) error {
	if err := m.copy.beginCopy(); err != nil {
		return err
	}
	return m.HostMemory.Write(addr, p)
}
