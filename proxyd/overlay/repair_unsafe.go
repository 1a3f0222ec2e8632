// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tcpOption returns the first bytes of an option of a TCP socket.
func tcpOption(fd, option int, b []byte) error {
	n := uint32(len(b))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_TCP, uintptr(option),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return os.NewSyscallError("getsockopt", errno)
	}
	return nil
}
