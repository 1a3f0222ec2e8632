// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
)

// lendTask checks a collective's buffers.
func (st *stream) lendTask(buffers []backend.Buffer, begin func([]backend.Span, func(error))) (*task, error) {
	for _, b := range buffers {
		if err := st.context.space.checkRange(b.Addr, b.Size); err != nil {
			return nil, err
		}
	}
	return &task{waits: true, where: core.UsesOnly(buffers...), run: func() error { return st.lendBuffers(buffers, begin) }}, nil
}

// lendBuffers hands memory to begin until done is called.
func (st *stream) lendBuffers(buffers []backend.Buffer, begin func([]backend.Span, func(error))) error {
	if err := st.waitDevice(); err != nil {
		return err
	}
	s := st.context.space
	spans := make([]*span, len(buffers))
	lent := make([]backend.Span, len(buffers))
	for i, b := range buffers {
		x, err := s.spanOf(b)
		if err != nil {
			for _, x := range spans[:i] {
				x.releasePieces()
			}
			return err
		}
		spans[i], lent[i] = x, x
	}
	over := make(chan error, 1)
	// The other side of the wait may need this device.
	err := errClosed
	mapped := s.waitUnmappable(func() {
		begin(lent, func(err error) { over <- err })
		select {
		case err = <-over:
			err = errors.Join(err, endLoan(spans))
		case <-s.ctx.Done():
			b := s.device.backend
			loan := b.owed.addLoan(spans)
			go func() { b.owed.endLoan(loan, <-over) }()
		}
	})
	if !mapped || errors.Is(err, errClosed) {
		return errClosed
	}
	if backend.ResultOf(err) == backend.Unknown {
		return nil // the exchange's owner knows the error, and tells the program
	}
	return err
}

// endLoan ends a loan.
func endLoan(spans []*span) error {
	var errs []error
	for _, x := range spans {
		errs = append(errs, x.writeBack())
		x.releasePieces()
	}
	return errors.Join(errs...)
}

// orphanedLoans are loans of spaces that were closed meanwhile. The lent memory has no owner any more, and stays until
// given back or until the devices have stopped.
type orphanedLoans struct {
	mu    sync.Mutex
	loans map[*loan]bool
	over  bool // all loans were ended: no team works any more
}

type loan struct{ spans []*span }

// addLoan notes a loan, or ends the loan at once if endAllLoans was called.
func (o *orphanedLoans) addLoan(spans []*span) *loan {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := &loan{spans}
	if o.over {
		l.release()
		return l
	}
	if o.loans == nil {
		o.loans = map[*loan]bool{}
	}
	o.loans[l] = true
	return l
}

// endLoan releases a loan, once. No caller is left that could get an error.
func (o *orphanedLoans) endLoan(l *loan, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.loans[l] {
		delete(o.loans, l)
		l.release()
	}
}

// release gives the lent memory back.
func (l *loan) release() {
	for _, x := range l.spans {
		if x.whole != nil {
			_ = x.whole.endMemory() // the server's own memory
		}
		x.releasePieces()
	}
}

// endAllLoans releases all loans, and each later loan at once: the devices do no work for any team.
func (o *orphanedLoans) endAllLoans() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	for l := range o.loans {
		l.release()
	}
	clear(o.loans)
}

// beginWithSpans turns a function that takes bytes into a function that takes spans.
func beginWithSpans(begin func([][]byte, func(error))) func([]backend.Span, func(error)) {
	return func(spans []backend.Span, done func(error)) {
		bytes := make([][]byte, len(spans))
		for i, x := range spans {
			var err error
			if bytes[i], err = x.Bytes(); err != nil {
				done(err)
				return
			}
		}
		begin(bytes, done)
	}
}

// Exchange implements backend.Stream.
func (st *stream) Exchange(b []backend.Buffer, begin func([][]byte, func(error))) error {
	return st.Lend(b, beginWithSpans(begin))
}

// Lend implements backend.Lender.
func (st *stream) Lend(b []backend.Buffer, begin func([]backend.Span, func(error))) error {
	return st.prepareAndEnqueue(func() (*task, error) { return st.lendTask(b, begin) })
}

// span is lent memory. A span stays on the device meanwhile, also when other spaces are mapped.
type span struct {
	space *space
	backend.Buffer
	pieces []memoryPiece
	bytes  []byte  // in the host's memory, once asked for
	whole  *memory // a copy of the pieces, if they are not adjacent in the window
}

// part is a part of a memory.
type memoryPiece struct {
	*memory
	at, n uint64
}

// spanOf makes a span of a buffer. Host memory need not be held on the device.
func (s *space) spanOf(b backend.Buffer) (*span, error) {
	x := &span{space: s, Buffer: b}
	if s.hostBytes(b.Addr, b.Size) != nil {
		return x, nil
	}
	err := s.eachWindow(b.Addr, b.Size, func(m *memory, at, n uint64) error {
		if err := m.holdPresent(); err != nil {
			return err
		}
		m.markBlocks(at, n, false)
		x.pieces = append(x.pieces, memoryPiece{m, at, n})
		return nil
	})
	if err != nil {
		x.releasePieces()
		return nil, err
	}
	return x, nil
}

func (x *span) releasePieces() {
	for _, p := range x.pieces {
		p.releaseHold()
	}
}

// Bytes implements backend.Span.
func (x *span) Bytes() ([]byte, error) {
	if x.bytes != nil {
		return x.bytes, nil
	}
	bytes := make([]byte, x.Size)
	if host := x.space.hostBytes(x.Addr, x.Size); host != nil {
		copy(bytes, host)
	}
	p := bytes
	for _, q := range x.pieces {
		if _, err := q.readAt(q.at, p[:q.n]); err != nil {
			return nil, err
		}
		p = p[q.n:]
	}
	x.bytes = bytes
	return bytes, nil
}

// writeBack copies the span's bytes from the copies in bytes and whole back to its memory.
func (x *span) writeBack() error {
	if x.whole != nil {
		defer func() { _ = x.whole.endMemory() }() // the server's own memory
	}
	if !x.Write || x.bytes == nil && x.whole == nil {
		return nil
	}
	if host := x.space.hostBytes(x.Addr, x.Size); host != nil && x.bytes != nil {
		copy(host, x.bytes)
	}
	at := uint64(0)
	for _, q := range x.pieces {
		var err error
		if x.whole != nil {
			err = copyMemory(q.memory, q.at, x.whole, at, q.n)
		} else {
			err = q.writeAt(q.at, x.bytes[at:][:q.n])
		}
		if err != nil {
			return err
		}
		at += q.n
	}
	return nil
}

// deviceAddress returns the address at which the device finds the span, also when other spaces are mapped.
func (x *span) deviceAddress() (backend.Addr, error) {
	switch {
	case x.whole != nil:
		return x.whole.at, nil
	case len(x.pieces) == 0:
		return x.Addr, nil // the host's, under the program's address
	case len(x.pieces) == 1:
		return x.pieces[0].memory.at + backend.Addr(x.pieces[0].at), nil
	}
	d := x.space.currentDevice()
	whole, err := d.newMemory((x.Size+backend.Granule-1)/backend.Granule*backend.Granule, nil, 0)
	if err != nil {
		return 0, fmt.Errorf("%d bytes in one piece, for a collective: %w", x.Size, err)
	}
	x.whole = whole
	at := uint64(0)
	for _, p := range x.pieces {
		if err := copyMemory(whole, at, p.memory, p.at, p.n); err != nil {
			return 0, err
		}
		at += p.n
	}
	return whole.at, nil
}

// reachFrom lets another device use the memory at deviceAddress.
func (x *span) reachFrom(d *device) error {
	if x.whole != nil {
		return x.whole.reachFrom(d)
	}
	for _, p := range x.pieces {
		if err := p.reachFrom(d); err != nil {
			return err
		}
	}
	return nil
}
