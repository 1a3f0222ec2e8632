// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// OutsideSocket is a descriptor of a process for a connection to outside of its job, by TCP or by a unix socket.
type OutsideSocket struct {
	Link string // identifies the socket: several descriptors may share it
	From string // address and port of this end, "" for a unix socket
	To   string // address and port of the other end, or the name of its unix socket
	// Connecting says that the other end has not answered yet. The kernel asks again, also after a restore.
	Connecting bool

	Inode    uint32 // of a unix socket, else 0
	Datagram bool   // a unix socket for datagrams

	program string
	cgroup  string // the program's
	pid, fd int    // in this daemon's PID namespace
}

// maxOutside bounds the descriptors of a job's programs on a node for connections to outside. Descriptors of a process beyond
// procfs.MaxDescriptors are not among them: FindObstacles names such a process, and its dump fails.
const maxOutside = 1 << 16

var errManyOutside = fmt.Errorf("the programs have more than %d descriptors for connections to outside of the job", maxOutside)

// FindOutside returns the descriptors of programs for TCP connections to outside of the job. init is the init of the
// capsule, and ours are the addresses of the job's capsules.
func FindOutside(ctx context.Context, init int, programs []capsule.Program, ours []netip.Addr) ([]OutsideSocket, error) {
	outside, err := outsideConnections(init, func(a netip.Addr) bool { return a.IsLoopback() || slices.Contains(ours, a) })
	if err != nil || len(outside) == 0 {
		return nil, err
	}
	var found []OutsideSocket
	for _, p := range programs {
		if p.Ended || p.Waiting {
			continue
		}
		for _, pid := range InCgroup(p.Cgroup) {
			err := visitDescriptors(ctx, pid, func(d procfs.Descriptor) bool {
				link, err := d.Link()
				if to, ok := outside[link]; ok && err == nil {
					found = append(found, OutsideSocket{
						Link: link, From: to.from, To: to.to, Connecting: to.connecting,
						program: p.Name, cgroup: p.Cgroup, pid: pid, fd: d.Number,
					})
				}
				return len(found) <= maxOutside
			})
			if ctx.Err() != nil {
				return nil, err
			}
			if len(found) > maxOutside {
				return nil, errManyOutside
			}
		}
	}
	return found, nil
}

// OutsideObstacles returns an obstacle for each process and address of connections to outside, with the text of cure
// for each. init is the init of the capsule.
func OutsideObstacles(init int, sockets []OutsideSocket, cure func(OutsideSocket) string) []Obstacle {
	var all []Obstacle
	seen := map[Obstacle]bool{}
	for _, s := range sockets {
		o := Obstacle{
			Program: s.program, PID: capsulePID(init, s.pid), Name: commandName(s.pid),
			What: "is " + stateName(s.Connecting) + " to " + nameOther(s) + ", which is outside of the job", Cure: cure(s),
		}
		if !seen[o] {
			seen[o] = true
			all = append(all, o)
		}
	}
	return all
}

// nameOther names the other end of a connection.
func nameOther(s OutsideSocket) string {
	if s.Inode != 0 {
		return "the unix socket " + s.To
	}
	return s.To
}

func stateName(connecting bool) string {
	if connecting {
		return "connecting"
	}
	return "connected"
}

// Program is the name of the program that has the descriptor.
func (s OutsideSocket) Program() string { return s.program }

// Open returns a duplicate of the descriptor of a frozen program, as openSocket does.
func (s OutsideSocket) Open() (*os.File, error) { return openSocket(s.Link, s.cgroup, s.pid, s.fd) }

// ends are the addresses and ports of both ends of a connection.
type ends struct {
	from, to   string
	connecting bool
}

// outsideConnections returns the TCP connections of a network namespace to addresses outside,
// keyed by the links of their descriptors.
func outsideConnections(pid int, inside func(netip.Addr) bool) (map[string]ends, error) {
	found := map[string]ends{}
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if errors.Is(err, fs.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			return nil, err
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			w := strings.Fields(s.Text())
			// sl local remote state … inode; 0A listens, 07 is closed, 06 is TIME_WAIT, 02 waits for the other end
			if len(w) < 10 || w[3] == "0A" || w[3] == "07" || w[3] == "06" {
				continue
			}
			from, _ := parseAddrPort(w[1])
			to, ok := parseAddrPort(w[2])
			if ok && to.Port() != 0 && !inside(to.Addr()) {
				found["socket:["+w[9]+"]"] = ends{from.String(), to.String(), w[3] == "02"}
			}
		}
		f.Close()
	}
	return found, nil
}

// parseAddrPort parses "0100007F:1F90": words of 32 bits in host order.
func parseAddrPort(s string) (netip.AddrPort, bool) {
	a, p, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(a)
	port, perr := strconv.ParseUint(p, 16, 16)
	if err != nil || perr != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for w := b; len(w) > 0; w = w[4:] {
		slices.Reverse(w[:4])
	}
	addr, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr.Unmap(), uint16(port)), ok
}
