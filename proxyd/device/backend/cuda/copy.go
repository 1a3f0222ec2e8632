// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// side is a side of a copy, checked.
type side struct {
	core.CopySide
	host  backend.HostMemory
	space *space
}

func (c *cudaContext) copySide(p backend.CopySide, w, h, d uint64) (side, error) {
	checked, err := core.CheckCopySide(p, w, h, d)
	if err != nil {
		return side{}, err
	}
	s := side{CopySide: checked, host: p.Host, space: c.space}
	if p.Host != nil {
		// The device reaches this memory by itself, and reads it when the copy runs.
		if c.space.hostBytes(backend.Addr(s.First), s.Length) != nil {
			s.host = nil
		}
		return s, nil
	}
	if p.Space != nil {
		o, ok := p.Space.(*space)
		if !ok || o.isClosed() || o.device.backend != c.space.device.backend {
			return side{}, fmt.Errorf("copy with a space that is closed, or another backend's: %w", backend.InvalidValue)
		}
		s.space = o
	}
	return s, s.space.checkRange(backend.Addr(s.First), s.Length)
}

// copyTask checks a copy.
func (st *stream) copyTask(p backend.Copy) (*task, error) {
	c := st.context
	w, h, d := p.Width, max(p.Height, 1), max(p.Depth, 1)
	if w == 0 {
		return &task{}, nil
	}
	src, err := c.copySide(p.Src, w, h, d)
	if err != nil {
		return nil, err
	}
	dst, err := c.copySide(p.Dst, w, h, d)
	if err != nil {
		return nil, err
	}
	w, h, d = core.JoinRows(src.CopySide, dst.CopySide, w, h, d)
	box := driver.Box{
		To: backend.Addr(dst.First), ToPitch: dst.Pitch, ToRows: dst.Rows,
		From: backend.Addr(src.First), FromPitch: src.Pitch, FromRows: src.Rows, Width: w, Height: h, Depth: d,
	}
	if src.host != nil || dst.host != nil {
		return &task{waits: true, run: func() error { return st.copyHost(src, dst, box) }}, nil
	}
	if src.space != c.space || dst.space != c.space {
		return &task{waits: true, run: func() error { return st.copySpaces(src, dst, box) }}, nil
	}
	return &task{direct: true, box: &box, run: func() error { return st.copyBox(box) }}, nil
}

// copyBox has the device copy.
func (st *stream) copyBox(b driver.Box) error {
	l := st.driverStream
	if b.Height == 1 && b.Depth == 1 {
		return l.drv.CopyDevice(l.ctx, l.stream, b.To, b.From, b.Width)
	}
	return l.drv.CopyBox(l.ctx, l.stream, &b)
}

// eachRow calls f for each row of a box.
func eachRow(b driver.Box, f func(to, from uint64) error) error {
	for z := range b.Depth {
		for y := range b.Height {
			if err := f(uint64(b.To)+b.ToPitch*(y+b.ToRows*z), uint64(b.From)+b.FromPitch*(y+b.FromRows*z)); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyHost copies memory that only its owner reaches. The memory is not read before the work before the copy is
// done.
func (st *stream) copyHost(src, dst side, b driver.Box) error {
	if err := st.waitDevice(); err != nil {
		return err
	}
	err := eachRow(b, func(to, from uint64) error { return st.copyRow(src, dst, to, from, b.Width) })
	if backend.ResultOf(err) == backend.Unknown {
		return nil // the owner of the program's memory tells the program: see HostMemory
	}
	return err
}

func (st *stream) copyRow(src, dst side, to, from, n uint64) error {
	read := func(part []byte) error {
		err := src.host.Read(from, part)
		from += uint64(len(part))
		return err
	}
	write := func(part []byte) error {
		err := dst.host.Write(to, part)
		to += uint64(len(part))
		return err
	}
	switch own := st.context.space; {
	case src.host != nil && dst.host != nil:
		return core.CopyHost(dst.host, to, src.host, from, n)
	case src.host != nil && dst.space == own:
		return st.driverStream.copyIn(backend.Addr(to), n, read)
	case src.host != nil:
		return dst.space.eachWindow(backend.Addr(to), n, func(m *memory, at, n uint64) error { return m.writeParts(at, n, read) })
	case src.space == own:
		return st.driverStream.copyOut(backend.Addr(from), n, write)
	}
	return src.space.eachWindow(backend.Addr(from), n, func(m *memory, at, n uint64) error { return m.readParts(at, n, write) })
}

// eachWindow calls f for each piece of memory of the n bytes at an address.
func (s *space) eachWindow(a backend.Addr, n uint64, f func(m *memory, at, n uint64) error) error {
	for n > 0 {
		m, at, ok := s.view.findWindow(a)
		if !ok {
			return fmt.Errorf("%d bytes at %#x: nothing is there: %w", n, uint64(a), backend.IllegalAddress)
		}
		k := min(n, m.size-at)
		if err := f(m, at, k); err != nil {
			return err
		}
		a, n = a+backend.Addr(k), n-k
	}
	return nil
}

// copySpaces copies between spaces, from window to window, because either space may be unmapped.
func (st *stream) copySpaces(src, dst side, b driver.Box) error {
	if err := st.waitDevice(); err != nil {
		return err
	}
	return eachRow(b, func(to, from uint64) error {
		return src.space.eachWindow(backend.Addr(from), b.Width, func(m *memory, at, n uint64) error {
			err := dst.space.eachWindow(backend.Addr(to), n, func(o *memory, there, n uint64) error {
				err := copyMemory(o, there, m, at, n)
				at += n
				return err
			})
			to += n
			return err
		})
	})
}

// copyMemory copies between memories, and between devices if they differ: directly if they reach each other, and by the
// host's memory if a device has no room for the memory.
func copyMemory(to *memory, there uint64, from *memory, at, n uint64) error {
	err := copyPresent(to, there, from, at, n)
	if backend.ResultOf(err) != backend.OutOfMemory {
		return err
	}
	return from.readParts(at, n, func(part []byte) error {
		err := to.writeAt(there, part)
		there += uint64(len(part))
		return err
	})
}

// copyPresent is copyMemory of memory that is brought to the devices.
func copyPresent(to *memory, there uint64, from *memory, at, n uint64) error {
	if err := to.holdPresent(); err != nil {
		return err
	}
	defer to.releaseHold()
	to.markBlocks(there, n, false)
	if err := from.holdPresent(); err != nil {
		return err
	}
	defer from.releaseHold()
	return from.copyHeld(to, there, at, n, from.reachFrom(to.device) == nil)
}

// copyHeld is copyMemory to memory that is held, of memory that stays.
func (from *memory) copyHeld(to *memory, there, at, n uint64, reached bool) error {
	if reached {
		return to.device.borrowDriverStream(func(l *driverStream) error {
			if err := l.drv.CopyDevice(l.ctx, l.stream, to.at+backend.Addr(there), from.at+backend.Addr(at), n); err != nil {
				return err
			}
			return l.waitIdle()
		})
	}
	return from.device.borrowDriverStream(func(l *driverStream) error {
		return l.copyOut(from.at+backend.Addr(at), n, func(part []byte) error {
			err := to.writeAt(there, part)
			there += uint64(len(part))
			return err
		})
	})
}

// Copy implements backend.Stream.
func (st *stream) Copy(x backend.Copy) error {
	return st.prepareAndEnqueue(func() (*task, error) { return st.copyTask(x) })
}

// prepareAndEnqueue checks the stream and its input, and queues the task.
func (st *stream) prepareAndEnqueue(prepare func() (*task, error)) error {
	if err := st.waitReady(); err != nil {
		return err
	}
	j, err := prepare()
	if err != nil {
		return err
	}
	return st.enqueueTask(j)
}

// fillTask checks a memset.
func (st *stream) fillTask(f backend.Fill) (*task, error) {
	_, size, err := core.CheckFill(f)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return &task{}, nil
	}
	if err := st.context.space.checkRange(f.Addr, size); err != nil {
		return nil, err
	}
	return &task{direct: true, run: func() error { return st.driverStream.drv.Fill(st.driverStream.ctx, st.driverStream.stream, &f) }}, nil
}

// Fill implements backend.Stream.
func (st *stream) Fill(x backend.Fill) error {
	return st.prepareAndEnqueue(func() (*task, error) { return st.fillTask(x) })
}
