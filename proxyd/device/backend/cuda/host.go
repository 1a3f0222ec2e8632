// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"fmt"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// host is memory of a program that devices reach under the program's address. The driver has host memory reached under its own
// address, so the memory is mapped in this process once more, at the program's address, and registered there for all
// devices.
type host struct {
	at     backend.Addr
	mem    []byte
	ctx    driver.Context // in which the memory was registered
	spaces map[*space]bool
}

const pageSize = 4096

// MapHost implements backend.Memory.
func (s *space) MapHost(a backend.Addr, mem []byte) error {
	bad := fmt.Errorf("map host memory at %#x: %w", uint64(a), backend.InvalidValue)
	n := backend.Addr(len(mem))
	if n == 0 || a%pageSize != 0 || n%pageSize != 0 || a+n < a || a < s.cfg.Base+backend.Addr(s.size) && a+n > s.cfg.Base {
		return bad
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case len(s.ledger.Within(a, uint64(n))) > 0:
		return bad
	}
	if err := s.device.backend.shareHost(s, a, mem); err != nil {
		return fmt.Errorf("map host memory at %#x: %w", uint64(a), err)
	}
	s.ledger.Insert(backend.Allocation{Base: a, Size: uint64(n), Kind: backend.Host, Access: true})
	return nil
}

// shareHost registers host memory for a space, once for all spaces of its program.
func (b *Backend) shareHost(s *space, a backend.Addr, mem []byte) error {
	if s.device.info.Attributes[backend.HostPointerForRegistered] == 0 {
		return fmt.Errorf("%s reaches registered memory under other addresses only: %w", s.device.info.Name, backend.NotSupported)
	}
	b.hostMu.Lock()
	defer b.hostMu.Unlock()
	if h := b.hosts[a]; h != nil {
		if unsafe.SliceData(h.mem) != unsafe.SliceData(mem) || len(h.mem) != len(mem) {
			return fmt.Errorf("another program has the address: %w", backend.InvalidValue)
		}
		h.spaces[s] = true
		return nil
	}
	if err := driver.Alias(mem, a); err != nil {
		return err
	}
	if err := b.drv.Register(s.device.ctx, a, uint64(len(mem))); err != nil {
		driver.Unalias(a, uint64(len(mem)))
		return err
	}
	b.hosts[a] = &host{a, mem, s.device.ctx, map[*space]bool{s: true}}
	return nil
}

// unshareHost is shareHost's reverse. The caller holds hostMu.
func (b *Backend) unshareHost(s *space, h *host) error {
	if delete(h.spaces, s); len(h.spaces) > 0 {
		return nil
	}
	delete(b.hosts, h.at)
	err := b.drv.Unregister(h.ctx, h.at)
	driver.Unalias(h.at, uint64(len(h.mem)))
	return err
}

// releaseHosts unshares the host memory of a space that is closed.
func (b *Backend) releaseHosts(s *space) {
	b.hostMu.Lock()
	defer b.hostMu.Unlock()
	for _, h := range b.hosts {
		if h.spaces[s] {
			_ = b.unshareHost(s, h) // the mapping goes in any case
		}
	}
}

// UnmapHost implements backend.Memory.
func (s *space) UnmapHost(a backend.Addr) error {
	s.mu.Lock()
	x, found := s.ledger.At(a)
	if !found || x.Kind != backend.Host {
		s.mu.Unlock()
		return fmt.Errorf("unmap host memory at %#x: none is mapped there: %w", uint64(a), backend.InvalidValue)
	}
	s.ledger.Remove(a)
	s.mu.Unlock()
	for _, m := range s.pendingWork() {
		if m.waitFor(s.ctx) != nil {
			return errClosed
		}
	}
	b := s.device.backend
	b.hostMu.Lock()
	defer b.hostMu.Unlock()
	if h := b.hosts[a]; h != nil && h.spaces[s] {
		return b.unshareHost(s, h)
	}
	return nil
}

// hostBytes is host memory that devices reach, or nil.
func (s *space) hostBytes(a backend.Addr, n uint64) []byte {
	s.mu.Lock()
	x, ok := s.ledger.Lookup(a)
	s.mu.Unlock()
	if !ok || x.Kind != backend.Host || uint64(a-x.Base)+n > x.Size {
		return nil
	}
	b := s.device.backend
	b.hostMu.Lock()
	defer b.hostMu.Unlock()
	h := b.hosts[x.Base]
	if h == nil {
		return nil
	}
	return h.mem[a-x.Base:][:n:n]
}
