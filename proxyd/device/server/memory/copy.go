// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// CopyCalls implements dispatch.CopyCalls.
type CopyCalls struct {
	*driver.Process
	shares *PinnedShares // pinned memory that is mapped here
	all    *Calls        // all pinned memory
}

// CopyWaits are the copies that are waited for, if they come as calls.
var CopyWaits = []string{
	"cuMemcpy", "cuMemcpyAsync", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "copy_in", "copy_out", "cuMemcpy2D_v2", "cuMemcpy2DAsync_v2",
	"cuMemcpy3D_v2", "cuMemcpy3DAsync_v2", "cuMemcpy3DPeer", "cuMemcpy3DPeerAsync",
}

// programMemory is the program's memory, for a copy. A graph's copy is made in a restored server before the process is
// there: the owner of the memory is looked up when the copy is carried out. Unreachable memory is the copy's failure,
// not a fault of the context.
type programMemory struct {
	process *driver.Process
	late    func() // called at the first failure, or nil

	mu  sync.Mutex
	bad bool
}

var _ backend.HostMemory = (*programMemory)(nil)

func (m *programMemory) Read(addr uint64, b []byte) error {
	return m.noteFailure(m.process.Peer.Memory().Read(b, addr))
}

func (m *programMemory) Write(addr uint64, b []byte) error {
	return m.noteFailure(m.process.Peer.Memory().Write(b, addr))
}

// noteFailure notes a failure, and returns an error without a Result.
func (m *programMemory) noteFailure(err error) error {
	if err == nil {
		return nil
	}
	m.mu.Lock()
	first := !m.bad
	m.bad = true
	m.mu.Unlock()
	if first && m.late != nil {
		m.late()
	}
	return errUnreachable
}

// errUnreachable is no fault of the context, but a failure of the copy.
var errUnreachable = errors.New("the program's memory cannot be reached")

func (m *programMemory) hasFailed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bad
}

// copier makes a copy on a stream.
type copier struct {
	p      *driver.Process
	shares *PinnedShares
	all    *Calls
	c      *dispatch.Call
	x      *driver.Context // the current context
	st     *driver.Stream
	memory *programMemory
}

// beginCopy begins a copy: INVALID_CONTEXT without a current context. symbol names the call, should the call fail late.
func (p *CopyCalls) beginCopy(c *dispatch.Call, stream dispatch.Stream, symbol string) (*copier, dispatch.Result) {
	x, r := p.Current(c)
	if r != 0 {
		return nil, r
	}
	st, r := p.Stream(c, stream)
	if r != 0 {
		return nil, r
	}
	k := &copier{p: p.Process, shares: p.shares, all: p.all, c: c, x: x, st: st, memory: &programMemory{process: p.Process}}
	if c.Waits == nil {
		k.memory.late = func() { p.FailLater(x, symbol, dispatch.ResultInvalidValue) }
	}
	return k, 0
}

// queueCopy queues the copy, and waits for the copy if the program waits for the answer and either side is the
// program's.
func (k *copier) queueCopy(what backend.Copy) dispatch.Result {
	if k.c.Waits == nil || what.Src.Host == nil && what.Dst.Host == nil {
		return k.p.Result(k.st.Backend.Copy(what))
	}
	// A cut takes the copy back, and the program makes the call again.
	driver.QueuedBy(k.c).Unrepeatable()
	end := &revocable{}
	what.Src.Host, what.Dst.Host = end.memoryFor(what.Src.Host), end.memoryFor(what.Dst.Host)
	if err := k.st.Backend.Copy(what); err != nil {
		return k.p.Result(err)
	}
	k.p.BeginWait(k.c)
	ctx := k.p.WaitContext()
	err := k.st.Backend.Synchronize(ctx)
	if k.p.Interrupted(ctx, err) {
		if end.revokeCopy() {
			k.p.Work.Skip(driver.QueuedBy(k.c))
			return driver.Again
		}
		err = k.st.Backend.Synchronize(k.p.Lifetime)
	}
	if err == nil && k.memory.hasFailed() {
		return dispatch.ResultInvalidValue
	}
	return k.p.FinishWait(k.st.Context, err)
}

// copyLinear makes a copy of n bytes.
func (k *copier) copyLinear(dst, src backend.CopySide, n uint64) dispatch.Result {
	return k.queueCopy(backend.Copy{Dst: dst, Src: src, Width: n})
}

// Memcpy implements dispatch.Backend, as all below.
func (p *CopyCalls) Memcpy(c *dispatch.Call, dst, src dispatch.Devptr, n uint64) dispatch.Result {
	return p.copyUnified(c, dst, src, n, driver.DefaultStream, "cuMemcpy")
}

func (p *CopyCalls) MemcpyAsync(c *dispatch.Call, dst, src dispatch.Devptr, n uint64, stream dispatch.Stream) dispatch.Result {
	return p.copyUnified(c, dst, src, n, stream, "cuMemcpyAsync")
}

func (p *CopyCalls) copyUnified(c *dispatch.Call, dst, src dispatch.Devptr, n uint64, stream dispatch.Stream, symbol string) dispatch.Result {
	k, r := p.beginCopy(c, stream, symbol)
	if r != 0 {
		return r
	}
	return k.copyLinear(k.onAnySide(uint64(dst)), k.onAnySide(uint64(src)), n)
}

func (p *CopyCalls) MemcpyHtoDAsyncV2(c *dispatch.Call, dst dispatch.Devptr, src, n uint64, stream dispatch.Stream) dispatch.Result {
	k, r := p.beginCopy(c, stream, "cuMemcpyHtoDAsync_v2")
	if r != 0 {
		return r
	}
	return k.copyLinear(k.onDevice(uint64(dst)), k.inProgramRow(src, n), n)
}

func (p *CopyCalls) MemcpyDtoHAsyncV2(c *dispatch.Call, dst uint64, src dispatch.Devptr, n uint64, stream dispatch.Stream) dispatch.Result {
	k, r := p.beginCopy(c, stream, "cuMemcpyDtoHAsync_v2")
	if r != 0 {
		return r
	}
	return k.copyLinear(k.inProgramRow(dst, n), k.onDevice(uint64(src)), n)
}

// CopyIn comes with the bytes.
func (p *CopyCalls) CopyIn(c *dispatch.Call, dst dispatch.Devptr, src []uint8, n uint64, stream dispatch.Stream) dispatch.Result {
	k, r := p.beginCopy(c, stream, "copy_in")
	if r != 0 {
		return r
	}
	return k.copyLinear(k.onDevice(uint64(dst)), backend.CopySide{Host: driver.BytesMemory(src)}, n)
}

// CopyOut answers with the bytes.
func (p *CopyCalls) CopyOut(c *dispatch.Call, src dispatch.Devptr, n uint64, stream dispatch.Stream) ([]uint8, dispatch.Result) {
	k, r := p.beginCopy(c, stream, "copy_out")
	switch {
	case r != 0:
		return nil, r
	case c.Waits == nil || n > dispatch.MaxAnswer:
		return nil, dispatch.ResultInvalidValue
	}
	dst := make(driver.BytesMemory, n)
	r = k.copyLinear(backend.CopySide{Host: dst}, k.onDevice(uint64(src)), n)
	return dst, r
}

func (p *CopyCalls) MemcpyDtoDV2(c *dispatch.Call, dst, src dispatch.Devptr, n uint64) dispatch.Result {
	return p.MemcpyDtoDAsyncV2(c, dst, src, n, driver.DefaultStream)
}

func (p *CopyCalls) MemcpyDtoDAsyncV2(c *dispatch.Call, dst, src dispatch.Devptr, n uint64, stream dispatch.Stream) dispatch.Result {
	k, r := p.beginCopy(c, stream, "cuMemcpyDtoDAsync_v2")
	if r != 0 {
		return r
	}
	return k.copyLinear(k.onDevice(uint64(dst)), k.onDevice(uint64(src)), n)
}

// MemcpyPeer is in order with the work of both contexts, before and after the call; MemcpyPeerAsync is not.
func (p *CopyCalls) MemcpyPeer(c *dispatch.Call, dst dispatch.Devptr, to dispatch.Context, src dispatch.Devptr, from dispatch.Context, n uint64) dispatch.Result {
	return p.queueInOrder(c, to, from, func() dispatch.Result {
		return p.MemcpyPeerAsync(c, dst, to, src, from, n, driver.DefaultStream)
	})
}

// queueInOrder queues a copy on the default stream behind all work that the contexts were given before, and before
// all later work.
func (p *CopyCalls) queueInOrder(c *dispatch.Call, to, from dispatch.Context, do func() dispatch.Result) dispatch.Result {
	st, r := p.Stream(c, driver.DefaultStream)
	if r != 0 {
		return r
	}
	var others []*driver.Context
	for _, h := range []dispatch.Context{to, from} {
		x, r := p.Context(h)
		if r != 0 {
			return r
		}
		if x != st.Context && !slices.Contains(others, x) {
			others = append(others, x)
		}
	}
	for _, x := range others {
		if err := followStream(st, x.Legacy); err != nil {
			return p.Result(err)
		}
	}
	if r := do(); r != 0 {
		return r
	}
	for _, x := range others {
		if err := followStream(x.Legacy, st); err != nil {
			return p.Result(err)
		}
	}
	return 0
}

// followStream has later work of a stream wait for all work that another stream was given so far.
func followStream(st, other *driver.Stream) error {
	e, err := other.Context.Backend.NewEvent(backend.EventConfig{NoTiming: true})
	if err != nil {
		return err
	}
	err = errors.Join(other.Backend.Record(e), st.Backend.Wait(e))
	return errors.Join(err, e.Destroy())
}

func (p *CopyCalls) MemcpyPeerAsync(c *dispatch.Call, dst dispatch.Devptr, to dispatch.Context, src dispatch.Devptr, from dispatch.Context, n uint64, stream dispatch.Stream) dispatch.Result {
	for _, h := range []dispatch.Context{to, from} {
		if _, r := p.Context(h); r != 0 {
			return r
		}
	}
	return p.MemcpyDtoDAsyncV2(c, dst, src, n, stream)
}

// The kinds of memory that a side of a copy may be in.
const (
	HostMemory    = 1
	DeviceMemory  = 2
	arrayMemory   = 3
	unifiedMemory = 4
)

// sideOf is a side of a copy with several dimensions. Arrays are not supported.
func (k *copier) sideOf(kind int32, host uint64, device dispatch.Devptr) (backend.CopySide, dispatch.Result) {
	switch kind {
	case HostMemory:
		return k.inProgram(host), 0
	case DeviceMemory:
		return k.onDevice(uint64(device)), 0
	case unifiedMemory:
		return k.onAnySide(uint64(device)), 0
	case arrayMemory:
		return backend.CopySide{}, dispatch.ResultNotSupported
	}
	return backend.CopySide{}, dispatch.ResultInvalidValue
}

func (p *CopyCalls) Memcpy2DV2(c *dispatch.Call, what dispatch.Memcpy2d) dispatch.Result {
	return p.Memcpy2DAsyncV2(c, what, driver.DefaultStream)
}

func (p *CopyCalls) Memcpy2DAsyncV2(c *dispatch.Call, w dispatch.Memcpy2d, stream dispatch.Stream) dispatch.Result {
	return p.copy3D(c, &dispatch.Memcpy3d{
		SrcX: w.SrcX, SrcY: w.SrcY, SrcType: w.SrcType, SrcHost: w.SrcHost, SrcDevice: w.SrcDevice, SrcPitch: w.SrcPitch,
		DstX: w.DstX, DstY: w.DstY, DstType: w.DstType, DstHost: w.DstHost, DstDevice: w.DstDevice, DstPitch: w.DstPitch,
		Width: w.Width, Height: w.Height, Depth: 1,
	}, stream, "cuMemcpy2DAsync_v2")
}

func (p *CopyCalls) Memcpy3DV2(c *dispatch.Call, what dispatch.Memcpy3d) dispatch.Result {
	return p.Memcpy3DAsyncV2(c, what, driver.DefaultStream)
}

func (p *CopyCalls) Memcpy3DAsyncV2(c *dispatch.Call, what dispatch.Memcpy3d, stream dispatch.Stream) dispatch.Result {
	return p.copy3D(c, &what, stream, "cuMemcpy3DAsync_v2")
}

func (p *CopyCalls) Memcpy3DPeer(c *dispatch.Call, what dispatch.Memcpy3dpeer) dispatch.Result {
	to, from := what.DstContext, what.SrcContext
	if what.DstType != DeviceMemory {
		to = c.Context
	}
	if what.SrcType != DeviceMemory {
		from = c.Context
	}
	return p.queueInOrder(c, to, from, func() dispatch.Result { return p.Memcpy3DPeerAsync(c, what, driver.DefaultStream) })
}

func (p *CopyCalls) Memcpy3DPeerAsync(c *dispatch.Call, w dispatch.Memcpy3dpeer, stream dispatch.Stream) dispatch.Result {
	for _, s := range []struct {
		kind    int32
		context dispatch.Context
	}{{w.SrcType, w.SrcContext}, {w.DstType, w.DstContext}} {
		if s.kind != DeviceMemory {
			continue
		}
		if _, r := p.Context(s.context); r != 0 {
			return r
		}
	}
	return p.copy3D(c, &dispatch.Memcpy3d{
		SrcX: w.SrcX, SrcY: w.SrcY, SrcZ: w.SrcZ, SrcLOD: w.SrcLOD, SrcType: w.SrcType, SrcHost: w.SrcHost, SrcDevice: w.SrcDevice,
		SrcPitch: w.SrcPitch, SrcHeight: w.SrcHeight,
		DstX: w.DstX, DstY: w.DstY, DstZ: w.DstZ, DstLOD: w.DstLOD, DstType: w.DstType, DstHost: w.DstHost, DstDevice: w.DstDevice,
		DstPitch: w.DstPitch, DstHeight: w.DstHeight, Width: w.Width, Height: w.Height, Depth: w.Depth,
	}, stream, "cuMemcpy3DPeerAsync")
}

// copy3D makes a copy of up to three dimensions.
func (p *CopyCalls) copy3D(c *dispatch.Call, w *dispatch.Memcpy3d, stream dispatch.Stream, symbol string) dispatch.Result {
	k, r := p.beginCopy(c, stream, symbol)
	if r != 0 {
		return r
	}
	what, r := k.shapeOf(w)
	switch {
	case r != 0:
		return r
	case w.Width == 0 || w.Height == 0 || w.Depth == 0:
		return 0
	}
	return k.queueCopy(what)
}

// shapeOf translates a struct of the driver's into a copy: rows that do not fit into their pitch are INVALID_VALUE.
func (k *copier) shapeOf(w *dispatch.Memcpy3d) (backend.Copy, dispatch.Result) {
	src, r := k.sideOf(w.SrcType, w.SrcHost, w.SrcDevice)
	if r != 0 {
		return backend.Copy{}, r
	}
	dst, r := k.sideOf(w.DstType, w.DstHost, w.DstDevice)
	if r != 0 {
		return backend.Copy{}, r
	}
	src.X, src.Y, src.Z, src.Pitch, src.Rows = w.SrcX, w.SrcY, w.SrcZ, w.SrcPitch, w.SrcHeight
	dst.X, dst.Y, dst.Z, dst.Pitch, dst.Rows = w.DstX, w.DstY, w.DstZ, w.DstPitch, w.DstHeight
	maxPitch := uint64(k.st.Context.Space.Device.Info().Attributes[backend.MaxPitch])
	for _, s := range []*backend.CopySide{&src, &dst} {
		switch {
		case s.Pitch > maxPitch, s.Pitch != 0 && (s.X > s.Pitch || w.Width > s.Pitch-s.X),
			s.Rows != 0 && (s.Y > s.Rows || w.Height > s.Rows-s.Y), w.SrcLOD != 0, w.DstLOD != 0:
			return backend.Copy{}, dispatch.ResultInvalidValue
		}
	}
	return backend.Copy{Src: src, Dst: dst, Width: w.Width, Height: w.Height, Depth: w.Depth}, 0
}
