// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nodesocket

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxGroups is the largest number of supplementary groups that a caller may have. The kernel's bound is 65536, which
// any user with a range of subordinate ids can reach; the door's message about such a caller would be longer than a
// packet.
const maxGroups = 4096

// peerGroups returns the supplementary groups that a peer had when it connected
// (SO_PEERGROUPS, Linux 4.13).
func peerGroups(fd int) ([]uint32, error) {
	for n := 64; n <= maxGroups; n *= 4 {
		groups := make([]uint32, n)
		size := uint32(n) * 4
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		if errno == 0 {
			return groups[:size/4], nil
		}
		if errno != unix.ERANGE {
			return nil, errno
		}
	}
	return nil, errors.New("too many groups")
}
