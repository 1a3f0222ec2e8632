// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// lookAtSockets notes the bytes in the queues of a process's TCP sockets: bytes that the process has not read, and
// bytes that have not arrived at the other end. If the other end is on this node, its queues are looked at too.
func (l *processSample) lookAtSockets(pid int) error {
	mine, err := readSockets(pid)
	if err != nil || len(mine) == 0 {
		return err
	}
	var all []tcpSocket
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if os.IsNotExist(err) && table == "tcp6" {
			continue // a kernel without IPv6
		}
		if err != nil {
			return err
		}
		all = append(all, parseTCP(string(b))...)
	}
	peers := map[string]bool{}
	for _, s := range all {
		if !mine[s.inode] {
			continue
		}
		peers[s.remote+" "+s.local] = true
		if s.tx != 0 || s.rx != 0 {
			l.noteBusy(fmt.Sprintf("%d bytes to send and %d to read at a socket", s.tx, s.rx))
		}
	}
	for _, s := range all {
		// Not the other end's receive queue: the bytes there come from this process, and the other end has not read them.
		if peers[s.local+" "+s.remote] && s.tx != 0 {
			l.noteBusy(fmt.Sprintf("%d bytes on the way from the other end of a socket", s.tx))
		}
	}
	return nil
}

// readSockets returns the inodes of a process's sockets.
func readSockets(pid int) (map[uint64]bool, error) {
	found := map[uint64]bool{}
	for d, err := range procfs.Descriptors(pid) {
		if err != nil {
			return nil, err
		}
		link, err := d.Link()
		if err != nil {
			continue // closed since
		}
		if inode, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]"), 10, 64); err == nil {
			found[inode] = true
		}
	}
	return found, nil
}

// tcpSocket is a line of /proc/net/tcp.
type tcpSocket struct {
	local, remote string // as the kernel writes them
	tx, rx        uint64
	inode         uint64
}

// parseTCP passes over lines in an unknown form. rx of a listening socket is the number
// of connections that wait to be accepted.
func parseTCP(table string) []tcpSocket {
	var all []tcpSocket
	for line := range strings.Lines(table) {
		// sl local remote st tx:rx tr:when retrnsmt uid timeout inode
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		txText, rxText, _ := strings.Cut(f[4], ":")
		tx, err1 := strconv.ParseUint(txText, 16, 64)
		rx, err2 := strconv.ParseUint(rxText, 16, 64)
		inode, err3 := strconv.ParseUint(f[9], 10, 64)
		if err1 == nil && err2 == nil && err3 == nil {
			all = append(all, tcpSocket{f[1], f[2], tx, rx, inode})
		}
	}
	return all
}
