// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package localsocktest sends packets that only a hostile peer sends.
package localsocktest

import (
	"net"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// SendEmptyPacket sends descriptors without a byte. Go's Sendmsg adds a byte to such a packet.
func SendEmptyPacket(t testing.TB, c *net.UnixConn, fds ...int) {
	t.Helper()
	rights := unix.UnixRights(fds...)
	m := unix.Msghdr{Control: &rights[0]}
	m.SetControllen(len(rights))
	var errno unix.Errno
	err := localsock.WithDescriptor(c, func(fd int) {
		_, _, errno = unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)), 0)
	})
	if err != nil || errno != 0 {
		t.Fatal(err, errno)
	}
}
