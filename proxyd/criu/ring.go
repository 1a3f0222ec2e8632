// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"io"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The pages of a program are lent to the pipe, not copied into it: criu makes the only copy, to their place in the
// restored program.
//
// A segment can be written again when as many bytes as the pipe has room for have been
// lent after it: then it has been read. Every segment but the last is full, so a pipe of n bytes,
// which is room for n/4096 pages, never holds pages of more than n bytes.
const segment = 256 << 10

// canLendImage tells whether an image may be lent. criu reads memory with read(2), which copies; if criu spliced an
// image into a file, lent pages could become the file's pages.
func canLendImage(name string) bool { return strings.HasPrefix(name, "pages-") }

// lendPages moves all of from into a pipe.
func lendPages(to *os.File, from io.Reader) (total int64, err error) {
	size, err := pipeRoom(to)
	if err != nil {
		return 0, err
	}
	segments := 2*((size+segment-1)/segment) + 1
	ring, err := unix.Mmap(-1, 0, segments*segment, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0, os.NewSyscallError("mmap", err)
	}
	defer unix.Munmap(ring) //nolint:errcheck // the pipe keeps its pages until they are read
	for n := 0; ; n = (n + 1) % segments {
		part := ring[n*segment : (n+1)*segment]
		got, err := io.ReadFull(from, part)
		if err := lendPart(to, part[:got]); err != nil {
			return total, err
		}
		total += int64(got)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// pipeRoom returns how many bytes a pipe can hold.
func pipeRoom(pipe *os.File) (size int, err error) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	if e := raw.Control(func(fd uintptr) { size, err = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }); e != nil {
		return 0, e
	}
	return size, os.NewSyscallError("F_GETPIPE_SZ", err)
}

func lendPart(to *os.File, b []byte) error {
	raw, err := to.SyscallConn()
	if err != nil {
		return err
	}
	for len(b) > 0 {
		var n int
		var moveErr error
		err := raw.Write(func(fd uintptr) bool {
			iov := []unix.Iovec{{Base: unsafe.SliceData(b)}}
			iov[0].SetLen(len(b))
			n, moveErr = unix.Vmsplice(int(fd), iov, unix.SPLICE_F_NONBLOCK)
			return !errors.Is(moveErr, unix.EAGAIN)
		})
		if err = errors.Join(err, moveErr); errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
