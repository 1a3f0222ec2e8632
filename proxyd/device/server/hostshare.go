// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

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
)

// hostShares is the pinned memory of a process that the server has mapped, too: kernels reach it by the program's addresses.
// Its mu is taken before the process's.
type hostShares struct {
	mu    sync.RWMutex
	all   map[backend.Addr]*hostShare
	ended bool
}

// hostShare is a piece of it. Whoever uses the bytes holds mu; they are gone when mem is nil.
type hostShare struct {
	mu   sync.RWMutex
	at   backend.Addr
	mem  []byte
	file *os.File // the memory, for a server that takes over; nil until the process has come back with it
}

// errShareEnded is what a copy gets that comes after the memory was freed.
var errShareEnded = errors.New("the pinned memory was freed")

// find is the share that holds n bytes at an address, or nil.
func (h *hostShares) find(a backend.Addr, n uint64) *hostShare {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, s := range h.all {
		if a >= s.at && uint64(a-s.at) <= uint64(len(s.mem)) && n <= uint64(len(s.mem))-uint64(a-s.at) {
			return s
		}
	}
	return nil
}

// sorted lists them by address.
func (h *hostShares) sorted() []*hostShare {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.SortedFunc(maps.Values(h.all), func(a, b *hostShare) int { return cmp.Compare(a.at, b.at) })
}

// Read copies from the program's memory, and Write to it.
func (s *hostShare) Read(addr uint64, b []byte) error {
	return s.use(addr, b, func(mem []byte) { copy(b, mem) })
}

// Write implements backend.HostMemory, like Read.
func (s *hostShare) Write(addr uint64, b []byte) error {
	return s.use(addr, b, func(mem []byte) { copy(mem, b) })
}

func (s *hostShare) use(addr uint64, b []byte, do func([]byte)) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := addr - uint64(s.at)
	if addr < uint64(s.at) || at > uint64(len(s.mem)) || uint64(len(b)) > uint64(len(s.mem))-at {
		return errShareEnded
	}
	do(s.mem[at:])
	return nil
}

// unmap takes the bytes away when nobody uses them.
func (s *hostShare) unmap() { s.become(nil, nil) }

// become puts other bytes in the place of those that there are, when nobody uses them.
func (s *hostShare) become(mem []byte, file *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mem != nil {
		_ = unix.Munmap(s.mem)
	}
	if s.file != nil {
		s.file.Close()
	}
	s.mem, s.file = mem, file
}

// HostShare maps pinned memory that the program has as descriptor fd: memory that nobody can make shorter, for that would
// end the server. It is NOT_SUPPORTED where the program's descriptors cannot be had; then it is copied as before.
func (p *memoryCalls) HostShare(_ *dispatch.Call, h dispatch.Hostmem, n uint64, fd int32) dispatch.Result {
	pinned, ok := p.pinned.get(h)
	if !ok || pinned.registered || n < pinned.n || n > pinned.n+(1<<16) {
		return dispatch.ResultInvalidValue
	}
	from, ok := p.peer.(interface {
		Descriptor(fd int) (*os.File, error)
	})
	if !ok {
		return dispatch.ResultNotSupported
	}
	f, err := from.Descriptor(int(fd))
	if err != nil {
		p.log.Warn("pinned memory is not shared: kernels will not reach it", "err", err)
		return dispatch.ResultNotSupported
	}
	mem, err := mapSealed(f, n)
	if err != nil {
		f.Close()
		p.log.Warn("pinned memory is not shared: kernels will not reach it", "err", err)
		return dispatch.ResultInvalidValue
	}
	s := &hostShare{at: backend.Addr(h), mem: mem, file: f}
	if r := p.share(s); r != 0 {
		s.unmap()
		return r
	}
	return 0
}

// share maps a piece into all spaces, and into those that come later.
func (p *memoryCalls) share(s *hostShare) dispatch.Result {
	p.shares.mu.Lock()
	defer p.shares.mu.Unlock()
	if p.shares.ended {
		return dispatch.ResultDeinitialized
	}
	if _, used := p.shares.all[s.at]; used || len(p.shares.all) >= maxHandles {
		return dispatch.ResultInvalidValue
	}
	spaces := p.spaces()
	for i, x := range spaces {
		if err := x.MapHost(s.at, s.mem); err != nil {
			for _, y := range spaces[:i] {
				_ = y.UnmapHost(s.at)
			}
			return p.result(err)
		}
	}
	if p.shares.all == nil {
		p.shares.all = map[backend.Addr]*hostShare{}
	}
	p.shares.all[s.at] = s
	return 0
}

// unshare undoes share; it waits for work that was given to a device before.
func (p *memoryCalls) unshare(a backend.Addr) {
	p.shares.mu.Lock()
	s, ok := p.shares.all[a]
	delete(p.shares.all, a)
	p.shares.mu.Unlock()
	if !ok {
		return
	}
	for _, x := range p.spaces() {
		_ = x.UnmapHost(a) // it may be a space that it is not in
	}
	s.unmap()
}

// shareWith maps what there is into a space that is new.
func (p *memoryCalls) shareWith(x *space) {
	p.shares.mu.RLock()
	defer p.shares.mu.RUnlock()
	for _, s := range p.shares.all {
		if _, there := x.Lookup(s.at); there {
			continue // whoever shared it meanwhile knew of the space
		}
		if err := x.MapHost(s.at, s.mem); err != nil {
			p.log.Warn("a device does not reach pinned memory", "device", x.ordinal, "err", err)
		}
	}
}

// endShares is called when all spaces are closed.
func (p *memoryCalls) endShares() {
	p.shares.mu.Lock()
	defer p.shares.mu.Unlock()
	p.shares.ended = true
	for _, s := range p.shares.all {
		s.unmap()
	}
	p.shares.all = nil
}

// awaitShare makes a share whose process is not here yet: graphs that have its addresses in them are to be built before.
func (p *memoryCalls) awaitShare(at backend.Addr, n uint64) error {
	if n == 0 || n > math.MaxInt {
		return fmt.Errorf("pinned memory of %d bytes: %w", n, ErrRestore)
	}
	mem, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("pinned memory of %d bytes: %w", n, err)
	}
	s := &hostShare{at: at, mem: mem}
	if r := p.share(s); r != 0 {
		s.unmap()
		return fmt.Errorf("pinned memory at %#x: %d: %w", uint64(at), r, ErrRestore)
	}
	return nil
}

// bring puts the memory in the place of what awaitShare made that the process has come back with. It may be called again. Nothing runs.
func (p *memoryCalls) bring(at backend.Addr, from *os.File) error {
	p.shares.mu.Lock()
	defer p.shares.mu.Unlock()
	s := p.shares.all[at]
	if s == nil {
		return fmt.Errorf("no pinned memory is awaited at %#x", uint64(at))
	}
	mem, err := mapSealed(from, uint64(len(s.mem)))
	if err != nil {
		return fmt.Errorf("pinned memory at %#x: %w", uint64(at), err)
	}
	f, err := duplicate(from)
	if err != nil {
		_ = unix.Munmap(mem)
		return err
	}
	spaces := p.spaces()
	for i, x := range spaces {
		_ = x.UnmapHost(at) // a call before may have got as far
		if err := x.MapHost(at, mem); err != nil {
			for _, y := range spaces[:i] {
				_ = y.UnmapHost(at)
			}
			_ = unix.Munmap(mem)
			f.Close()
			return fmt.Errorf("pinned memory at %#x: %w", uint64(at), err)
		}
	}
	s.become(mem, f)
	return nil
}

// mapSealed maps n bytes of a memfd of ordinary pages that cannot become shorter.
func mapSealed(f *os.File, n uint64) ([]byte, error) {
	fd, ok := bare(f)
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

// Descriptor returns a descriptor of the process's.
func (w *watched) Descriptor(fd int) (*os.File, error) {
	pidfd, ok := bare(w.end)
	if !ok {
		return nil, os.ErrClosed
	}
	got, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d of process %d: %w", fd, w.pid, err)
	}
	unix.CloseOnExec(got)
	return os.NewFile(uintptr(got), "pinned"), nil
}
