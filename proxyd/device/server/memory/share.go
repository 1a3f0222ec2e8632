// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// imports is memory of other processes that a process has opened.
type imports struct {
	mu  sync.Mutex
	all map[backend.Addr]*importedMemory
}

// importedMemory is an allocation of another process, at an address of this process.
type importedMemory struct {
	context *driver.Context
	share   backend.Share
	opened  int  // number of opens without a close
	pooled  bool // from a pool: freed like the process's own memory
}

// ImportState is imported memory in a save, beside the state of its space.
type ImportState struct {
	Address backend.Addr     `json:"address"`
	Context dispatch.Context `json:"context"`
	Share   backend.Share    `json:"share"`
	Opened  int              `json:"opened"`
	Pooled  bool             `json:"pooled,omitempty"`
}

// shareLength is how long a backend.Share is in a handle.
const shareLength = 16 + 8

// IpcShare implements dispatch.Backend, as all below. An address inside of an allocation stands for the allocation.
func (p *Calls) IpcShare(c *dispatch.Call, ptr dispatch.Devptr) (handle dispatch.Ipchandle, r dispatch.Result) {
	x, r := p.Current(c)
	if r != 0 {
		return handle, r
	}
	s := p.SpaceAt(backend.Addr(ptr))
	if s == nil {
		return handle, dispatch.ResultInvalidValue
	}
	if a, ok := s.Lookup(backend.Addr(ptr)); !ok || a.Kind != backend.Plain {
		return handle, dispatch.ResultInvalidValue
	}
	if s != x.Space {
		if x = p.anyContext(s); x == nil {
			return handle, dispatch.ResultInvalidValue // its memory went with its contexts
		}
	}
	with := x.Sharer()
	if with == nil {
		return handle, dispatch.ResultNotSupported
	}
	share, err := with.Export(backend.Addr(ptr))
	if err != nil {
		return handle, p.Result(err)
	}
	handle.Bytes = p.Sharing.EncodeHandle(driver.MemoryHandle, binary.LittleEndian.AppendUint64(share.Memory[:], share.Number))
	return handle, 0
}

// IpcOpen opens memory of another process. A context that opens the same memory again gets the same address; a second
// context of the same device may not open it, as CUDA has it.
func (p *Calls) IpcOpen(c *dispatch.Call, handle dispatch.Ipchandle, flags uint32) (dispatch.Devptr, dispatch.Result) {
	const lazyPeers = 1 // must be
	x, r := p.Current(c)
	switch {
	case r != 0:
		return 0, r
	case flags != lazyPeers:
		return 0, dispatch.ResultInvalidValue
	}
	content, r := p.Sharing.DecodeHandle(driver.MemoryHandle, handle.Bytes, shareLength)
	if r != 0 {
		return 0, r
	}
	return p.openShare(c, x, parseShare(content), false)
}

// parseShare is the share that a handle's content begins with.
func parseShare(content []byte) backend.Share {
	return backend.Share{Memory: backend.ShareID(content[:16]), Number: binary.LittleEndian.Uint64(content[16:])}
}

// openShare opens memory of another process, which may be memory of a pool.
func (p *Calls) openShare(c *dispatch.Call, x *driver.Context, share backend.Share, pooled bool) (dispatch.Devptr, dispatch.Result) {
	from, r := p.findExporter(share)
	if r != 0 {
		return 0, r
	}
	wanted := importedMemory{x, share, 1, pooled}
	if at, r, is := p.imports.reopenImport(wanted, 0); is {
		return at, r
	}
	with := x.Sharer()
	if with == nil {
		return 0, dispatch.ResultNotSupported
	}
	p.BeginWait(c)
	at, err := with.Import(from.Space, share)
	if err != nil {
		return 0, p.Result(err)
	}
	// Another thread may have opened the same memory meanwhile.
	first, r, is := p.imports.reopenImport(wanted, at)
	if is {
		_ = with.CloseImport(at) // it is there
	}
	return first, r
}

// reopenImport opens memory again that a context has opened; is is false if no context of its space has. Then the
// memory is at an address from now on, unless that is 0.
func (m *imports) reopenImport(x importedMemory, at backend.Addr) (first dispatch.Devptr, r dispatch.Result, is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for first, known := range m.all {
		switch {
		case known.share != x.share || known.context.Space != x.context.Space:
			continue
		case known.context != x.context && !x.pooled:
			return 0, dispatch.ResultInvalidContext, true
		}
		known.opened++
		return dispatch.Devptr(first), 0, true
	}
	if at != 0 {
		m.addImport(at, &x)
	}
	return dispatch.Devptr(at), 0, false
}

// addImport enters imported memory. The caller holds mu.
func (m *imports) addImport(at backend.Addr, x *importedMemory) {
	if m.all == nil {
		m.all = map[backend.Addr]*importedMemory{}
	}
	m.all[at] = x
}

// findExporter finds the space that has exported memory: INVALID_HANDLE if no process has the memory any more,
// INVALID_CONTEXT if the space is of this process.
func (p *Calls) findExporter(share backend.Share) (*driver.Space, dispatch.Result) {
	for _, other := range p.processes() {
		if other.IsGone() {
			continue
		}
		for _, s := range other.Spaces() {
			h, ok := s.Space.(backend.ShareHolder)
			if !ok {
				continue
			}
			if _, found := h.Exported(share); !found {
				continue
			}
			if other == p.Process {
				return nil, dispatch.ResultInvalidContext
			}
			return s, 0
		}
	}
	return nil, dispatch.ResultInvalidHandle
}

func (p *Calls) IpcCloseMemHandle(_ *dispatch.Call, ptr dispatch.Devptr) dispatch.Result {
	p.imports.mu.Lock()
	defer p.imports.mu.Unlock()
	m := p.imports.all[backend.Addr(ptr)]
	if m == nil || m.pooled {
		return dispatch.ResultInvalidValue
	}
	return p.closeImport(backend.Addr(ptr), m)
}

// closeImport closes memory that was opened. The caller holds imports.mu.
func (p *Calls) closeImport(at backend.Addr, m *importedMemory) dispatch.Result {
	if m.opened > 1 {
		m.opened--
		return 0
	}
	delete(p.imports.all, at)
	p.Buffers.forgetFreed(at)
	return p.Result(m.context.Sharer().CloseImport(at))
}

// ContextEnded forgets the imports of a context, which end with the context.
func (p *Calls) ContextEnded(x *driver.Context) {
	p.imports.mu.Lock()
	defer p.imports.mu.Unlock()
	for at, m := range p.imports.all {
		if m.context == x {
			delete(p.imports.all, at)
			p.Buffers.forgetFreed(at)
		}
	}
}

// DescribeImports writes down the imported memory.
func (p *Calls) DescribeImports() (out []ImportState) {
	p.imports.mu.Lock()
	defer p.imports.mu.Unlock()
	for at, m := range p.imports.all {
		out = append(out, ImportState{at, m.context.Handle, m.share, m.opened, m.pooled})
	}
	slices.SortFunc(out, func(a, b ImportState) int { return cmp.Compare(a.Address, b.Address) })
	return out
}

// RestoreImports notes the imported memory, in contexts that were made again.
func (p *Calls) RestoreImports(all []ImportState) error {
	p.imports.mu.Lock()
	defer p.imports.mu.Unlock()
	for _, m := range all {
		x, ok := p.Contexts.Get(m.Context)
		if !ok {
			return fmt.Errorf("imported memory at %#x: no context: %w", uint64(m.Address), driver.ErrRestore)
		}
		a, ok := x.Space.Lookup(m.Address)
		if !ok || a.Base != m.Address || a.Kind != backend.Imported || a.Share != m.Share || m.Opened < 1 {
			return fmt.Errorf("imported memory at %#x: there is none: %w", uint64(m.Address), driver.ErrRestore)
		}
		p.imports.addImport(m.Address, &importedMemory{x, m.Share, m.Opened, m.Pooled})
	}
	return nil
}

// shareable is a bit of the kind that PointerFacts tells: processes may share the memory.
const shareable = 1 << 8

// isShareable tells whether a process may export an allocation.
func (p *Calls) isShareable(s *driver.Space, a backend.Allocation) bool {
	x := p.anyContext(s)
	return a.Kind == backend.Plain && x != nil && x.Sharer() != nil
}
