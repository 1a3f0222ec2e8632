// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ClientSockets returns n sockets of TCP in a diverted capsule, by which a process of the node connects to programs of the
// capsule in the place of clients outside: each may have any local address, that of the client. They are not connected,
// and do not block. The rules of Divert lead the program's packets to that address back to the socket. pid is a process
// of the capsule.
//
//	socket 192.0.2.9:5555 ──► lo ──► program at 100.64.0.8:8888
//	program ──► output: mark 0x5148 ──► ip rule: by lo ──► prerouting: tproxy ──► socket
//
// Packets of such a socket to other hosts, from an address that is not the capsule's, are dropped by
// the node's firewall.
func ClientSockets(pid, n int) (all []*os.File, err error) {
	err = withinNetworkNamespace(pid, func() error {
		for range n {
			f, err := clientSocket()
			if err != nil {
				return err
			}
			all = append(all, f)
		}
		return nil
	})
	if err != nil {
		for _, f := range all {
			f.Close()
		}
		return nil, fmt.Errorf("sockets for clients of process %d: %w", pid, err)
	}
	return all, nil
}

// HasUnaccepted tells whether programs of a capsule have connections at ports that they have not accepted yet. pid is a process
// of the capsule.
func HasUnaccepted(pid int, ports []uint16) (bool, error) {
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if errors.Is(err, fs.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			return false, err
		}
		for line := range strings.Lines(string(b)) {
			const established, notAccepted = "01", "0"
			w := strings.Fields(line) // sl local remote state tx:rx tr:when retries uid timeout inode
			if len(w) < 10 || w[3] != established || w[9] != notAccepted {
				continue
			}
			_, local, _ := strings.Cut(w[1], ":")
			if port, err := strconv.ParseUint(local, 16, 16); err == nil && slices.Contains(ports, uint16(port)) {
				return true, nil
			}
		}
	}
	return false, nil
}

func clientSocket() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "socket for a client")
	// A client may be at two ports of the job at once.
	for level, option := range map[int]int{unix.SOL_IP: unix.IP_TRANSPARENT, unix.SOL_SOCKET: unix.SO_REUSEADDR} {
		if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
			f.Close()
			return nil, os.NewSyscallError("setsockopt", err)
		}
	}
	return f, nil
}
