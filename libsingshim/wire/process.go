// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"io"
	"math"

	"golang.org/x/sys/unix"
)

// Process is the memory of the process at the other end, by its id as the server sees it. What
// is large is copied from it and to it directly: once, and not by way of the ring. The caller
// makes sure that the id still means that process, and that it may do so: the same user, and
// where ptrace is restricted to children, the process has allowed it (PR_SET_PTRACER).
type Process int

// Read copies what is at address to dst, all of it or it is an error.
func (p Process) Read(dst []byte, address uint64) error {
	return p.move(dst, address, unix.ProcessVMReadv, "read")
}

// Write copies src to address, all of it or it is an error; then some of it may be there.
func (p Process) Write(src []byte, address uint64) error {
	return p.move(src, address, unix.ProcessVMWritev, "write")
}

func (p Process) move(b []byte, address uint64, how func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error), what string) error {
	if address > math.MaxInt64-uint64(len(b)) {
		return fmt.Errorf("%s the memory of process %d at %#x: no such address", what, p, address)
	}
	for at := address; len(b) > 0; {
		local := []unix.Iovec{{Base: &b[0]}}
		local[0].SetLen(len(b))
		n, err := how(int(p), local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("%s the memory of process %d at %#x: %w", what, p, at, err)
		}
		b, at = b[n:], at+uint64(n)
	}
	return nil
}
