// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"sync"
	"sync/atomic"
)

// ringHold holds a process's ring while a user of a shared device wants the ring held.
type ringHold struct {
	mu    sync.Mutex
	holds int
	open  chan struct{} // closed when the last hold ends; nil while there is no hold
	held  atomic.Bool   // open is not nil
}

// holdRing has the ring wait before its next message.
func (p *Process) holdRing() {
	v := &p.ringHold
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.holds++; v.holds == 1 {
		v.open = make(chan struct{})
		v.held.Store(true)
	}
}

// releaseRing undoes holdRing.
func (p *Process) releaseRing() {
	v := &p.ringHold
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.holds--; v.holds == 0 {
		close(v.open)
		v.open = nil
		v.held.Store(false)
	}
}

// Yield waits while the ring is held.
func (p *Process) Yield() {
	v := &p.ringHold
	if !v.held.Load() {
		return
	}
	v.mu.Lock()
	open := v.open
	v.mu.Unlock()
	if open == nil {
		return
	}
	select {
	case <-open:
	case <-p.Lifetime.Done():
	}
}
