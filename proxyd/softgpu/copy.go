// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
)

// side is a side of a copy, checked.
type side struct {
	core.CopySide
	host  backend.HostMemory
	space *space
}

func (c *cudaContext) copySide(p backend.CopySide, w, h, d uint64) (side, error) {
	checked, err := core.CheckCopySide(p, w, h, d)
	if err != nil || p.Host != nil {
		return side{CopySide: checked, host: p.Host, space: c.space}, err
	}
	s := side{CopySide: checked, space: c.space}
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
func (c *cudaContext) copyTask(p backend.Copy) (task, error) {
	w, h, d := p.Width, max(p.Height, 1), max(p.Depth, 1)
	if w == 0 {
		return task{}, nil
	}
	src, err := c.copySide(p.Src, w, h, d)
	if err != nil {
		return task{}, err
	}
	dst, err := c.copySide(p.Dst, w, h, d)
	if err != nil {
		return task{}, err
	}
	w, h, d = core.JoinRows(src.CopySide, dst.CopySide, w, h, d)
	run := func(*operation) error {
		for z := range d {
			for y := range h {
				err := copyRow(dst, dst.RowAt(y, z), src, src.RowAt(y, z), w)
				if backend.ResultOf(err) == backend.Unknown {
					return nil // the program's memory: see HostMemory
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
	uses := []*space{c.space}
	for _, s := range []side{src, dst} {
		if s.host == nil {
			uses = append(uses, s.space.spacesHolding(backend.Addr(s.First), 1)...)
		}
	}
	wrote := readsOnly
	if dst.host == nil {
		wrote.where = []splice.Span{{Base: dst.First, Size: dst.Length}}
	}
	return task{run: run, uses: withoutDuplicates(uses), wrote: wrote}, nil
}

func copyRow(dst side, to uint64, src side, from, n uint64) error {
	switch {
	case dst.host != nil && src.host != nil:
		return core.CopyHost(dst.host, to, src.host, from, n)
	case dst.host != nil:
		pieces, err := src.space.reachBytes(backend.Addr(from), n)
		for _, b := range pieces {
			if err := dst.host.Write(to, b); err != nil {
				return err
			}
			to += uint64(len(b))
		}
		return err
	case src.host != nil:
		pieces, err := dst.space.reachBytes(backend.Addr(to), n)
		for _, b := range pieces {
			if err := src.host.Read(from, b); err != nil {
				return err
			}
			from += uint64(len(b))
		}
		return err
	}
	a, err := src.space.reachBytes(backend.Addr(from), n)
	if err != nil {
		return err
	}
	b, err := dst.space.reachBytes(backend.Addr(to), n)
	if err != nil {
		return err
	}
	for len(a) > 0 && len(b) > 0 {
		k := copy(b[0], a[0])
		if a[0] = a[0][k:]; len(a[0]) == 0 {
			a = a[1:]
		}
		if b[0] = b[0][k:]; len(b[0]) == 0 {
			b = b[1:]
		}
	}
	return nil
}

// spacesHolding are the spaces in which a range that may be used lies: s, or the spaces that s sees.
func (s *space) spacesHolding(a backend.Addr, n uint64) []*space {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger.Covers(a, n) {
		return []*space{s}
	}
	return s.spacesInSight()
}

// spacesInSight are the spaces in which work finds memory: s, and the spaces that s sees. The list does not change.
func (s *space) spacesInSight() []*space { return *s.sight.Load() }

// setPeers sets the spaces that s sees. The caller holds mu.
func setPeers(s *space, peers []*space) {
	sight := slices.Clip(append([]*space{s}, peers...))
	s.peers = peers
	s.sight.Store(&sight)
}

// withoutDuplicates returns each space of list once.
func withoutDuplicates(list []*space) (out []*space) {
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// reachBytes finds bytes that copies may use: the bytes of the space, and of the spaces that it sees.
func (s *space) reachBytes(a backend.Addr, n uint64) ([][]byte, error) {
	b, err := s.table.viewBytes(a, n)
	if err == nil {
		return b, nil
	}
	s.mu.Lock()
	peers := s.peers
	s.mu.Unlock()
	for _, p := range peers {
		if b, err := p.table.viewBytes(a, n); err == nil {
			return b, nil
		}
	}
	return nil, err
}

// fillTask checks a memset.
func (c *cudaContext) fillTask(f backend.Fill) (task, error) {
	e, h := uint64(f.Element), max(f.Height, 1)
	row, size, err := core.CheckFill(f)
	if err != nil || size == 0 {
		return task{}, err
	}
	if err := c.space.checkRange(f.Addr, size); err != nil {
		return task{}, err
	}
	var unit [4]byte
	binary.LittleEndian.PutUint32(unit[:], f.Value)
	return task{run: func(*operation) error {
		for y := range h {
			pieces, err := c.space.reachBytes(f.Addr+backend.Addr(f.Pitch*y), row)
			if err != nil {
				return err
			}
			for _, b := range pieces { // pieces begin and end at multiples of the element
				for n := copy(b, unit[:e]); n < len(b); n *= 2 {
					copy(b[n:], b[:n])
				}
			}
		}
		return nil
	}, uses: c.space.spacesHolding(f.Addr, size), wrote: writes{fillWriter, []splice.Span{{Base: uint64(f.Addr), Size: size}}}}, nil
}

// exchangeTask checks a collective's buffers.
func (c *cudaContext) exchangeTask(buffers []backend.Buffer, begin func([][]byte, func(error))) (task, error) {
	for _, b := range buffers {
		if err := c.space.checkRange(b.Addr, b.Size); err != nil {
			return task{}, err
		}
	}
	return task{where: core.UsesOnly(buffers...), run: func(of *operation) error {
		for {
			if err := c.exchangeBytes(of, buffers, begin); !errors.Is(err, backend.ErrPutBack) {
				return err
			}
		}
	}}, nil
}

// exchangeBytes hands bytes to begin and waits until done is called. After ErrPutBack exchangeBytes
// returns when the operation may begin again.
func (c *cudaContext) exchangeBytes(of *operation, buffers []backend.Buffer, begin func([][]byte, func(error))) error {
	// The exchange may go on after the space was closed: the bytes are held by exchange, not by the stream's operation.
	s := c.space
	exchange := &operation{foreign: true, wrote: writesOf(buffers)}
	var uses []*space
	for _, b := range buffers {
		uses = append(uses, s.spacesHolding(b.Addr, b.Size)...)
	}
	uses = withoutDuplicates(uses)
	// Until the bytes are pinned, the spaces must not leave their devices: exchange is foreign, and does not keep a
	// space from leaving.
	search := &operation{wrote: readsOnly}
	for _, u := range uses {
		u.beginOperation(search)
		u.beginOperation(exchange)
	}
	endInSpaces := func(o *operation) {
		for _, u := range uses {
			u.reclaimer.endOperation(o)
		}
	}
	pieces, whole, err := reachBuffers(s, buffers)
	if err != nil {
		endInSpaces(search)
		endInSpaces(exchange)
		return err
	}
	s.device.backend.pinPieces(exchange, pieces)
	endInSpaces(search)
	over := make(chan error, 1)
	begin(whole, func(err error) {
		for i, b := range buffers {
			if b.Write && len(pieces[i]) > 1 {
				scatterBytes(pieces[i], whole[i])
			}
		}
		s.device.backend.unpinOperation(exchange)
		endInSpaces(exchange)
		over <- err
	})
	err = awaitExchange(s, of, over)
	if backend.ResultOf(err) == backend.Unknown && !errors.Is(err, backend.ErrPutBack) {
		return nil // the owner of the memory knows the error, and tells the program
	}
	return err
}

// reachBuffers returns the bytes of buffers: the pieces of memory that a buffer consists of, and the buffer as a whole, which
// is a copy if the memory was mapped piece by piece.
func reachBuffers(s *space, buffers []backend.Buffer) (pieces [][][]byte, whole [][]byte, err error) {
	pieces = make([][][]byte, len(buffers))
	whole = make([][]byte, len(buffers))
	for i, b := range buffers {
		if pieces[i], err = s.reachBytes(b.Addr, b.Size); err != nil {
			return nil, nil, err
		}
		if len(pieces[i]) == 1 {
			whole[i] = pieces[i][0]
			continue
		}
		whole[i] = slices.Concat(pieces[i]...)
	}
	return pieces, whole, nil
}

// scatterBytes copies bytes into pieces, one after the other.
func scatterBytes(pieces [][]byte, from []byte) {
	for _, p := range pieces {
		from = from[copy(p, from):]
	}
}

// awaitExchange waits until an exchange is over, and the space mapped. The space may be unmapped meanwhile, for the other
// side of the wait may need this device. After ErrPutBack awaitExchange returns when the operation
// may begin again, and until then the operation counts as not begun.
func awaitExchange(s *space, of *operation, over <-chan error) error {
	err := errClosed
	mapped := s.gate.OutsideUntil(func() (begun bool) {
		s.active.Wait(func() {
			select {
			case err = <-over:
			case <-s.ctx.Done():
			}
		})
		begun = !errors.Is(err, backend.ErrPutBack)
		of.setProgress(begun, backend.PartialKernel{})
		return begun
	})
	of.setProgress(true, backend.PartialKernel{})
	if !mapped {
		return errClosed
	}
	return err
}
