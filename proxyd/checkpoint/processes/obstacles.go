// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// Obstacle is a part of a job that cannot be captured.
type Obstacle struct {
	Program string `json:"program"`
	PID     int    `json:"pid"` // in the capsule
	Name    string `json:"name"`
	What    string `json:"what"`

	// Set by the leader.
	Node  string    `json:"-"`
	Since time.Time `json:"-"` // first attempt that found it
}

// WithSince sets the node, and the time at which the obstacle was first seen.
func (o Obstacle) WithSince(node string, now time.Time, before []Obstacle) Obstacle {
	o.Node, o.Since = node, now
	for _, old := range before {
		if o.Since = old.Since; o == old {
			return o
		}
	}
	o.Since = now
	return o
}

func (o Obstacle) String() string { return fmt.Sprintf("%s (PID %d) %s", o.Name, o.PID, o.What) }

// uncapturableDevices have state outside of the process.
var uncapturableDevices = []struct{ prefix, what string }{
	{"/dev/pts/", "has a terminal from outside of the program, "},
	{"/dev/nvidia", "holds a GPU by itself, "},
	{"/dev/infiniband/", "holds an RDMA device, "},
	{"/dev/kvm", "runs a virtual machine, "},
	{"/dev/fuse", "serves a file system, "},
	{"anon_inode:[io_uring]", "uses io_uring"},
	{"anon_inode:[perf_event]", "measures performance counters"},
	{"anon_inode:bpf", "holds a BPF program or map"},
	{"anon_inode:[userfaultfd]", "handles page faults itself"},
}

// FindObstacles looks for what cannot be captured in the programs of a capsule, whose init is init. ours are the
// addresses of the job's capsules. CRIU finds the rest later; then the checkpoint only takes longer to fail.
func FindObstacles(init int, programs []capsule.Program, ours []netip.Addr) ([]Obstacle, error) {
	outside, err := outsideConnections(init, func(a netip.Addr) bool { return a.IsLoopback() || slices.Contains(ours, a) })
	if err != nil {
		return nil, err
	}
	var found []Obstacle
	for _, p := range programs {
		if p.Ended || p.Waiting {
			continue
		}
		pids := InCgroup(p.Cgroup)
		own := terminalsOf(init, pids)
		for _, pid := range pids {
			found = append(found, processObstacles(p, pid, outside, own)...)
		}
	}
	return found, nil
}

func processObstacles(p capsule.Program, pid int, outside map[string]string, own terminals) []Obstacle {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return nil // the process has ended
	}
	var found []Obstacle
	see := func(what string) {
		o := Obstacle{Program: p.Name, PID: NamespacePID(pid), Name: commandName(pid), What: what}
		if !slices.Contains(found, o) {
			found = append(found, o)
		}
	}
	pmi := slurmPMI(pid)
	for _, fd := range fds {
		path := filepath.Join(dir, fd.Name())
		link, err := os.Readlink(path)
		if err != nil || own.isOwn(path, link) {
			continue
		}
		if to, ok := outside[link]; ok {
			see("is connected to " + to + ", which is outside of the job")
		}
		if fd.Name() == pmi && strings.HasPrefix(link, "socket:") {
			see("is connected to Slurm by srun --mpi=pmi2: start MPI programs with mpiexec, others with --mpi=none")
		}
		for _, d := range uncapturableDevices {
			if strings.HasPrefix(link, d.prefix) {
				if strings.HasSuffix(d.what, ", ") {
					see(d.what + link)
				} else {
					see(d.what)
				}
			}
		}
	}
	return found
}

// outsideConnections returns the TCP connections of a network namespace to addresses outside,
// keyed by the links of their descriptors.
func outsideConnections(pid int, inside func(netip.Addr) bool) (map[string]string, error) {
	found := map[string]string{}
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
			// sl local remote state … inode; 0A listens, 07 is closed, 06 waits for nothing
			if len(w) < 10 || w[3] == "0A" || w[3] == "07" || w[3] == "06" {
				continue
			}
			to, ok := parseAddrPort(w[2])
			if ok && to.Port() != 0 && !inside(to.Addr()) {
				found["socket:["+w[9]+"]"] = to.String()
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
