// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/ledger"
)

// The window is the range where the server sees all memory, also memory of spaces that are not mapped.
const (
	windowBase = backend.DefaultBase / 2
	windowSize = uint64(windowBase)
)

// window gives each memory its addresses in the window.
type window struct {
	mu       sync.Mutex // no other lock is taken under mu
	ledger   *ledger.Ledger[struct{}]
	memories int // that have addresses
	empty    *sync.Cond
	awaited  bool // Close has come to its wait
}

func newWindow() *window {
	w := &window{ledger: ledger.New(windowBase, windowSize+backend.Granule, backend.Granule, func(backend.Addr, uint64) (struct{}, error) { return struct{}{}, nil })}
	w.empty = sync.NewCond(&w.mu)
	return w
}

// placeMemory takes addresses for a memory of this size.
func (w *window) placeMemory(size uint64) (backend.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, err := w.ledger.Reserve(size, 0, 0)
	if err == nil {
		w.memories++
	}
	return at, err
}

// forgetMemory gives the addresses of a memory back. The driver has no mapping there any more.
func (w *window) forgetMemory(m *memory) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.ledger.Unreserve(m.at, m.size) // reserved, and a memory is ended once
	if w.memories--; w.memories == 0 {
		w.empty.Broadcast()
	}
}

// waitEmpty waits until no memory has addresses in the window. Then no call of the driver that names a memory is
// under way, and no such call will be made.
func (w *window) waitEmpty() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.awaited = true; w.memories > 0; {
		w.empty.Wait()
	}
}
