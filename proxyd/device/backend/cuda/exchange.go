// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// exchangeJob checks a collective's buffers.
func (st *stream) exchangeJob(buffers []backend.Buffer, begin func([][]byte, func(error))) (*job, error) {
	for _, b := range buffers {
		if err := st.context.space.allowed(b.Addr, b.Size); err != nil {
			return nil, err
		}
	}
	return &job{waits: true, run: func() error { return st.exchange(buffers, begin) }}, nil
}

// exchange hands copies of bytes to somebody else, and takes what they have written when they are done.
func (st *stream) exchange(buffers []backend.Buffer, begin func([][]byte, func(error))) error {
	if err := st.settle(); err != nil {
		return err
	}
	s := st.context.space
	bytes := make([][]byte, len(buffers))
	for i, b := range buffers {
		bytes[i] = make([]byte, b.Size)
		if err := s.readAll(b.Addr, bytes[i]); err != nil {
			return err
		}
	}
	over := make(chan error, 1)
	begin(bytes, func(err error) { over <- err })
	// Whoever it waits for may need this device for that.
	err := errClosed
	mapped := s.gate.Aside(func() {
		select {
		case err = <-over:
		case <-s.ctx.Done():
		}
	})
	if !mapped || errors.Is(err, errClosed) {
		return errClosed
	}
	for i, b := range buffers {
		if b.Write {
			if e := s.writeAll(b.Addr, bytes[i]); e != nil {
				return e
			}
		}
	}
	if backend.ResultOf(err) == backend.Unknown {
		return nil // its owner knows, and tells the program
	}
	return err
}

// readAll and writeAll copy bytes of the space, where the server sees them.
func (s *space) readAll(a backend.Addr, p []byte) error {
	if host := s.hostBytes(a, uint64(len(p))); host != nil {
		copy(p, host)
		return nil
	}
	return s.windows(a, uint64(len(p)), func(m *memory, at, n uint64) error {
		_, err := m.read(at, p[:n])
		p = p[n:]
		return err
	})
}

func (s *space) writeAll(a backend.Addr, p []byte) error {
	if host := s.hostBytes(a, uint64(len(p))); host != nil {
		copy(host, p)
		return nil
	}
	return s.windows(a, uint64(len(p)), func(m *memory, at, n uint64) error {
		err := m.write(at, p[:n])
		p = p[n:]
		return err
	})
}

// Exchange implements backend.Stream.
func (st *stream) Exchange(b []backend.Buffer, begin func([][]byte, func(error))) error {
	return st.give(func() (*job, error) { return st.exchangeJob(b, begin) })
}
