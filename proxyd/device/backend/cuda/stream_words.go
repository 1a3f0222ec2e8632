// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"encoding/binary"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// checkWord checks an address of 4 or 8 bytes.
func (st *stream) checkWord(a backend.Addr, size int) error {
	if size != 4 && size != 8 || uint64(a)%uint64(size) != 0 {
		return fmt.Errorf("a word of %d bytes at %#x: %w", size, uint64(a), backend.InvalidValue)
	}
	return st.context.space.checkRange(a, uint64(size))
}

// Write implements backend.Stream.
func (st *stream) Write(a backend.Addr, size int, value uint64) error {
	return st.prepareAndEnqueue(func() (*task, error) {
		run := func() error {
			return st.driverStream.drv.WriteValue(st.driverStream.ctx, st.driverStream.stream, a, size, value)
		}
		return &task{direct: true, run: run}, st.checkWord(a, size)
	})
}

// WaitValue implements backend.Stream.
func (st *stream) WaitValue(a backend.Addr, size int, value uint64, cond backend.Condition) error {
	return st.prepareAndEnqueue(func() (*task, error) {
		if cond > backend.Nor {
			return nil, fmt.Errorf("wait for a value: condition %d: %w", cond, backend.InvalidValue)
		}
		run := func() error { return st.waitValue(a, size, value, cond) }
		return &task{waits: true, run: run}, st.checkWord(a, size)
	})
}

// waitValue looks at a word until the condition holds. The device is not told to wait: the space could not give way
// then.
func (st *stream) waitValue(a backend.Addr, size int, value uint64, cond backend.Condition) error {
	if err := st.waitDevice(); err != nil {
		return err
	}
	st.markRestartable()
	s := st.context.space
	var err error
	if !s.waitUnmappable(func() {
		for p := (patience{}); err == nil && st.context.Err() == nil; {
			var v uint64
			if v, err = s.readWord(a, size); err != nil || cond.Holds(v, value, size) {
				return
			}
			if p.pauseBeforeRetry(s.ctx) != nil {
				err = errClosed
			}
		}
	}) {
		return errClosed
	}
	return err
}

// readWord reads a word, of a space that need not be mapped.
func (s *space) readWord(a backend.Addr, size int) (uint64, error) {
	b := make([]byte, 8)
	if host := s.hostBytes(a, uint64(size)); host != nil {
		copy(b, host)
		return binary.LittleEndian.Uint64(b), nil
	}
	err := s.eachWindow(a, uint64(size), func(m *memory, at, n uint64) error {
		_, err := m.readAt(at, b[:n])
		return err
	})
	return binary.LittleEndian.Uint64(b), err
}
