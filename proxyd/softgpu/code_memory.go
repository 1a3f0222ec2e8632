// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Code takes memory of the node, and no device's: the image, the syntax tree of its text, and the instructions of
// kernels, which become machine code at the first launch. The sum of all modules of a backend is bounded. Memory of a
// module that is unloaded is free when no work and no handle refers to the module any more.

// Estimates of the memory for code, as measured: text becomes a syntax tree, unless its kernels are compiled later, and
// each instruction has a tree, an operation, and machine code with its exits.
const (
	treeBytes        = 16      // for a byte of text
	instructionBytes = 3 << 10 // for an instruction of a kernel
)

// codeMemory counts the memory that the code of a backend's modules takes. It is safe for concurrent use.
type codeMemory struct {
	limit uint64

	mu    sync.Mutex
	used  uint64
	freed chan struct{} // has an element when memory was freed
}

// newCodeMemory returns a codeMemory with a limit; 0: half of the node's memory.
func newCodeMemory(limit uint64) *codeMemory {
	var info unix.Sysinfo_t
	if limit == 0 && unix.Sysinfo(&info) == nil {
		limit = info.Totalram * uint64(info.Unit) / 2
	}
	return &codeMemory{limit: limit, freed: make(chan struct{}, 1)}
}

// codeShare is the memory that the code of a module takes. It is counted until no work and no handle refers to the
// module.
type codeShare struct {
	memory *codeMemory
	used   *uint64 // needs memory.mu

	mu      sync.Mutex
	kernels map[string]bool // that are counted
}

// reserveShare returns the share of a module that is to be loaded, if there is room for n bytes.
func (m *codeMemory) reserveShare(n uint64) (*codeShare, error) {
	if err := m.awaitRoom(n); err != nil {
		return nil, err
	}
	s := &codeShare{memory: m, used: new(uint64), kernels: map[string]bool{}}
	runtime.AddCleanup(s, m.freeShare, s.used)
	s.countBytes(n)
	return s, nil
}

// findKernel is program.findKernel of the module's program, and counts each kernel once. A kernel is not compiled when there
// is no room for code.
func (s *codeShare) findKernel(p program, name string) (kernel, backend.Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.kernels[name] {
		if err := s.memory.awaitRoom(1); err != nil {
			return nil, backend.Log{Error: err.Error() + "\n"}, fmt.Errorf("kernel %s: %w", name, err)
		}
	}
	k, log, err := p.findKernel(name)
	if err == nil && !s.kernels[name] {
		s.kernels[name] = true
		s.countBytes(uint64(k.kernelFacts().operations) * instructionBytes)
	}
	return k, log, err
}

// countBytes counts n bytes more for the share's module.
func (s *codeShare) countBytes(n uint64) {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.memory.used += n
	*s.used += n
}

// freeShare is called when no object refers to a share any more.
func (m *codeMemory) freeShare(used *uint64) {
	m.mu.Lock()
	m.used -= *used
	m.mu.Unlock()
	select {
	case m.freed <- struct{}{}:
	default:
	}
}

// freeTries is how often awaitRoom has the garbage collector free unused code before other code is refused, and
// freeWait how long the collector may take to report freed code.
const (
	freeTries = 3
	freeWait  = 50 * time.Millisecond
)

// awaitRoom returns nil if there is room for n bytes, perhaps after unused code was freed.
func (m *codeMemory) awaitRoom(n uint64) error {
	for range freeTries {
		if m.hasRoom(n) {
			return nil
		}
		runtime.GC()
		for !m.hasRoom(n) && m.awaitFreed() {
		}
	}
	if m.hasRoom(n) {
		return nil
	}
	return fmt.Errorf("the code of all modules would take more than the %d MiB of memory that it may take: %w", m.limit>>20, backend.OutOfMemory)
}

func (m *codeMemory) hasRoom(n uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return n <= m.limit && m.used <= m.limit-n
}

// awaitFreed waits until code is freed, and returns false if no code is freed within freeWait.
func (m *codeMemory) awaitFreed() bool {
	t := time.NewTimer(freeWait)
	defer t.Stop()
	select {
	case <-m.freed:
		return true
	case <-t.C:
		return false
	}
}
