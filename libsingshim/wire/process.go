// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Process is the memory of the process at the other end, by the id under which the server sees that process.
// Large arguments are copied directly: once, and not by way of the ring. The caller makes sure that the id
// still means that process, and that the server may access its memory: the same user, and where ptrace is
// restricted to children, the process has allowed it (PR_SET_PTRACER).
type Process int

// Read copies the bytes at address to dst; less than the whole is an error.
func (p Process) Read(dst []byte, address uint64) error {
	return p.moveBytes(dst, address, unix.ProcessVMReadv, "read")
}

// Write copies src to address; less than the whole is an error, and then a part may be there.
func (p Process) Write(src []byte, address uint64) error {
	return p.moveBytes(src, address, unix.ProcessVMWritev, "write")
}

// piece is how much a thread copies at a time, and hands how many threads copy at most: the
// kernel looks up each page, which takes about as long as copying the page.
const (
	piece = 1 << 20
	hands = 4
)

type mover func(pid int, local []unix.Iovec, remote []unix.RemoteIovec, flags uint) (int, error)

func (p Process) moveBytes(b []byte, address uint64, how mover, what string) error {
	if address > math.MaxInt64-uint64(len(b)) {
		return fmt.Errorf("%s the memory of process %d at %#x: no such address", what, p, address)
	}
	if len(b) <= piece {
		return p.moveOne(b, address, how, what)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, min(hands, runtime.GOMAXPROCS(0), (len(b)+piece-1)/piece))
	for i := range errs {
		wg.Go(func() {
			for errs[i] == nil {
				begin := int(next.Add(piece) - piece)
				if begin >= len(b) {
					return
				}
				errs[i] = p.moveOne(b[begin:min(begin+piece, len(b))], address+uint64(begin), how, what)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p Process) moveOne(b []byte, address uint64, how mover, what string) error {
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
