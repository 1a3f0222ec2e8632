// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"context"
	"errors"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// driverStream is a stream of the driver's. One goroutine at a time moves bytes of the host through a driver stream.
type driverStream struct {
	drv    *driver.Driver
	pool   *hostBufferPool
	ctx    driver.Context
	stream driver.Stream
	done   driver.Event
	alive  func(func() error) error // calls f unless the context has ended
}

// newDriverStream makes a driver stream in a context.
func (b *Backend) newDriverStream(ctx driver.Context, priority int, alive func(func() error) error) (*driverStream, error) {
	s, err := b.drv.NewStream(ctx, priority)
	if err != nil {
		return nil, err
	}
	e, err := b.drv.NewEvent(ctx, false)
	if err != nil {
		return nil, errors.Join(err, b.drv.DestroyStream(ctx, s))
	}
	return &driverStream{b.drv, b.pinned, ctx, s, e, alive}, nil
}

// replaceDriverStream has the driver stream be another stream of the driver's. No call uses either driver stream.
func (l *driverStream) replaceDriverStream(by *driverStream) {
	l.ctx, l.stream, l.done = by.ctx, by.stream, by.done
}

// closeDriverStream ends the driver stream. No work is under way there.
func (l *driverStream) closeDriverStream() error {
	return l.alive(func() error {
		return errors.Join(l.drv.DestroyEvent(l.ctx, l.done), l.drv.DestroyStream(l.ctx, l.stream))
	})
}

// waitIdle waits until all queued work is done, also on a failure, because queued work uses memory.
func (l *driverStream) waitIdle() error {
	err := l.alive(func() error { return l.drv.Record(l.ctx, l.done, l.stream) })
	ask := func() error { return l.drv.EventQuery(l.ctx, l.done) }
	if err != nil {
		ask = func() error { return l.drv.Query(l.ctx, l.stream) }
	}
	for p := (patience{}); ; {
		e := l.alive(ask)
		if backend.ResultOf(e) != backend.NotReady {
			return errors.Join(err, e)
		}
		_ = p.pauseBeforeRetry(context.Background()) // the context never ends
	}
}

// isIdle tells whether no work is under way. It returns true on an error, which later calls will return.
func (l *driverStream) isIdle() bool {
	return backend.ResultOf(l.alive(func() error { return l.drv.Query(l.ctx, l.stream) })) != backend.NotReady
}

// devicePart is bytes in a device's memory that are copied at once: partSize at most.
type devicePart struct {
	at backend.Addr
	n  uint64
}

// splitParts are the parts of n bytes.
func splitParts(at backend.Addr, n uint64) []devicePart {
	parts := make([]devicePart, 0, (n+partSize-1)/partSize)
	for end := at + backend.Addr(n); at < end; at += partSize {
		parts = append(parts, devicePart{at, min(uint64(end-at), partSize)})
	}
	return parts
}

// getBuffers returns two buffers. The caller puts all that are returned, also with an error.
func (p *hostBufferPool) getBuffers() (out [][]byte, err error) {
	for len(out) < 2 {
		b, err := p.getBuffer()
		if err != nil {
			return out, err
		}
		out = append(out, b)
	}
	return out, nil
}

func (p *hostBufferPool) putBuffers(list [][]byte) {
	for _, b := range list {
		p.putBuffer(b)
	}
}

// copyOut copies n bytes of a device, a part at a time, to take, while the next part is on its way.
func (l *driverStream) copyOut(from backend.Addr, n uint64, take func(part []byte) error) error {
	return l.copyPartsOut(splitParts(from, n), func(_ int, part []byte) error { return take(part) })
}

// copyPartsOut copies parts, each to take with its number, while the next part is on its way.
func (l *driverStream) copyPartsOut(parts []devicePart, take func(i int, part []byte) error) error {
	buffers, err := l.pool.getBuffers()
	defer l.pool.putBuffers(buffers)
	if err != nil {
		return err
	}
	var ready []byte
	for i := 0; i < len(parts) || ready != nil; i++ {
		var next []byte
		if i < len(parts) {
			next = buffers[i%2][:parts[i].n]
			if err := l.alive(func() error { return l.drv.CopyOut(l.ctx, l.stream, next, parts[i].at) }); err != nil {
				return err
			}
		}
		var err error
		if ready != nil {
			err = take(i-1, ready)
		}
		if e := l.waitIdle(); err == nil { // in any case: other copies get the buffers next
			err = e
		}
		if err != nil {
			return err
		}
		ready = next
	}
	return nil
}

// copyIn is the reverse of copyOut.
func (l *driverStream) copyIn(to backend.Addr, n uint64, give func(part []byte) error) error {
	return l.copyPartsIn(splitParts(to, n), func(_ int, part []byte) error { return give(part) })
}

// copyPartsIn is the reverse of copyPartsOut.
func (l *driverStream) copyPartsIn(parts []devicePart, give func(i int, part []byte) error) error {
	buffers, err := l.pool.getBuffers()
	defer l.pool.putBuffers(buffers)
	if err != nil {
		return err
	}
	for i, p := range parts {
		part := buffers[i%2][:p.n]
		err := give(i, part) // while the part before is on its way
		if e := l.waitIdle(); err == nil {
			err = e
		}
		if err == nil {
			err = l.alive(func() error { return l.drv.CopyIn(l.ctx, l.stream, p.at, part) })
		}
		if err != nil {
			return err
		}
	}
	return l.waitIdle()
}

// clearMemory clears memory.
func (l *driverStream) clearMemory(at backend.Addr, n uint64) error {
	err := l.alive(func() error { return l.drv.Fill(l.ctx, l.stream, &backend.Fill{Addr: at, Element: 1, Width: n}) })
	if err != nil {
		return err
	}
	return l.waitIdle()
}

// partSize is the number of bytes copied at once: large enough for full speed.
const partSize = 4 << 20

// hostBufferPool is buffers of host memory that devices copy from and to. They belong to the first context that there is.
type hostBufferPool struct {
	mu       sync.Mutex
	returned *sync.Cond     // a buffer came back
	drv      *driver.Driver // nil: there is no context yet
	ctx      driver.Context
	free     [][]byte
	all      [][]byte
	closed   bool
}

func newPinned() *hostBufferPool {
	p := &hostBufferPool{}
	p.returned = sync.NewCond(&p.mu)
	return p
}

// useContext names a context of the server's own, which outlives freeBuffers.
func (p *hostBufferPool) useContext(drv *driver.Driver, ctx driver.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drv == nil {
		p.drv, p.ctx = drv, ctx
	}
}

// freeBuffers frees all buffers, when the copies that are under way have returned theirs. No copy gets a buffer any more.
func (p *hostBufferPool) freeBuffers() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for len(p.free) < len(p.all) {
		p.returned.Wait()
	}
	var errs []error
	for _, buffer := range p.all {
		errs = append(errs, p.drv.FreePinned(p.ctx, buffer))
	}
	p.free, p.all = nil, nil
	return errors.Join(errs...)
}

func (p *hostBufferPool) getBuffer() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b, nil
	}
	b, err := p.drv.NewPinned(p.ctx, partSize)
	if err == nil {
		p.all = append(p.all, b)
	}
	return b, err
}

func (p *hostBufferPool) putBuffer(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, b[:partSize])
	p.returned.Broadcast()
}
