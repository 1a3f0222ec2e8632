// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// PinnedShares is the pinned memory of a process that the server has mapped, too: kernels reach it by the program's addresses.
// Its mu is taken before the process's.
type PinnedShares struct {
	mu    sync.RWMutex
	all   map[backend.Addr]*PinnedShare
	ended bool
}

// PinnedShare is a piece of pinned memory. A user of the bytes holds mu; they are gone when mem is nil.
type PinnedShare struct {
	mu   sync.RWMutex
	At   backend.Addr
	Mem  []byte
	File *os.File // the memory, for a server that takes over; nil until the process has come back with the file
}

// errShareEnded is the error of a copy that comes after the memory was freed.
var errShareEnded = errors.New("the pinned memory was freed")

// findShare is the share that holds n bytes at an address, or nil.
func (h *PinnedShares) findShare(a backend.Addr, n uint64) *PinnedShare {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, s := range h.all {
		if a >= s.At && uint64(a-s.At) <= uint64(len(s.Mem)) && n <= uint64(len(s.Mem))-uint64(a-s.At) {
			return s
		}
	}
	return nil
}

// Sorted lists the shares by address.
func (h *PinnedShares) Sorted() []*PinnedShare {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.SortedFunc(maps.Values(h.all), func(a, b *PinnedShare) int { return cmp.Compare(a.At, b.At) })
}

// Read copies from the program's memory, and Write copies there.
func (s *PinnedShare) Read(addr uint64, b []byte) error {
	return s.useBytes(addr, b, func(mem []byte) { copy(b, mem) })
}

// Write implements backend.HostMemory, like Read.
func (s *PinnedShare) Write(addr uint64, b []byte) error {
	return s.useBytes(addr, b, func(mem []byte) { copy(mem, b) })
}

func (s *PinnedShare) useBytes(addr uint64, b []byte, do func([]byte)) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := addr - uint64(s.At)
	if addr < uint64(s.At) || at > uint64(len(s.Mem)) || uint64(len(b)) > uint64(len(s.Mem))-at {
		return errShareEnded
	}
	do(s.Mem[at:])
	return nil
}

// unmapShare unmaps the bytes when they are not in use.
func (s *PinnedShare) unmapShare() { s.replaceBytes(nil, nil) }

// replaceBytes puts other bytes in the place of the present bytes, when those are not in use.
func (s *PinnedShare) replaceBytes(mem []byte, file *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Mem != nil {
		_ = unix.Munmap(s.Mem)
	}
	if s.File != nil {
		s.File.Close()
	}
	s.Mem, s.File = mem, file
}

// HostShare maps pinned memory that the program has as descriptor fd: memory that no process can make shorter, because
// that would end the server. The result is NOT_SUPPORTED where the program's descriptors cannot be had; then copies go
// the usual way.
func (p *Calls) HostShare(_ *dispatch.Call, h dispatch.Hostmem, n uint64, fd int32) dispatch.Result {
	pinned, ok := p.pinned.Get(h)
	if !ok || pinned.registered || n < pinned.n || n > pinned.n+(1<<16) {
		return dispatch.ResultInvalidValue
	}
	from, ok := p.Peer.(interface {
		Descriptor(fd int) (*os.File, error)
	})
	if !ok {
		return dispatch.ResultNotSupported
	}
	f, err := from.Descriptor(int(fd))
	if err != nil {
		p.Log.Warn("pinned memory is not shared: kernels will not reach it", "err", err)
		return dispatch.ResultNotSupported
	}
	mem, err := mapSealed(f, n)
	if err != nil {
		f.Close()
		p.Log.Warn("pinned memory is not shared: kernels will not reach it", "err", err)
		return dispatch.ResultInvalidValue
	}
	s := &PinnedShare{At: backend.Addr(h), Mem: mem, File: f}
	if r := p.mapShare(s); r != 0 {
		s.unmapShare()
		return r
	}
	return 0
}

// mapShare maps a piece into all spaces, and into later spaces.
func (p *Calls) mapShare(s *PinnedShare) dispatch.Result {
	p.Shares.mu.Lock()
	defer p.Shares.mu.Unlock()
	if p.Shares.ended {
		return dispatch.ResultDeinitialized
	}
	if _, used := p.Shares.all[s.At]; used || len(p.Shares.all) >= handles.Max {
		return dispatch.ResultInvalidValue
	}
	spaces := p.Spaces()
	for i, x := range spaces {
		if err := x.MapHost(s.At, s.Mem); err != nil {
			for _, y := range spaces[:i] {
				_ = y.UnmapHost(s.At)
			}
			return p.Result(err)
		}
	}
	if p.Shares.all == nil {
		p.Shares.all = map[backend.Addr]*PinnedShare{}
	}
	p.Shares.all[s.At] = s
	return 0
}

// unmapShare undoes mapShare; unmapShare waits for work that was given to a device before.
func (p *Calls) unmapShare(a backend.Addr) {
	p.Shares.mu.Lock()
	s, ok := p.Shares.all[a]
	delete(p.Shares.all, a)
	p.Shares.mu.Unlock()
	if !ok {
		return
	}
	for _, x := range p.Spaces() {
		_ = x.UnmapHost(a) // the memory may not be in this space
	}
	s.unmapShare()
}

// ShareWith maps all pinned memory of the process into a new space.
func (p *Calls) ShareWith(x *driver.Space) {
	p.Shares.mu.RLock()
	defer p.Shares.mu.RUnlock()
	for _, s := range p.Shares.all {
		if _, there := x.Lookup(s.At); there {
			continue // a concurrent mapShare knew of the space
		}
		if err := x.MapHost(s.At, s.Mem); err != nil {
			p.Log.Warn("a device does not reach pinned memory", "device", x.Ordinal, "err", err)
		}
	}
}

// EndShares is called when all spaces are closed.
func (h *PinnedShares) EndShares() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for _, s := range h.all {
		s.unmapShare()
	}
	h.all = nil
}

// AwaitShare makes a share before its process is here: graphs with its addresses are built before that.
func (p *Calls) AwaitShare(at backend.Addr, n uint64) error {
	if n == 0 || n > math.MaxInt {
		return fmt.Errorf("pinned memory of %d bytes: %w", n, driver.ErrRestore)
	}
	mem, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE) // shared: only that can be mapped a second time
	if err != nil {
		return fmt.Errorf("pinned memory of %d bytes: %w", n, err)
	}
	s := &PinnedShare{At: at, Mem: mem}
	if r := p.mapShare(s); r != 0 {
		s.unmapShare()
		return fmt.Errorf("pinned memory at %#x: %d: %w", uint64(at), r, driver.ErrRestore)
	}
	return nil
}

// Bring replaces the place that AwaitShare has made by the memory that the process has come back with. Bring may be
// called again. No work runs.
func (p *Calls) Bring(at backend.Addr, from *os.File) error {
	p.Shares.mu.Lock()
	defer p.Shares.mu.Unlock()
	s := p.Shares.all[at]
	if s == nil {
		return fmt.Errorf("no pinned memory is awaited at %#x", uint64(at))
	}
	mem, err := mapSealed(from, uint64(len(s.Mem)))
	if err != nil {
		return fmt.Errorf("pinned memory at %#x: %w", uint64(at), err)
	}
	f, err := driver.Duplicate(from)
	if err != nil {
		_ = unix.Munmap(mem)
		return err
	}
	spaces := p.Spaces()
	for i, x := range spaces {
		_ = x.UnmapHost(at) // an earlier call may have come this far
		if err := x.MapHost(at, mem); err != nil {
			for _, y := range spaces[:i] {
				_ = y.UnmapHost(at)
			}
			_ = unix.Munmap(mem)
			f.Close()
			return fmt.Errorf("pinned memory at %#x: %w", uint64(at), err)
		}
	}
	s.replaceBytes(mem, f)
	return nil
}

// mapSealed maps n bytes of a memfd of ordinary pages that cannot become shorter.
func mapSealed(f *os.File, n uint64) ([]byte, error) {
	fd, ok := driver.FileNumber(f)
	if !ok {
		return nil, os.ErrClosed
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("no memfd: %w", err)
	}
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs)); err != nil {
		return nil, err
	}
	const page = 4096
	if seals&unix.F_SEAL_SHRINK == 0 || fs.Type != unix.TMPFS_MAGIC || st.Size < 0 || uint64(st.Size) != n || n == 0 || n%page != 0 {
		return nil, fmt.Errorf("%d bytes, of %d, with seals %#x", n, st.Size, seals)
	}
	return unix.Mmap(fd, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}
